"""Repair: the legal schedules nearest to one that a machine forbids, as one of its numbers has changed."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import numpy as np
import numpy.typing as npt

from autotune.fusion.nest import Nest
from autotune.schedule.fit import check, has_ranks_of
from autotune.schedule.schedule import NestSchedule, Schedule
from autotune.schedule.space import enumerate_on
from autotune.schedule.table import ScheduleTable
from autotune.targets.spec import HardwareSpec

Floats = npt.NDArray[np.float64]

_ENUMERATED = 2048
"""Legal schedules of a nest that are compared."""
_OTHER_WORD = 0.5
"""Distance of another number of buffers, of cores or another algorithm, and of a loop in another place: half a doubling of
a tile. Tiles that shrink are what a smaller scratchpad asks for."""


def fits(nests: Sequence[Nest], schedule: Schedule, spec: HardwareSpec) -> bool:
    """Return True if a schedule is legal for these nests on a machine."""
    is_legal = check(tuple(nests), schedule, spec.capacity, spec.cores) is None
    return is_legal and all(nest.buffers <= spec.max_buffers for nest in schedule.nests)


def repaired(
    nests: Sequence[Nest], schedule: Schedule, spec: HardwareSpec, count: int
) -> tuple[Schedule, ...]:
    """Return at most ``count`` legal schedules, the nearest to ``schedule`` first; itself alone if it is legal."""
    if not has_ranks_of(tuple(nests), schedule):
        return ()
    if fits(nests, schedule, spec):
        return (schedule,)
    parts = [
        (part,) if fits((nest,), Schedule((part,)), spec) else _nearest(nest, part, spec, count)
        for nest, part in zip(nests, schedule.nests, strict=True)
    ]
    return tuple(Schedule(rows) for rows in list(product(*parts))[:count])


def _nearest(
    nest: Nest, part: NestSchedule, spec: HardwareSpec, count: int
) -> tuple[NestSchedule, ...]:
    table = enumerate_on(nest, spec, _ENUMERATED, np.random.default_rng(0))
    order = np.argsort(_distances(table, nest, part), kind="stable")[:count]
    return tuple(table.row(i) for i in order.tolist())


def _distances(table: ScheduleTable, nest: Nest, part: NestSchedule) -> Floats:
    """Return how far the schedules of a table [n] lie from one: doublings of its tiles, and other words."""
    one = ScheduleTable.of(nest, [part])
    tiles = np.log2(table.tile / one.tile), np.log2(table.k_tile / one.k_tile)
    moved = table.loops(nest) != one.loops(nest)
    words = (table.buffers != one.buffers, table.cores != one.cores, table.im2col != one.im2col)
    halvings = np.abs(np.concatenate(tiles, axis=1)).sum(axis=1)
    far: Floats = halvings + _OTHER_WORD * (moved.sum(axis=1) / 2 + np.stack(words).sum(axis=0))
    return far
