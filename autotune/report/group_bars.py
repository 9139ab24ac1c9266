"""Bars of the slowest groups of the found plan: measured and predicted time."""

from __future__ import annotations

from autotune.report.axis import Axis, covering, short
from autotune.report.svg import Picture, shorten
from autotune.report.view import GroupRow

WIDTH = 1040
ROW = 22
LABEL = 330
TOP = 8
BOTTOM = 46
SHOWN = 24


def group_bars(groups: tuple[GroupRow, ...]) -> str:
    """Draw one bar per group in execution order, of the ``SHOWN`` slowest groups.

    Measured cycles are solid, the prediction is a tick with its interval, the roofline bound a dot.
    """
    shown = sorted(sorted(groups, key=lambda row: -row.cycles)[:SHOWN], key=lambda row: row.index)
    height = TOP + ROW * len(shown) + BOTTOM
    picture = Picture(WIDTH, height, "Measured and predicted cycles of each group")
    longest = [max(row.cycles, row.high_cycles, row.predicted_cycles) for row in shown]
    x = covering(longest, LABEL, WIDTH - 70)
    base = TOP + ROW * len(shown)
    for value in x.ticks():
        picture.line(x(value), TOP, x(value), base, "grid")
        picture.label(x(value), base + 16, short(value), "tick", "middle")
    picture.label((x.start + x.end) / 2, base + 36, "cycles", "axis-title", "middle")
    total = sum(row.cycles for row in groups) or 1.0
    for i, row in enumerate(shown):
        _bar(picture, x, TOP + i * ROW, row, row.cycles / total)
    return picture.text()


def _bar(picture: Picture, x: Axis, y: float, row: GroupRow, share: float) -> None:
    middle = y + ROW / 2
    tip = (
        f"#{row.index} {row.title}\nmeasured {row.cycles:,.0f} cycles ({share:.1%} of the plan)\n"
        f"predicted {row.predicted_cycles:,.0f} ({row.low_cycles:,.0f} to {row.high_cycles:,.0f})\n"
        f"roofline bound {row.bound_cycles:,.0f}"
    )
    picture.label(
        LABEL - 8,
        middle + 4,
        shorten(f"#{row.index}  {row.title}", LABEL - 16),
        "label",
        "end",
        tip,
    )
    picture.rect(LABEL, y + 4, x(row.cycles) - LABEL, ROW - 8, "bar-measured", tip)
    picture.line(x(row.low_cycles), middle, x(row.high_cycles), middle, "interval", tip)
    picture.line(
        x(row.predicted_cycles), y + 2, x(row.predicted_cycles), y + ROW - 2, "tick-predicted", tip
    )
    picture.circle(x(row.bound_cycles), middle, 2.6, "dot-bound", tip)
    picture.label(x(max(row.cycles, row.high_cycles)) + 8, middle + 4, f"{share:.1%}", "tick")
