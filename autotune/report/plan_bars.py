"""Bars of the compared plans: unfused, greedy, heuristic and found, for one figure."""

from __future__ import annotations

from collections.abc import Callable

from autotune.report.svg import Picture
from autotune.report.view import PlanCosts

WIDTH = 330
ROW = 30
LABEL = 66
VALUE = 118


def plan_bars(title: str, costs: PlanCosts, format_value: Callable[[float], str]) -> str:
    """Draw a horizontal bar for each plan, with its value and its ratio to the first one's."""
    rows = [
        (name, value)
        for name, value in (
            ("unfused", costs.unfused),
            ("greedy", costs.greedy),
            ("heuristic", costs.heuristic),
            ("found", costs.found),
        )
        if value is not None
    ]
    picture = Picture(WIDTH, ROW * len(rows) + 4, title)
    longest = max((value for _, value in rows), default=0.0) or 1.0
    room = WIDTH - LABEL - VALUE
    for i, (name, value) in enumerate(rows):
        y = i * ROW + 6
        picture.label(LABEL - 8, y + 13, name, "label", "end")
        picture.rect(LABEL, y, room, 18, "track")
        picture.rect(LABEL, y, room * value / longest, 18, f"plan-{name}")
        picture.label(LABEL + room + 8, y + 13, format_value(value), "number")
        if i and costs.base:
            picture.label(WIDTH - 2, y + 13, f"{value / costs.base:.2f}×", "ratio", "end")
    return picture.text()
