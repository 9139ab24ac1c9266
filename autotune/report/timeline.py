"""Timeline: the groups of the found plan one after the other, above them their operators run apart."""

from __future__ import annotations

from collections.abc import Iterable

from autotune.report.axis import Axis, short
from autotune.report.network_graph import work_of
from autotune.report.svg import CHARACTER_PIXELS, Picture, shorten
from autotune.report.view import GroupRow, TimeScale

LANE = 34
TOP = 20
APART = 18
"""Pixels between the lanes, for the second one's title."""


def timeline(groups: tuple[GroupRow, ...], width: float, scale: TimeScale) -> str:
    """Draw one lane of the operators run apart, where all are known, and one of the groups, to one scale of
    time."""
    knows_apart = all(row.apart_cycles or row.is_view for row in groups)
    found = sum(row.cycles for row in groups) or 1.0
    apart = sum(sum(row.apart_cycles) for row in groups) if knows_apart else 0.0
    x = Axis(0.0, max(found, apart) * scale.per_cycle, 6, width - 6)
    lanes = 2 if knows_apart else 1
    base = TOP + lanes * LANE + (lanes - 1) * APART
    picture = Picture(width, base + 40, "The plan over time")
    for value in x.ticks(5 if width < 500 else 9):
        picture.line(x(value), TOP, x(value), base, "grid")
        picture.label(x(value), base + 16, short(value), "tick", "middle")
    picture.label((x.start + x.end) / 2, base + 34, scale.unit, "axis-title", "middle")
    y = float(TOP)
    if knows_apart:
        how = "" if all(row.apart_is_measured for row in groups) else ", predicted"
        operators = sum(len(row.operators) for row in groups)
        picture.label(6, y - 6, f"{operators} operators apart{how}: {scale.text(apart)}", "note")
        _lane(picture, x, y, scale, _apart(groups))
        y += LANE + APART
    picture.label(6, y - 6, f"{len(groups)} groups: {scale.text(found)}", "note strong")
    _lane(
        picture,
        x,
        y,
        scale,
        ((row, f"#{row.index} {row.title}", row.operators, row.cycles) for row in groups),
    )
    return picture.text()


_Segment = tuple[GroupRow, str, tuple[str, ...], float]
"""The group that a segment belongs to, its text, the kinds of its operators, and its cycles."""


def _apart(groups: tuple[GroupRow, ...]) -> Iterable[_Segment]:
    for row in groups:
        for kind, name, cycles in zip(row.operators, row.names, row.apart_cycles, strict=False):
            yield row, f"{kind} {name}", (kind,), cycles


def _lane(
    picture: Picture, x: Axis, y: float, scale: TimeScale, segments: Iterable[_Segment]
) -> None:
    at = 0.0
    for row, text, kinds, cycles in segments:
        start, end = x(at * scale.per_cycle), x((at + cycles) * scale.per_cycle)
        at += cycles
        if end - start < 0.05:
            continue
        with picture.linked(row.index):
            tip = f"{text}: {scale.text(cycles)}, in group #{row.index}"
            style = f"segment segment-{work_of(kinds)}"
            picture.rect(start, y, end - start, LANE, style, tip, rx=0)
            number = f"#{row.index}"
            if end - start > CHARACTER_PIXELS * len(number) + 6 and text.startswith("#"):
                label = shorten(text, end - start - 8)
                picture.label(
                    start + 4, y + 21, label if len(label) > 12 else number, "inside", tip=tip
                )
