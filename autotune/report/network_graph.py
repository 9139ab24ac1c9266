"""The found plan as a picture: a box per fusion group, column after column, and lines to its readers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from autotune.operators.families import FAMILIES
from autotune.operators.op import OPERATORS, OpKind
from autotune.report.svg import CHARACTER_PIXELS, NARROW, Picture, shorten
from autotune.report.view import GroupRow, TimeScale

BOX_WIDTH = 150
"""Least pixels of a box; as many columns as fit."""
FEWEST = 6
"""Groups that a column has at least."""
ROOMY = 64
"""Groups up to which a box has two lines; above, one."""
GAP = 10
MOST_COLUMNS = 5


@dataclass(frozen=True, slots=True)
class _Place:
    """Where the box of a group stands."""

    column: int
    x: float
    y: float


@dataclass(frozen=True, slots=True)
class _Layout:
    """Sizes of all boxes, and the place of each."""

    width: float
    height: float
    channel: float
    """Pixels between columns, for lines."""
    places: tuple[_Place, ...]


def work_of(kinds: Sequence[str]) -> str:
    """Return the kind of work that a group is coloured by: of its operators that of most weight."""
    works = [FAMILIES[OPERATORS[OpKind(kind)].family].work for kind in kinds]
    return next((work for work in ("matrix", "window", "vector") if work in works), "move")


def network_graph(groups: tuple[GroupRow, ...], width: float, scale: TimeScale) -> str:
    """Draw every group in running order, down one column and then the next.

    The bar in a box is the group's share of the time, its length by the square root.
    """
    layout = _laid_out(len(groups), width)
    height = max(place.y for place in layout.places) + layout.height + 8
    picture = Picture(width, height, "The network, group by group")
    for row in groups:
        for number, source in enumerate(row.reads):
            cost = f": {row.read_costs[number].text}" if row.read_costs else ""
            _edge(picture, layout, source, row.index, cost)
    total = sum(row.cycles for row in groups) or 1.0
    for row, place in zip(groups, layout.places, strict=True):
        with picture.linked(row.index):
            _box(picture, layout, row, place, row.cycles / total, scale)
    return picture.text()


def _laid_out(count: int, width: float) -> _Layout:
    channel = 26.0 if width > NARROW else 14.0
    fitting = max(1, int((width + channel) // (BOX_WIDTH + channel)))
    columns = min(fitting, MOST_COLUMNS, max(1, math.ceil(count / FEWEST)))
    rows = math.ceil(count / columns)
    columns = math.ceil(count / rows)
    box = min((width - channel * (columns + 1)) / columns, 340.0)
    height = 42.0 if count <= ROOMY else 24.0
    left = (width - columns * box - (columns - 1) * channel) / 2
    places = []
    for i in range(count):
        column, row = divmod(i, rows)
        places.append(_Place(column, left + column * (box + channel), 8 + row * (height + GAP)))
    return _Layout(box, height, channel, tuple(places))


def _edge(picture: Picture, layout: _Layout, source: int, reader: int, cost: str) -> None:
    """Draw a line from a group to one that reads its result; selecting either one shows it."""
    a, b = layout.places[source], layout.places[reader]
    tip = f"#{reader} reads #{source}{cost}"
    style = f"edge from-{source} to-{reader}"
    middle = layout.height / 2
    if a.column == b.column and reader == source + 1:
        x = a.x + layout.width / 2
        picture.line(x, a.y + layout.height, x, b.y, style, tip)
        return
    if a.column == b.column:
        bow = min(layout.channel - 4.0, 8.0 + 2.0 * (reader - source))
        data = (
            f"M{a.x:.1f} {a.y + middle:.1f}C{a.x - bow:.1f} {a.y + middle:.1f} "
            f"{b.x - bow:.1f} {b.y + middle:.1f} {b.x:.1f} {b.y + middle:.1f}"
        )
    else:
        start, end = a.x + layout.width, b.x
        bend = max(layout.channel, (end - start) / 2)
        data = (
            f"M{start:.1f} {a.y + middle:.1f}C{start + bend:.1f} {a.y + middle:.1f} "
            f"{end - bend:.1f} {b.y + middle:.1f} {end:.1f} {b.y + middle:.1f}"
        )
    picture.path(data, style, tip)


def _box(
    picture: Picture, layout: _Layout, row: GroupRow, place: _Place, share: float, scale: TimeScale
) -> None:
    x, y, width, height = place.x, place.y, layout.width, layout.height
    tip = f"#{row.index} {row.title}: {scale.text(row.cycles)}, {share:.1%} of the time"
    kind = "view" if row.is_view else work_of(row.operators)
    fused = " fused" if len(row.operators) > 1 else ""
    picture.rect(x, y, width, height, f"box box-{kind}{fused}", tip, rx=6)
    picture.rect(x, y + height - 3.5, width * math.sqrt(share), 3.5, "share", tip, rx=1.5)
    cost = f"{share:.1%}"
    if height < 40:
        room = width - 16 - CHARACTER_PIXELS * len(cost) - 8
        picture.label(x + 8, y + 15, shorten(f"#{row.index} {row.title}", room), "label", tip=tip)
        picture.label(x + width - 8, y + 15, cost, "tick", "end", tip)
        return
    picture.label(x + 8, y + 16, shorten(f"#{row.index} {row.title}", width - 16), "label", tip=tip)
    picture.label(x + 8, y + 33, scale.text(row.cycles), "tick", tip=tip)
    picture.label(x + width - 8, y + 33, cost, "tick", "end", tip)
