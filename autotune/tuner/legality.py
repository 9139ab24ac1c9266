"""Legality of groups: a check for any fitting schedule, before schedules are ranked or chosen."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from autotune.fusion.analysis import analyse
from autotune.fusion.group import Group
from autotune.fusion.nest import Nest, Rejection
from autotune.schedule.fit import scratchpad_elements, sums_elements
from autotune.schedule.schedule import NestSchedule
from autotune.schedule.space import enumerate_nest
from autotune.targets.spec import HardwareSpec


@lru_cache(maxsize=2048)
def legal_nests(group: Group, spec: HardwareSpec) -> tuple[Nest, ...] | None:
    """Return the nests of a group, or None when no schedule of it fits the machine."""
    nests = nests_that_fit(group, spec)
    return None if isinstance(nests, Rejection) else nests


def nests_that_fit(group: Group, spec: HardwareSpec) -> tuple[Nest, ...] | Rejection:
    """Return the nests of a group, or the constraint that no schedule of it meets, with figures."""
    nests = analyse(group)
    if isinstance(nests, Rejection):
        return nests
    for nest in nests:
        small = _smallest(nest)
        words, sums = scratchpad_elements(nest, small), sums_elements(nest, small)
        excess = spec.capacity.excess(words, sums)
        if excess is not None:
            return Rejection(f"{excess}, even the smallest")
    if not all(_is_addressable(nest, spec) for nest in nests):
        return Rejection("addresses: tiles that fit move operands with too many loops")
    return nests


def _is_addressable(nest: Nest, spec: HardwareSpec) -> bool:
    """Return True if tiles that fit keep a nest's operands addressable; the most loops move the smallest tiles."""
    if not nest.moving_operands:
        return True
    rng = np.random.default_rng(0)
    table = enumerate_nest(nest, spec.capacity, 1, 1, rng, spec.tile_multiple, spec.max_buffers)
    return len(table) > 0


def _smallest(nest: Nest) -> NestSchedule:
    """Return the schedule of least scratchpad: every tile as small as it may be."""
    tile = tuple(
        n if d in nest.forced else min(n, nest.granule(d)) for d, n in enumerate(nest.root_shape)
    )
    k_tile = tuple(1 if c.chunkable else c.k_extent for c in nest.contractions)
    return NestSchedule(tile, tuple(range(len(tile))), k_tile, buffers=1)
