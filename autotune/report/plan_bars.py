"""Bars of the three plans: unfused, greedy and found, for one figure."""

from __future__ import annotations

from collections.abc import Callable

from autotune.report.svg import Picture
from autotune.report.view import PlanCosts

WIDTH = 330
ROW = 30
LABEL = 66
VALUE = 118


def plan_bars(title: str, costs: PlanCosts, format_value: Callable[[float], str]) -> str:
    """Draw three horizontal bars, each with its value and its ratio to the unfused plan."""
    rows = [
        (name, value)
        for name, value in (
            ("unfused", costs.unfused),
            ("greedy", costs.greedy),
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
        if name != "unfused" and costs.unfused:
            picture.label(WIDTH - 2, y + 13, f"{value / costs.unfused:.2f}×", "ratio", "end")
    return picture.text()
