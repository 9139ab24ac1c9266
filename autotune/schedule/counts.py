"""What schedules of a nest hold, read and load: columns over a schedule table. The rule, the search's
moves and the cost model's features count by it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Set

import numpy as np
import numpy.typing as npt

from autotune.fusion.nest import ADDRESS_LOOPS, Buffer, Nest, Stage
from autotune.fusion.patches import Patches
from autotune.operators.axis_map import AxisMap, Footprint
from autotune.operators.op import Family
from autotune.schedule.block_sparsity import nonzero_work
from autotune.schedule.fit import MAX_RUNS
from autotune.schedule.table import Ints, ScheduleTable

_PIECE_ELEMENTS = 16.0
"""Elements that a dense piece costs beside its own: lines that it shares with others, and to begin."""


def scratchpad_elements(nest: Nest, table: ScheduleTable) -> Ints:
    """``fit.scratchpad_elements`` of every row [n]."""
    return _words(nest, table, nest.buffers)


def sums_elements(nest: Nest, table: ScheduleTable) -> Ints:
    """``fit.sums_elements`` of every row [n]."""
    return _words(nest, table, [nest.buffers[i] for i in sorted(nest.sums)])


def _words(nest: Nest, table: ScheduleTable, buffers: Iterable[Buffer]) -> Ints:
    """Words of some buffers, for every row [n]."""
    shape = np.array(nest.root_shape, dtype=np.int64)
    total = np.zeros(len(table), dtype=np.int64)
    for buffer in buffers:
        size = np.ones(len(table), dtype=np.int64)
        refilled = np.zeros(len(table), dtype=bool)
        for d in buffer.dims:
            refilled |= shape[d] // table.tile[:, d] > 1
        for position, axis in enumerate(buffer.footprint):
            if buffer.chunk is not None and buffer.chunk[1] == position:
                piece = table.k_tile[:, buffer.chunk[0]]
                size *= piece
                refilled |= nest.contractions[buffer.chunk[0]].k_extent // piece > 1
            else:
                size *= _extent(table, axis)
        if buffer.patches is not None:
            size = np.where(table.im2col, _patch_elements(table, buffer, buffer.patches), size)
        total += buffer.words(size) * np.where(refilled, table.buffers, 1)
    return total


def expressible(nest: Nest, table: ScheduleTable) -> npt.NDArray[np.bool_]:
    """Rows that ``fit.check`` would not reject for their loops [n]."""
    trips = np.array(nest.root_shape, dtype=np.int64) // table.tile
    extents = np.array([c.k_extent for c in nest.contractions], dtype=np.int64)
    pieces = extents // table.k_tile
    runs = np.maximum(1.0, trips).prod(axis=1) * np.maximum(1.0, pieces).prod(axis=1)
    found: npt.NDArray[np.bool_] = runs <= MAX_RUNS
    for moving in nest.moving_operands:
        loops = (trips[:, sorted(moving.dims)] > 1).sum(axis=1)
        if moving.contraction is not None:
            loops += pieces[:, moving.contraction] > 1
        found &= loops <= ADDRESS_LOOPS
    return found


def _patch_elements(table: ScheduleTable, buffer: Buffer, patches: Patches) -> Ints:
    """Elements of a buffer's patches for one tile and piece of the reduction, for every row."""
    assert buffer.chunk is not None
    channels: Ints = table.k_tile[:, buffer.chunk[0]]
    return patches.elements(channels, lambda axis: _extent(table, axis))


def _extent(table: ScheduleTable, axis: AxisMap) -> Ints | int:
    return axis.window if axis.dim is None else axis.extent(table.tile[:, axis.dim])


def kept_words(nest: Nest, table: ScheduleTable) -> npt.NDArray[np.float64]:
    """Words of what contractions make for other stages of a tile, and of what Strassen's products make for each
    other, for every row. Not those that tiles have in common: to cut them smaller is to make more of them again."""
    stored = {stage.result for stage in nest.stages if stage.output in nest.stores}
    made = {
        stage.result
        for stage in nest.stages
        if stage.contraction is not None and not _overlaps(stage.footprint)
    }
    shared = {stage.temps[1] for stage in nest.stages if stage.op.family is Family.STRASSEN}
    return _tile_words(nest, table, (made - stored) | shared)


def passed_words(nest: Nest, table: ScheduleTable) -> npt.NDArray[np.float64]:
    """Words of what other operators make for the contractions of a tile, sums of quarters among them, for every row."""
    maker = {stage.output: stage for stage in nest.stages if not stage.view}
    read = [x for stage in nest.stages if stage.contraction is not None for x in stage.op.inputs]
    passed = {maker[x].result for x in read if x in maker and maker[x].contraction is None} - {
        stage.result for stage in nest.stages if stage.contraction is not None
    }
    sums = {stage.temps[0] for stage in nest.stages if stage.op.family is Family.STRASSEN}
    return _tile_words(nest, table, passed | sums)


