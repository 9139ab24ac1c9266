"""Neighbours of schedules: the second step of schedule ranking, after enumeration."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from itertools import permutations

import numpy as np

from autotune.fusion.nest import Nest
from autotune.schedule.counts import expressible, scratchpad_elements, sums_elements
from autotune.schedule.space import candidate_extents, distinct_orders
from autotune.schedule.table import Ints, ScheduleTable
from autotune.targets.capacity import Capacity


def neighbours(
    nest: Nest,
    table: ScheduleTable,
    capacity: Capacity,
    cores: int,
    tile_multiple: int = 1,
    buffers: int = 2,
    im2col: bool = False,
) -> ScheduleTable:
    """Return the legal schedules one step from those of ``table``, each once.

    A step changes one of these: an extent, by one or two candidates; two extents, one up and one down
    (capacity binds, so a single step up rarely fits); the number of buffers; the loop order; the number of
    cores; with ``im2col`` the algorithm of convolutions.
    """
    parts = [
        _step_extents(nest, table, tile_multiple, buffers),
        _swap_buffers(table),
        _reorder(nest, table, cores),
    ]
    if im2col and nest.takes_patches:
        parts.append(replace(table, im2col=1 - table.im2col))
    near = ScheduleTable.joined(parts)
    _, first = np.unique(near.identities, return_index=True)
    near = near.take(first)
    fits = capacity.holds(scratchpad_elements(nest, near), sums_elements(nest, near))
    fits &= expressible(nest, near)
    return near.take(np.flatnonzero(fits & (near.buffers <= buffers)))


def _step_extents(
    nest: Nest, table: ScheduleTable, tile_multiple: int, buffers: int
) -> ScheduleTable:
    """Return every schedule with every step of its extents that stays among the candidates."""
    axes = candidate_extents(nest, tile_multiple, buffers)
    if not axes:
        return table
    tiled = len(nest.tileable)
    chosen = np.concatenate([table.tile[:, nest.tileable], table.k_tile], axis=1)
    place = np.stack([np.searchsorted(axis, chosen[:, i]) for i, axis in enumerate(axes)], axis=1)
    lengths = np.array([len(axis) for axis in axes], dtype=np.int64)
    moved = place[:, None, :] + np.array(_steps(len(axes)), dtype=np.int64)
    row, step = np.nonzero(((moved >= 0) & (moved < lengths)).all(axis=2))
    at = moved[row, step]
    values = [np.array(axis, dtype=np.int64)[at[:, i]] for i, axis in enumerate(axes)]
    tile, k_tile = table.tile[row], table.k_tile[row]
    for i, d in enumerate(nest.tileable):
        tile[:, d] = values[i]
    for i in range(len(nest.contractions)):
        k_tile[:, i] = values[tiled + i]
    whole = tile == np.array(nest.root_shape, dtype=np.int64)
    order = _canonical(table.take(row).loops(nest), whole)
    shared = np.isin(order[:, :1], list(nest.shareable)).all(axis=1) & ~whole.all(axis=1)
    cores = np.where(shared, table.cores[row], 1)
    return ScheduleTable(tile, order, k_tile, table.buffers[row], cores, table.im2col[row])


def _canonical(order: Ints, whole: Ints) -> Ints:
    """Move unsplit dimensions to the end of loop orders, ascending: equal programs get equal schedules."""
    rank = order.shape[1]
    position = np.argsort(order, axis=1)
    found: Ints = np.argsort(np.where(whole, rank + np.arange(rank), position), axis=1)
    return found


@lru_cache(maxsize=32)
def _steps(axes: int) -> tuple[tuple[int, ...], ...]:
    """Return the steps: one axis by ±1 or ±2; one up and another down by one."""
    single = [
        tuple(step if a == axis else 0 for a in range(axes))
        for axis in range(axes)
        for step in (-2, -1, 1, 2)
    ]
    pairs = [
        tuple((a == up) - (a == down) for a in range(axes))
        for up, down in permutations(range(axes), 2)
    ]
    return (*single, *pairs)


def _swap_buffers(table: ScheduleTable) -> ScheduleTable:
    return replace(table, buffers=3 - table.buffers)


def _reorder(nest: Nest, table: ScheduleTable, cores: int) -> ScheduleTable:
    """Return every schedule with every distinct loop order, on one and on all cores."""
    known: dict[tuple[int, ...], list[tuple[int, ...]]] = {}
    row, orders = [], []
    for i, tile in enumerate(table.tile.tolist()):
        split = tuple(d for d in nest.tileable if tile[d] < nest.root_shape[d])
        if split not in known:
            known[split] = [(*order, 1) for order in distinct_orders(nest, split, shared=False)]
            if cores > 1 and split:
                shared = distinct_orders(nest, split, shared=True)
                known[split] += [(*order, cores) for order in shared]
        row += [i] * len(known[split])
        orders += known[split]
    found = np.array(orders, dtype=np.int64).reshape(len(row), len(nest.root_shape) + 1)
    return ScheduleTable(
        table.tile[row],
        found[:, :-1],
        table.k_tile[row],
        table.buffers[row],
        found[:, -1],
        table.im2col[row],
    )
