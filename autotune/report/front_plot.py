"""Scatter of machines: energy over time of a run, a disc's area the machine's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from autotune.report.axis import covering
from autotune.report.svg import Picture

WIDTH, HEIGHT = 720, 420
LEFT, RIGHT, TOP, BOTTOM = 66, WIDTH - 16, 14, HEIGHT - 48
LARGEST = 15.0
"""Radius of the largest machine."""


@dataclass(frozen=True, slots=True)
class Disc:
    """A machine: milliseconds and microjoules of a run, mm², its class of the style sheet, and its tip."""

    milliseconds: float
    microjoules: float
    area_mm2: float
    style: str
    tip: str


def front_plot(discs: Sequence[Disc]) -> str:
    """Draw a disc per machine on logarithmic axes, the last ones on top."""
    x = covering([disc.milliseconds for disc in discs], LEFT, RIGHT, log=True)
    y = covering([disc.microjoules for disc in discs], BOTTOM, TOP, log=True)
    largest = max(disc.area_mm2 for disc in discs)
    picture = Picture(WIDTH, HEIGHT, "Energy over time of a run on every machine")
    picture.grid(x, y, "milliseconds of a run", "µJ of a run")
    for disc in discs:
        radius = LARGEST * (disc.area_mm2 / largest) ** 0.5
        place = x(disc.milliseconds), y(disc.microjoules)
        picture.circle(*place, max(2.0, radius), disc.style, disc.tip)
    return picture.text()
