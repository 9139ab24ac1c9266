"""The found plan as a picture: the network from top to bottom, one box per fusion group."""

from __future__ import annotations

from dataclasses import dataclass

from autotune.operators.families import FAMILIES
from autotune.operators.op import OPERATORS, OpKind
from autotune.report.svg import CHARACTER_PIXELS, Picture, shorten
from autotune.report.view import GroupRow

WIDTH = 1040
BOX_RIGHT = 770
LANE = 9
MAX_LANES = 12
CHIP = 18
GAP = 9
SHARE_LEFT = 906
SHARE_WIDTH = 88


@dataclass(frozen=True, slots=True)
class _Chip:
    """One operator inside a box, at an offset from the box's corner."""

    x: float
    y: float
    width: float
    kind: str
    name: str


@dataclass(frozen=True, slots=True)
class _Box:
    """One group with its place in the picture."""

    row: GroupRow
    y: float
    height: float
    chips: tuple[_Chip, ...]

    @property
    def middle(self) -> float:
        return self.y + self.height / 2


def fusion_graph(groups: tuple[GroupRow, ...]) -> str:
    """Boxes in execution order with their operators; lines on the left join a group to a later
    one that reads its result past its neighbour; bars on the right are shares of the time."""
    arcs = [(i, row.index) for row in groups for i in row.reads if row.index - i > 1]
    lanes = _lanes(arcs)
    left = 46 + LANE * (min(max(lanes.values(), default=-1), MAX_LANES) + 1) + 10
    boxes = _layout(groups, left)
    picture = Picture(WIDTH, boxes[-1].y + boxes[-1].height + 8, "Fusion groups of the found plan")
    total = sum(row.cycles for row in groups) or 1.0
    for (source, reader), lane in lanes.items():
        _arc(picture, boxes[source], boxes[reader], left, min(lane, MAX_LANES))
    for box in boxes:
        if box.row.index - 1 in box.row.reads:
            picture.line(left + 22, box.y - GAP + 1, left + 22, box.y - 1, "edge")
        _draw(picture, box, left, box.row.cycles / total)
    return picture.text()


def _lanes(arcs: list[tuple[int, int]]) -> dict[tuple[int, int], int]:
    """A lane for every arc, such that arcs in one lane do not overlap; short arcs innermost."""
    lanes: dict[tuple[int, int], int] = {}
    for arc in sorted(dict.fromkeys(arcs), key=lambda a: (a[1] - a[0], a)):
        taken = {lane for other, lane in lanes.items() if arc[0] < other[1] and other[0] < arc[1]}
        lanes[arc] = next(i for i in range(len(lanes) + 1) if i not in taken)
    return lanes


def _layout(groups: tuple[GroupRow, ...], left: float) -> tuple[_Box, ...]:
    boxes = []
    y = 6.0
    for row in groups:
        chips = _chips(row, BOX_RIGHT - left)
        height = chips[-1].y + CHIP + 5
        boxes.append(_Box(row, y, height, chips))
        y += height + GAP
    return tuple(boxes)


def _chips(row: GroupRow, room: float) -> tuple[_Chip, ...]:
    chips = []
    x, y = 6.0, 5.0
    for kind, name in zip(row.operators, row.names, strict=True):
        width = len(kind) * CHARACTER_PIXELS + 14
        if x + width > room - 6 and x > 6:
            x, y = 6.0, y + CHIP + 4
        chips.append(_Chip(x, y, width, kind, name))
        x += width + 5
    return tuple(chips)


def _draw(picture: Picture, box: _Box, left: float, share: float) -> None:
    row = box.row
    style = "box-view" if row.is_view else "box" if len(row.operators) > 1 else "box-single"
    tip = (
        f"#{row.index}: {row.cycles:,.0f} cycles, {share:.1%} of the time\nschedule {row.schedule}"
    )
    picture.label(34, box.middle + 4, f"#{row.index}", "tick", "end")
    picture.rect(left, box.y, BOX_RIGHT - left, box.height, style, tip, rx=5)
    for chip in box.chips:
        x, y = left + chip.x, box.y + chip.y
        style = f"chip-{FAMILIES[OPERATORS[OpKind(chip.kind)].family].work}"
        picture.rect(x, y, chip.width, CHIP, style, chip.name, rx=4)
        picture.label(x + chip.width / 2, y + 13, chip.kind, "chip-label", "middle", chip.name)
    shape = "×".join(map(str, row.output_shape)) or "scalar"
    picture.label(
        BOX_RIGHT + 10, box.middle + 4, shorten(shape, SHARE_LEFT - BOX_RIGHT - 14), "tick"
    )
    picture.rect(SHARE_LEFT, box.middle - 5, SHARE_WIDTH * share**0.5, 10, "bar-measured", tip)
    picture.label(WIDTH - 2, box.middle + 4, f"{share:.1%}", "tick", "end")


def _arc(picture: Picture, source: _Box, reader: _Box, left: float, lane: int) -> None:
    x = left - 10 - LANE * lane
    picture.path(
        f"M{left:.1f} {source.middle + 4:.1f}H{x + 5:.1f}q-5 0 -5 5V{reader.middle - 9:.1f}"
        f"q0 5 5 5H{left:.1f}",
        "arc",
        f"#{reader.row.index} reads #{source.row.index}",
    )