def _overlaps(footprint: Footprint) -> bool:
    """Whether tiles side by side have elements in common."""
    return any(axis.dim is not None and axis.window > axis.scale for axis in footprint)


def _tile_words(nest: Nest, table: ScheduleTable, buffers: Set[int]) -> npt.NDArray[np.float64]:
    """Words of some buffers for one tile, for every row."""
    total = np.zeros(len(table))
    for index in buffers:
        size = np.ones(len(table), dtype=np.int64)
        for axis in nest.buffers[index].footprint:
            if axis.dim is None:
                size *= axis.window
            else:
                size *= axis.extent(table.tile[:, axis.dim])
        total += nest.buffers[index].words(size)
    return total


def padded_words(nest: Nest, table: ScheduleTable) -> npt.NDArray[np.float64]:
    """Words that a tile needs of tensors with padding, for every row: where tensors are read in
    place, these are copied all the same."""
    return _tile_words(nest, table, padded_loads(nest))


def padded_loads(nest: Nest) -> frozenset[int]:
    """The buffers of tensors that tiles reach beyond."""
    return frozenset(i for i in nest.loads if _is_padded(nest, nest.buffers[i]))


def _is_padded(nest: Nest, buffer: Buffer) -> bool:
    """Whether tiles reach outside of the tensor."""
    shape = nest.types[buffer.tensor].shape
    sides = zip(buffer.footprint, shape, strict=True)
    return not buffer.sample and any(
        axis.offset < 0 or axis.offset + axis.size(nest.root_shape) > extent
        for axis, extent in sides
    )


def batch_factors(nest: Nest) -> tuple[int, ...]:
    """The loaded second factors of batches of products, of which each has its own."""
    views = {stage.output: stage.op.inputs[0] for stage in nest.stages if stage.view}
    found = set()
    for stage in nest.stages:
        if stage.op.family is not Family.MATMUL or len(nest.types[stage.op.inputs[1]].shape) < 3:
            continue
        tensor = stage.op.inputs[1]
        while tensor in views:
            tensor = views[tensor]
        found.add(tensor)
    return tuple(i for i in nest.loads if nest.buffers[i].tensor in found)


def read_elements(nest: Nest, table: ScheduleTable) -> npt.NDArray[np.float64]:
    """Elements that tiles read and store in all, for every row of the table, where they read tensors
    in place: nothing stays from one tile to the next. Where a tile's part of a tensor is not dense,
    each piece of it costs ``_PIECE_ELEMENTS`` more."""
    stored = [stage.footprint for stage in nest.stages if stage.output in nest.stores]
    total = np.zeros(len(table))
    for footprint in (*(nest.buffers[i].footprint for i in nest.loads), *stored):
        elements, pieces = _read_of_tile(nest, table, footprint)
        total += elements + _PIECE_ELEMENTS * pieces
    return total * tile_count(nest, table)


