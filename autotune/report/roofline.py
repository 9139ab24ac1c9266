"""The roofline plot: rate of each group under the roofs of its machine.

After Williams, Waterman, Patterson: Roofline, CACM 52(4), 2009; work counted in multiply-adds.
"""

from __future__ import annotations

from autotune.report.axis import Axis, short
from autotune.report.svg import Picture
from autotune.report.view import GroupRow
from autotune.targets.spec import HardwareSpec

HEIGHT = 400
LEFT, TOP, BOTTOM = 62, 14, HEIGHT - 48


def roofline(groups: tuple[GroupRow, ...], spec: HardwareSpec, width: float) -> str:
    """Draw multiply-adds per cycle over multiply-adds per DRAM byte, under the machine's two roofs.

    Each group is a disc; its area is the group's share of the time.
    """
    points = [
        (row, row.intensity, row.multiply_adds / row.cycles)
        for row in groups
        if row.intensity is not None and row.cycles
    ]
    peak = float(spec.peak_macs_per_cycle)
    ridge = peak / spec.dram.bytes_per_cycle
    x = Axis(
        min([ridge / 4, *(at / 1.5 for _, at, _ in points)]),
        max([ridge * 8, *(at * 1.5 for _, at, _ in points)]),
        LEFT,
        width - 14,
        log=True,
    )
    lowest = min([peak / 8, *(rate / 1.6 for _, _, rate in points)])
    highest = max([1.0, *(row.macs_per_cell for row, _, _ in points)])
    y = Axis(lowest, peak * highest * 1.8, BOTTOM, TOP, log=True)
    picture = Picture(width, HEIGHT, "Roofline of the groups of the found plan")
    picture.grid(x, y, "multiply-adds per byte of DRAM traffic", "multiply-adds per cycle")
    _roofs(picture, x, y, spec, ridge)
    total = sum(row.cycles for row in groups) or 1.0
    for row, intensity, rate in sorted(points, key=lambda point: -point[0].cycles):
        limit = min(peak * row.macs_per_cell, intensity * spec.dram.bytes_per_cycle)
        tip = (
            f"#{row.index} {row.title}\n{rate:.3g} multiply-adds per cycle, {rate / limit:.0%} of "
            f"its roof\n{intensity:.3g} multiply-adds per byte\n{row.cycles / total:.1%} of the time"
        )
        with picture.linked(row.index):
            picture.circle(
                x(intensity), y(rate), 3 + 26 * (row.cycles / total) ** 0.5, "point", tip
            )
    return picture.text()


def roof_share(row: GroupRow, spec: HardwareSpec) -> float | None:
    """Return the rate of a group over that of its roof; None without multiply-adds or traffic."""
    if row.intensity is None or not row.cycles:
        return None
    peak = spec.peak_macs_per_cycle * row.macs_per_cell
    limit = min(peak, row.intensity * spec.dram.bytes_per_cycle)
    return row.multiply_adds / row.cycles / limit


def _roofs(picture: Picture, x: Axis, y: Axis, spec: HardwareSpec, ridge: float) -> None:
    peak = spec.peak_macs_per_cycle
    bandwidth = spec.dram.bytes_per_cycle
    foot = max(x.low, y.low / bandwidth)
    picture.polyline(
        [(x(foot), y(foot * bandwidth)), (x(ridge), y(peak)), (x.end, y(peak))], "roof"
    )
    picture.label(x.end - 4, y(peak) - 7, f"{short(peak)} multiply-adds a cycle", "note", "end")
    middle = (foot * ridge) ** 0.5
    picture.label(
        x(middle) - 8, y(middle * bandwidth) - 8, f"{bandwidth:g} bytes a cycle", "note", "end"
    )
