"""Bars of the slowest groups of the found plan: measured and predicted time."""

from __future__ import annotations

from autotune.report.axis import Axis, covering, short
from autotune.report.svg import NARROW, Picture, shorten
from autotune.report.view import GroupRow, TimeScale

ROW = 24
TOP = 8
BOTTOM = 40
SHOWN = 24


def group_bars(groups: tuple[GroupRow, ...], width: float, scale: TimeScale) -> str:
    """Draw one bar per group in execution order, of the ``SHOWN`` slowest groups.

    Measured cost is solid, the prediction is a tick with its interval, the roofline bound a dot. Labels stand
    above the bars of a narrow picture.
    """
    shown = sorted(sorted(groups, key=lambda row: -row.cycles)[:SHOWN], key=lambda row: row.index)
    above = width <= NARROW * 1.5
    pitch = ROW + 14 if above else ROW
    base = TOP + pitch * len(shown)
    picture = Picture(width, base + BOTTOM, "Measured and predicted cost of each group")
    longest = [max(row.cycles, row.high_cycles, row.predicted_cycles) for row in shown]
    left = 4.0 if above else 330.0
    x = covering([cycles * scale.per_cycle for cycles in longest], left, width - 56)
    for value in x.ticks(4 if above else 7):
        picture.line(x(value), TOP, x(value), base, "grid")
        picture.label(x(value), base + 16, short(value), "tick", "middle")
    picture.label(x.end, base + 32, scale.unit, "axis-title", "end")
    total = sum(row.cycles for row in groups) or 1.0
    for i, row in enumerate(shown):
        with picture.linked(row.index):
            _bar(picture, x, TOP + i * pitch, row, row.cycles / total, scale, above)
    return picture.text()


def _bar(
    picture: Picture, x: Axis, y: float, row: GroupRow, share: float, scale: TimeScale, above: bool
) -> None:
    tip = (
        f"#{row.index} {row.title}\n{scale.text(row.cycles)} ({share:.1%} of the plan)\n"
        f"predicted {scale.text(row.predicted_cycles)} ({scale.number(row.low_cycles)} to "
        f"{scale.number(row.high_cycles)})\nroofline bound {scale.text(row.bound_cycles)}"
    )
    name = f"#{row.index}  {row.title}"
    if above:
        picture.label(x.start, y + 11, shorten(name, x.end - x.start), "label", tip=tip)
        y += 13
    else:
        picture.label(x.start - 8, y + 16, shorten(name, x.start - 16), "label", "end", tip)

    def at(cycles: float) -> float:
        return x(cycles * scale.per_cycle)

    middle = y + ROW / 2
    picture.rect(x.start, y + 4, at(row.cycles) - x.start, ROW - 8, "bar-measured", tip)
    picture.line(at(row.low_cycles), middle, at(row.high_cycles), middle, "interval", tip)
    tick = at(row.predicted_cycles)
    picture.line(tick, y + 2, tick, y + ROW - 2, "tick-predicted", tip)
    picture.circle(at(row.bound_cycles), middle, 2.6, "dot-bound", tip)
    picture.label(at(max(row.cycles, row.high_cycles)) + 8, middle + 4, f"{share:.1%}", "tick")
