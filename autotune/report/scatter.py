"""Scatter plot of predicted against measured time of every measured group."""

from __future__ import annotations

from autotune.report.axis import covering
from autotune.report.svg import Picture
from autotune.report.view import GroupRow, TimeScale

HEIGHT = 400
LEFT, TOP, BOTTOM = 62, 14, HEIGHT - 48
BAND = 0.10
"""Relative error at the border of the shaded band."""


def scatter(groups: tuple[GroupRow, ...], width: float, scale: TimeScale) -> str:
    """Draw a point per group on logarithmic axes, with its interval; exact predictions lie on the diagonal."""
    rows = [row for row in groups if row.measured_cycles and row.predicted_cycles > 0]
    unit = scale.per_cycle
    values = [v * unit for row in rows for v in (row.cycles, row.low_cycles, row.high_cycles)]
    x = covering(values, LEFT, width - 14, log=True)
    y = covering(values, BOTTOM, TOP, log=True)
    picture = Picture(width, HEIGHT, "Predicted over measured cycles of each group")
    picture.path(
        f"M{x.start} {y(x.low * (1 - BAND)):.1f}L{x.end} {y(x.high * (1 - BAND)):.1f}"
        f"L{x.end} {y(x.high * (1 + BAND)):.1f}L{x.start} {y(x.low * (1 + BAND)):.1f}Z",
        "band",
    )
    picture.grid(x, y, f"measured {scale.unit}", f"predicted {scale.unit}")
    picture.line(x.start, y.start, x.end, y.end, "diagonal")
    for row in rows:
        error = row.error or 0.0
        tip = (
            f"#{row.index} {row.title}\nmeasured {scale.text(row.cycles)}, predicted "
            f"{scale.text(row.predicted_cycles)} ({error:+.1%})"
        )
        at, low, high = x(row.cycles * unit), y(row.low_cycles * unit), y(row.high_cycles * unit)
        with picture.linked(row.index):
            picture.line(at, low, at, high, "interval")
            picture.circle(at, y(row.predicted_cycles * unit), 4, "point", tip)
    return picture.text()
