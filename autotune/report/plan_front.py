"""Plans between least latency and least energy, or memory: that over time of a run."""

from __future__ import annotations

from collections.abc import Sequence

from autotune.report.axis import Axis
from autotune.report.svg import NARROW, Picture
from autotune.report.view import FrontRow, TimeScale

HEIGHT = 360
LEFT, TOP, BOTTOM = 62, 14, HEIGHT - 48
ROOM = 0.15
"""Room around the points, of their range."""
MICROJOULES = 1e-9
"""Microjoules of a femtojoule."""
KIBIBYTE = 1024


def plan_front(rows: Sequence[FrontRow], width: float, scale: TimeScale) -> str:
    """Draw a point per plan on linear axes around them, joined in order; a square marks the least product.

    Energy where it is known, else peak memory."""
    by_energy = all(row.energy_fj for row in rows)
    label = "energy, µJ" if by_energy else "peak memory, KiB"
    times = [row.cycles * scale.per_cycle for row in rows]
    others = [
        row.energy_fj * MICROJOULES if by_energy else row.peak_bytes / KIBIBYTE for row in rows
    ]
    x, y = _around(times, LEFT, width - 14), _around(others, BOTTOM, TOP)
    title = "Energy" if by_energy else "Peak memory"
    picture = Picture(width, HEIGHT, f"{title} over time of a run by every plan of the front")
    picture.grid(x, y, f"time of a run, {scale.unit}", label)
    points = [(x(time), y(other)) for time, other in zip(times, others, strict=True)]
    if len(points) > 1:
        picture.polyline(points, "edge")
    best = min(range(len(rows)), key=lambda at: rows[at].energy_delay) if by_energy else -1
    for number, (row, other, point) in enumerate(zip(rows, others, points, strict=True), 1):
        tip = f"{row.plan_file}\n{scale.text(row.cycles)}, {other:,.1f} {label.split()[-1]}"
        (picture.square if number - 1 == best else picture.circle)(*point, 6, "point", tip)
        above = point[1] - 11 if width > NARROW else point[1] - 9
        picture.label(point[0], above, str(number), "tick", "middle")
    return picture.text()


def _around(values: Sequence[float], start: float, end: float) -> Axis:
    low, high = min(values), max(values)
    room = ROOM * (high - low) or 0.05 * high or 1.0
    return Axis(low - room, high + room, start, end)