def _read_of_tile(
    nest: Nest, table: ScheduleTable, footprint: Footprint
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Elements of a footprint, and in how many dense pieces they lie."""
    elements, pieces = np.ones(len(table)), np.ones(len(table))
    dense = np.ones(len(table), dtype=bool)
    for axis in reversed(footprint):
        size: Ints | int = axis.window
        if axis.dim is not None:
            size = axis.extent(table.tile[:, axis.dim])
        elements *= size
        pieces *= np.where(dense, 1, size)
        if axis.dim is not None:
            dense &= table.tile[:, axis.dim] == nest.root_shape[axis.dim]
    return elements, pieces


def crossing_elements(nest: Nest, table: ScheduleTable) -> npt.NDArray[np.float64]:
    """Elements that each core reads of what other cores have in cache, or leaves for them, for every
    row of the table.

    A tensor is taken to lie in the cores' caches by its rows, the outermost axis that has any: cores
    that share a loop along it read and write what is their own. Weights are in no core's cache.
    """
    cores = int(table.cores.max(initial=1))
    if cores == 1:
        return np.zeros(len(table))
    images = (nest.buffers[i] for i in nest.loads if i not in _weights(nest))
    read = ((buffer.tensor, buffer.footprint) for buffer in images)
    stored = ((s.output, s.footprint) for s in nest.stages if s.output in nest.stores)
    rows = np.arange(len(table))
    shape = np.array(nest.root_shape, dtype=np.int64)
    outermost = table.order[:, 0] if len(shape) else np.zeros(len(table), np.int64)
    share = np.maximum(shape[outermost] // table.cores, table.tile[rows, outermost])
    shared = table.cores > 1
    total = np.zeros(len(table))
    for tensor, footprint in (*read, *stored):
        extents = nest.types[tensor].shape
        along = next((d for d, extent in enumerate(extents) if extent > 1), 0)
        own, elements = np.zeros(len(table), dtype=bool), np.ones(len(table))
        for position, axis in enumerate(footprint):
            whole = axis.size(nest.root_shape)
            mine = np.full(len(table), whole)
            if axis.dim is not None:
                mine = np.where(outermost == axis.dim, axis.extent(share), whole)
                own |= shared & (outermost == axis.dim) & (position == along)
            elements *= np.minimum(mine, extents[position])
        total += np.where(own, 0.0, elements)
    return total * (1.0 - 1.0 / cores)


def _weights(nest: Nest) -> frozenset[int]:
    """The loaded buffers of products' weights and biases."""
    found = set[int | None]()
    for stage in nest.stages:
        if stage.contraction is None:
            continue
        found.add(stage.epilogue.bias)
        matrix = len(nest.types[stage.op.inputs[1]].shape) < 3
        if stage.op.family is not Family.MATMUL or matrix:
            found.add(stage.operands[1])
    return frozenset(i for i in found if i is not None)


def stage_dims(stage: Stage) -> frozenset[int]:
    """Root dimensions that what a stage computes depends on."""
    return frozenset(axis.dim for axis in stage.footprint if axis.dim is not None)


def tile_count(nest: Nest, table: ScheduleTable) -> npt.NDArray[np.float64]:
    """Root tiles of every row, remainders included."""
    shape = np.array(nest.root_shape, dtype=np.int64)
    counts: npt.NDArray[np.float64] = np.prod(-(-shape // table.tile), axis=1, dtype=np.float64)
    return counts


def loaded_elements(
    nest: Nest, table: ScheduleTable, loads: Iterable[int] | None = None
) -> npt.NDArray[np.float64]:
    """Elements that DMA loads in all, for every row; padding is counted as if it were loaded. Only
    the buffers ``loads`` count, where they are given."""
    total = np.zeros(len(table))
    around = {stage.contraction: stage_dims(stage) for stage in nest.stages}
    products = {s.contraction: s for s in nest.stages if s.contraction is not None}
    for index in nest.loads if loads is None else loads:
        buffer = nest.buffers[index]
        level = _depth(nest, table, buffer.dims)
        if buffer.chunk is not None:
            in_pieces = (
                table.k_tile[:, buffer.chunk[0]] < nest.contractions[buffer.chunk[0]].k_extent
            )
            level = np.where(in_pieces, _depth(nest, table, around[buffer.chunk[0]]), level)
        elements = _renewed(nest, table, buffer.footprint, level)
        if buffer.chunk is not None:
            stage = products[buffer.chunk[0]]
            nonzero = nonzero_work(nest, table, stage)
            if nonzero is not None:
                elements *= np.where(in_pieces | (stage.operands[1] == index), nonzero.share, 1.0)
        total += elements
    return total


def streamed_elements(nest: Nest, table: ScheduleTable, near: float) -> npt.NDArray[np.float64]:
    """Elements of weights that tiles read from beyond a cache of ``near`` words, for every row.

    Weights of a tile that fit the cache stay there as long as only loops go on that do not move them. Bytes are a quarter of a
    word; weights of 16 bits count as words, which most CPUs widen them to.
    """
    total = np.zeros(len(table))
    for index in _weights(nest) & frozenset(nest.loads):
        buffer = nest.buffers[index]
        whole = math.prod(axis.size(nest.root_shape) for axis in buffer.footprint)
        limit = near * buffer.elements_per_word if buffer.format.bytes == 1 else near
        if whole > limit:
            tile = _tile_words(nest, table, {index}) * buffer.elements_per_word
            read = tile * tile_count(nest, table)
            total += np.where(tile <= limit, loaded_elements(nest, table, (index,)), read)
    return total


def made_elements(nest: Nest, table: ScheduleTable, stage: Stage) -> npt.NDArray[np.float64]:
    """Elements that a stage makes in all, for every row: those that several tiles need once for each
    of them, unless an outer loop makes them for all."""
    return _renewed(nest, table, stage.footprint, _depth(nest, table, stage_dims(stage)))


def _depth(nest: Nest, table: ScheduleTable, dims: frozenset[int]) -> Ints:
    """Position in the loop order of the innermost loop over one of ``dims``, or −1."""
    position = np.argsort(table.loops(nest), axis=1)
    level = np.full(len(table), -1, dtype=np.int64)
    for d in dims:
        is_split = table.tile[:, d] < nest.root_shape[d]
        level = np.maximum(level, np.where(is_split, position[:, d], -1))
    return level


def _renewed(
    nest: Nest, table: ScheduleTable, footprint: Footprint, level: Ints
) -> npt.NDArray[np.float64]:
    """Elements of a footprint over all trips of the loops down to position ``level``."""
    shape = np.array(nest.root_shape, dtype=np.int64)
    tiles = -(-shape // table.tile)
    position = np.argsort(table.loops(nest), axis=1)
    elements = np.ones(len(table))
    for axis in footprint:
        if axis.dim is None:
            elements *= axis.window
        else:
            count = tiles[:, axis.dim]
            whole = axis.scale * (shape[axis.dim] - count) + axis.window * count
            elements *= whole / axis.per
    for d in {*range(len(shape))} - {axis.dim for axis in footprint}:
        elements *= np.where(position[:, d] <= level, tiles[:, d], 1)
    return elements
