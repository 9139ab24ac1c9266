"""Tiles of a nest in the scratchpad: storages, origins and views."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

from autotune.fusion.nest import Nest, buffer_sizes
from autotune.isa.fields import NO_LEVEL
from autotune.isa.formats import Format
from autotune.isa.tile import Storage, Terms, View, add_terms, row_major
from autotune.operators.axis_map import AxisMap, Footprint
from autotune.schedule.fit import slots
from autotune.schedule.schedule import NestSchedule


class Segment(NamedTuple):
    """The tiles of one root dimension that the emitted code covers.

    There are ``trips`` tiles of ``size`` from ``start`` on. ``level`` is the hardware loop over
    them, None for one tile.
    """

    start: int
    size: int
    trips: int
    level: int | None


class Origin(NamedTuple):
    """First coordinate of a tile in one tensor dimension: ``first + Σ step · index[level]``."""

    first: int
    terms: Terms


class Tile(NamedTuple):
    """A tensor's tile: its view in the scratchpad and the coordinates it begins at."""

    view: View
    origin: tuple[Origin, ...]

    def part(self, origin: tuple[Origin, ...], sizes: tuple[int, ...]) -> View:
        """Return the view of the sub-rectangle that begins at ``origin``."""
        offset = 0
        terms: Terms = ()
        for stride, own, wanted in zip(self.view.strides, self.origin, origin, strict=True):
            offset += stride * (wanted.first - own.first)
            if wanted.terms == own.terms:
                continue
            minus = tuple([(level, -step) for level, step in own.terms])
            delta = add_terms(wanted.terms, minus)
            if stride:
                terms = add_terms(terms, tuple([(level, step * stride) for level, step in delta]))
        view = self.view.moved(offset, terms)
        return View(view.storage, view.offset, view.terms, sizes, view.strides)


Segments = Mapping[int, Segment]


@lru_cache(maxsize=256)
def _fixed(first: int) -> Origin:
    """Return the origin of an interval that no loop moves; cached, as nearly all begin at 0."""
    return Origin(first, ())


def axis_origin(axis: AxisMap, segments: Segments) -> Origin:
    """Return the first coordinate of a dimension's interval for the current tile."""
    if axis.dim is None:
        return _fixed(axis.offset)
    segment = segments[axis.dim]
    terms = () if segment.level is None else ((segment.level, axis.start(segment.size)),)
    return Origin(axis.start(segment.start) + axis.offset, terms)


def axis_size(axis: AxisMap, segments: Segments) -> int:
    """Return the elements of a dimension's interval for the current tile."""
    return axis.window if axis.dim is None else axis.extent(segments[axis.dim].size)


def origin_of(footprint: Footprint, segments: Segments) -> tuple[Origin, ...]:
    """Return the origins of all dimensions."""
    return tuple([axis_origin(axis, segments) for axis in footprint])


def sizes_of(footprint: Footprint, segments: Segments) -> tuple[int, ...]:
    """Return the extents of all dimensions."""
    return tuple([a.window if a.dim is None else a.extent(segments[a.dim].size) for a in footprint])


class Reservation(NamedTuple):
    """A buffer's place in the scratchpad: base word, words of a slot, True if it has two; the format of
    its elements."""

    base: int
    words: int
    double: bool
    format: Format = Format.FP32


def reserve(nest: Nest, schedule: NestSchedule) -> tuple[tuple[Reservation, ...], int]:
    """Reserve places for all buffers in sequence; return them and the words they take together."""
    base, places = 0, []
    sizes = buffer_sizes(nest, schedule.tile, schedule.k_tile, schedule.im2col)
    for buffer, size in zip(nest.buffers, sizes, strict=True):
        elements = 1
        for n in size:
            elements *= n
        copies, words = slots(nest, schedule, buffer), buffer.words(elements)
        places.append(Reservation(base, words, copies == 2, buffer.format))
        base += copies * words
    return tuple(places), base


def second_slot(index: int, place: Reservation) -> Storage:
    """Return the second slot of buffer ``index`` as a storage of its own.

    Unrolled code alternates the slots this way: one slot is filled while the other one is read.
    """
    return Storage(-1 - index, place.base + place.words, 0, NO_LEVEL, place.format)


def storage(index: int, place: Reservation, turn: int | None) -> Storage:
    """Return the storage of buffer ``index``; loop level ``turn``, if given, alternates its
    slots."""
    if not place.double or turn is None:
        return Storage(index, place.base, 0, NO_LEVEL, place.format)
    return Storage(index, place.base, place.words, turn, place.format)


def dense(where: Storage, sizes: tuple[int, ...]) -> View:
    """Return the whole of a storage as a row-major rectangle."""
    return View(where, 0, (), sizes, row_major(sizes))
