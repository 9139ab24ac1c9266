"""``fit.check`` in bulk: which rows of a table are legal on a machine."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from autotune.fusion.nest import Nest
from autotune.schedule.counts import expressible, scratchpad_elements, sums_elements
from autotune.schedule.table import ScheduleTable
from autotune.targets.capacity import Capacity

Mask = npt.NDArray[np.bool_]


def legal_rows(nest: Nest, table: ScheduleTable, capacity: Capacity, cores: int) -> Mask:
    """Return the rows [n] that ``fit.check`` accepts on such a machine."""
    legal = _is_well_formed(nest, table)
    legal[legal] = _fits(nest, table.take(legal), capacity, cores)
    return legal


def _fits(nest: Nest, table: ScheduleTable, capacity: Capacity, cores: int) -> Mask:
    """Return the rows of well-formed schedules that are legal."""
    shape = np.array(nest.root_shape, dtype=np.int64)
    pieces = np.array([c.k_extent for c in nest.contractions], dtype=np.int64)
    whole = np.array([not c.chunkable for c in nest.contractions], dtype=bool)
    forced = np.array([d in nest.forced for d in range(len(shape))], dtype=bool)
    granule = np.array([nest.granule(d) for d in range(len(shape))], dtype=np.int64)
    is_split = table.tile < shape
    legal: Mask = ~((table.tile > shape) | (is_split & (forced | (table.tile % granule != 0)))).any(
        axis=1
    )
    legal &= ~((table.k_tile > pieces) | ((table.k_tile < pieces) & whole)).any(axis=1)
    legal &= (table.cores <= cores) & ((table.im2col == 0) | nest.takes_patches)
    legal &= (table.cores == 1) | _is_shareable(nest, table, is_split)
    legal &= expressible(nest, table)
    legal &= capacity.holds(scratchpad_elements(nest, table), sums_elements(nest, table))
    return legal


def _is_well_formed(nest: Nest, table: ScheduleTable) -> Mask:
    """Return the rows that ``NestSchedule`` accepts."""
    dims = np.arange(len(nest.root_shape))
    legal: Mask = (np.sort(table.order, axis=1) == dims).all(axis=1)
    legal &= (table.tile >= 1).all(axis=1) & (table.k_tile >= 1).all(axis=1)
    legal &= (table.buffers == 1) | (table.buffers == 2)
    legal &= (table.cores >= 1) & ((table.im2col == 0) | (table.im2col == 1))
    return legal


def _is_shareable(nest: Nest, table: ScheduleTable, is_split: Mask) -> Mask:
    """Return the rows whose outermost loop may be divided over cores, or that have none."""
    if not len(nest.root_shape):
        return np.ones(len(table), dtype=bool)
    order = table.loops(nest)
    in_order = np.take_along_axis(is_split, order, axis=1)
    outermost = np.take_along_axis(order, in_order.argmax(axis=1)[:, None], axis=1)[:, 0]
    apart = np.array([d in nest.shareable for d in range(len(nest.root_shape))], dtype=bool)
    shareable: Mask = apart[outermost] | ~in_order.any(axis=1)
    return shareable
