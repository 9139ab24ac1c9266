"""Schedules close to given ones: what schedule search looks at after the enumerated ones."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from autotune.fusion.nest import Nest
from autotune.schedule.extents import extents
from autotune.schedule.orders import distinct_orders
from autotune.schedule.schedule import NestSchedule
from autotune.schedule.space import scratchpad_elements
from autotune.schedule.table import ScheduleTable

Extents = tuple[int, ...]
"""Tile extents of the tileable dimensions, then reduction pieces of the contractions."""


def neighbours(
    nest: Nest, schedules: tuple[NestSchedule, ...], capacity_elements: int, cores: int
) -> ScheduleTable:
    """Legal schedules one step from the given ones, without those: an extent one or two candidates
    up or down, one extent up and another down (capacity binds, so single steps up rarely fit),
    the other number of buffers, another loop order, another number of cores."""
    axes = tuple(_axis(nest, axis) for axis in range(len(nest.tileable) + len(nest.contractions)))
    given = set(schedules)
    found = dict.fromkeys(
        near for schedule in schedules for near in _near(nest, axes, schedule, cores)
    )
    table = ScheduleTable.of(nest, [schedule for schedule in found if schedule not in given])
    return table.take(np.flatnonzero(scratchpad_elements(nest, table) <= capacity_elements))


def _axis(nest: Nest, axis: int) -> Extents:
    """Candidates of one extent, ascending."""
    if axis < len(nest.tileable):
        return extents(nest.root_shape[nest.tileable[axis]])
    contraction = nest.contractions[axis - len(nest.tileable)]
    return extents(contraction.k_extent) if contraction.chunkable else (contraction.k_extent,)


def _near(
    nest: Nest, axes: tuple[Extents, ...], schedule: NestSchedule, cores: int
) -> Iterator[NestSchedule]:
    place = tuple(
        int(np.searchsorted(axis, value))
        for axis, value in zip(axes, _extents_of(nest, schedule), strict=True)
    )
    for step in _steps(len(axes)):
        moved = tuple(p + s for p, s in zip(place, step, strict=True))
        if all(0 <= p < len(axis) for p, axis in zip(moved, axes, strict=True)):
            chosen = tuple(axis[p] for p, axis in zip(moved, axes, strict=True))
            yield _with_extents(nest, schedule, chosen)
    yield NestSchedule(
        schedule.tile, schedule.order, schedule.k_tile, 3 - schedule.buffers, schedule.cores
    )
    split = tuple(d for d in nest.tileable if schedule.tile[d] < nest.root_shape[d])
    for count in {1, cores if split else 1}:
        for order in distinct_orders(nest, split, shared=count > 1):
            yield NestSchedule(schedule.tile, order, schedule.k_tile, schedule.buffers, count)


def _extents_of(nest: Nest, schedule: NestSchedule) -> Extents:
    return (*(schedule.tile[d] for d in nest.tileable), *schedule.k_tile)


def _with_extents(nest: Nest, schedule: NestSchedule, chosen: Extents) -> NestSchedule:
    """The schedule with other extents; dimensions that are no longer split go to the end of the
    order, so that equal programs have equal schedules."""
    tile = list(schedule.tile)
    for d, extent in zip(nest.tileable, chosen, strict=False):
        tile[d] = extent
    split = [d for d in schedule.order if tile[d] < nest.root_shape[d]]
    whole = [d for d in range(len(tile)) if tile[d] == nest.root_shape[d]]
    return NestSchedule(
        tuple(tile),
        (*split, *whole),
        chosen[len(nest.tileable) :],
        schedule.buffers,
        schedule.cores if split else 1,
    )


def _steps(axes: int) -> Iterator[tuple[int, ...]]:
    """One axis by ±1 or ±2; one up and another down by one."""
    for axis in range(axes):
        for step in (-2, -1, 1, 2):
            yield tuple(step if a == axis else 0 for a in range(axes))
        for other in range(axes):
            if other != axis:
                yield tuple((a == axis) - (a == other) for a in range(axes))
