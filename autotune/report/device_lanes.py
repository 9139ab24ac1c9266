"""Lanes of one request on several devices: a lane for each device, and one for each direction of a link."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from autotune.report.axis import Axis, short
from autotune.report.svg import CHARACTER_PIXELS, Picture, shorten

WIDTH, TOP = 1040, 6
DEVICE_LANE, LINK_LANE, GAP = 30, 12, 8
MOST_LABEL = 220
SHORTEST = 0.05
"""Pixels below which a piece is not drawn."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A group on a device, or a tensor on a link, in milliseconds from the begin of the request."""

    text: str
    begin: float
    end: float


@dataclass(frozen=True, slots=True)
class Lane:
    """What one device or one direction of a link does."""

    name: str
    is_link: bool
    pieces: tuple[Piece, ...]


def device_lanes(lanes: Sequence[Lane], makespan: float) -> str:
    """Draw lanes over the milliseconds of a request, each piece with its text and times as a tip."""
    label = min(MOST_LABEL, 12 + CHARACTER_PIXELS * max(len(lane.name) for lane in lanes))
    heights = [LINK_LANE if lane.is_link else DEVICE_LANE for lane in lanes]
    base = TOP + sum(heights) + GAP * len(lanes)
    x = Axis(0.0, makespan or 1.0, label, WIDTH - 6)
    picture = Picture(WIDTH, base + 34, "One request on all devices and links")
    for value in x.ticks(9):
        picture.line(x(value), TOP, x(value), base, "grid")
        picture.label(x(value), base + 14, short(value), "tick", "middle")
    picture.label((x.start + x.end) / 2, base + 30, "ms", "axis-title", "middle")
    y = float(TOP)
    for lane, height in zip(lanes, heights, strict=True):
        middle = y + height / 2 + 4
        picture.label(label - 8, middle, shorten(lane.name, label - 8), "label", "end", lane.name)
        picture.rect(x.start, y, x.end - x.start, height, "track")
        for piece in lane.pieces:
            _draw(picture, x, y, height, lane, piece)
        y += height + GAP
    return picture.text()


def _draw(picture: Picture, x: Axis, y: float, height: float, lane: Lane, piece: Piece) -> None:
    start, end = x(piece.begin), x(piece.end)
    if end - start < SHORTEST:
        return
    tip = f"{piece.text}\n{lane.name}, {piece.begin:,.3f} to {piece.end:,.3f} ms"
    picture.rect(start, y, end - start, height, "carried" if lane.is_link else "bar", tip, rx=1)
    if not lane.is_link and end - start > 8 * CHARACTER_PIXELS:
        picture.label(
            start + 4, y + height / 2 + 4, shorten(piece.text, end - start - 8), "inside", tip=tip
        )
