"""Bars of one figure over machines, a bar each, for one network."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from autotune.report.svg import CHARACTER_PIXELS, Picture, shorten

WIDTH, ROW, VALUE = 720, 24, 150
MOST_LABEL = 330


@dataclass(frozen=True, slots=True)
class Bar:
    """A machine's bar: what it is called, its value (None: none), the value as text, and more in the tip."""

    label: str
    value: float | None
    text: str
    tip: str


def machine_bars(title: str, bars: Sequence[Bar]) -> str:
    """Draw horizontal bars from zero, each with its value."""
    longest = max((bar.value for bar in bars if bar.value is not None), default=0.0) or 1.0
    label = min(MOST_LABEL, 12 + CHARACTER_PIXELS * max(len(bar.label) for bar in bars))
    room = WIDTH - label - VALUE
    picture = Picture(WIDTH, ROW * len(bars) + 4, title)
    for number, bar in enumerate(bars):
        y = number * ROW + 4
        picture.label(label - 8, y + 13, shorten(bar.label, label - 8), "label", "end", bar.label)
        picture.rect(label, y, room, 16, "track")
        if bar.value is not None:
            picture.rect(label, y, room * bar.value / longest, 16, "bar", bar.tip)
        picture.label(label + room + 8, y + 13, bar.text, "number")
    return picture.text()
