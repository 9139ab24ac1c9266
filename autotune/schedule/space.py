"""The schedule space of a nest: enumerated in bulk, only what fits; search and calibration draw
from it."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from autotune.fusion.footprint import AxisMap, Footprint
from autotune.fusion.nest import Nest, Stage
from autotune.graph.op import Family
from autotune.schedule.extents import extents, grained, thin_product
from autotune.schedule.orders import distinct_orders
from autotune.schedule.schedule import Schedule
from autotune.schedule.table import Ints, ScheduleTable

__all__ = [
    "ScheduleTable",
    "default_schedule",
    "enumerate_nest",
    "random_schedule",
    "scratchpad_elements",
]

_POOL = 8192
"""Combinations of tile and reduction extents looked at; keeps an enumeration near 2 ms."""
_DRAW = 256
"""Rows from which one random schedule is drawn."""


@dataclass(frozen=True, slots=True)
class _Grid:
    """The product of candidate extents: one axis per tileable dimension, then one per contraction;
    every quantity is an array that broadcasts over these axes."""

    nest: Nest
    axes: list[Ints]

    @classmethod
    def of(cls, nest: Nest, budget: int, grain: int) -> _Grid:
        chosen = thin_product(candidate_extents(nest, grain), budget)
        return cls(nest, [np.array(axis, dtype=np.int64) for axis in chosen])

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(len(axis) for axis in self.axes)

    def along(self, axis: int) -> Ints:
        """The candidates of one axis, shaped to broadcast."""
        shape = [1] * len(self.axes)
        shape[axis] = -1
        return self.axes[axis].reshape(shape)

    def tile(self, dim: int) -> Ints | int:
        """Tile extents along a root dimension."""
        if dim in self.nest.tileable:
            return self.along(self.nest.tileable.index(dim))
        return self.nest.root_shape[dim]

    def k_tile(self, contraction: int) -> Ints:
        """Reduction pieces of a contraction."""
        return self.along(len(self.nest.tileable) + contraction)

    def _size(self, axis: AxisMap) -> Ints | int:
        if axis.dim is None:
            return axis.window
        return -(-(axis.scale * (self.tile(axis.dim) - 1) + axis.window) // axis.per)

    def needs(self) -> tuple[Ints, Ints]:
        """Scratchpad elements of every combination with single and with double buffers;
        ``schedule.scratchpad_elements`` in bulk."""
        single = np.zeros(self.shape, dtype=np.int64)
        second = np.zeros(self.shape, dtype=np.int64)
        for buffer in self.nest.buffers:
            size: Ints = np.ones((1,) * len(self.axes), dtype=np.int64)
            refilled: npt.NDArray[np.bool_] | bool = False
            for d in buffer.dims:
                refilled = refilled | (self.nest.root_shape[d] // self.tile(d) > 1)
            for position, axis in enumerate(buffer.footprint):
                if buffer.chunk is not None and buffer.chunk[1] == position:
                    piece = self.k_tile(buffer.chunk[0])
                    size = size * piece
                    extent = self.nest.contractions[buffer.chunk[0]].k_extent
                    refilled = refilled | (extent // piece > 1)
                else:
                    size = size * self._size(axis)
            single += size
            second += size * refilled
        return single, single + second


def candidate_extents(nest: Nest, grain: int) -> list[tuple[int, ...]]:
    """Ascending candidates: tile extents of each tileable dimension, then the piece of each
    contraction. Tiles of the innermost dimension are multiples of ``grain``, or the whole."""
    innermost = len(nest.root_shape) - 1
    tiles = [
        grained(extents(nest.root_shape[d], nest.granule(d)), grain if d == innermost else 1)
        for d in nest.tileable
    ]
    pieces = [extents(c.k_extent) if c.chunkable else (c.k_extent,) for c in nest.contractions]
    return [*tiles, *pieces]


def enumerate_nest(
    nest: Nest,
    capacity_elements: int,
    cores: int,
    limit: int,
    rng: np.random.Generator,
    grain: int = 1,
    buffers: int = 2,
) -> ScheduleTable:
    """At most ``limit`` legal schedules of a nest on cores of ``capacity_elements`` fp32 elements,
    whose innermost tiles are multiples of ``grain`` and have up to ``buffers`` copies.

    Empty when none fits. Where there are more, half of the rows are those of the largest tiles
    and the rest is drawn with ``rng``. Rows that would give equal programs appear once.
    """
    grid = _Grid.of(nest, _POOL, grain)
    single, double = grid.needs()
    fits = np.stack(
        [single <= capacity_elements, (double <= capacity_elements) & (double > single)]
    )
    cells = np.flatnonzero(fits[:buffers])
    if not len(cells):
        return ScheduleTable.of(nest, ())
    copies, *picked = np.unravel_index(cells, fits[:buffers].shape)
    extent_columns = [axis[index] for axis, index in zip(grid.axes, picked, strict=True)]
    split, orders = _orders(nest, extent_columns, cores)
    variants = np.array([len(options) for options in orders], dtype=np.int64)[split]
    chosen, variant = _choose(variants, _volumes(nest, extent_columns), limit, rng)
    rank, tiled = len(nest.root_shape), len(nest.tileable)
    tile = np.tile(np.array(nest.root_shape, dtype=np.int64), (len(chosen), 1)).reshape(
        len(chosen), rank
    )
    for d, column in zip(nest.tileable, extent_columns, strict=False):
        tile[:, d] = column[chosen]
    k_tile = np.array([c[chosen] for c in extent_columns[tiled:]], dtype=np.int64)
    width = max(map(len, orders))
    lookup = np.zeros((len(orders), width, rank + 1), dtype=np.int64)
    for mask, options in enumerate(orders):
        lookup[mask, : len(options)] = options
    rows = lookup[split[chosen], variant]
    return ScheduleTable(
        tile,
        rows[:, :rank],
        k_tile.reshape(-1, len(chosen)).T.copy(),
        copies[chosen] + 1,
        rows[:, rank],
    )


def _orders(
    nest: Nest, columns: list[Ints], cores: int
) -> tuple[Ints, list[list[tuple[int, ...]]]]:
    """For every cell the mask of its split dimensions; for every mask its (order…, cores)."""
    split = np.zeros(len(columns[0]) if columns else 1, dtype=np.int64)
    for bit, (d, column) in enumerate(zip(nest.tileable, columns, strict=False)):
        split |= (column < nest.root_shape[d]).astype(np.int64) << bit
    options: list[list[tuple[int, ...]]] = [[()] for _ in range(1 << len(nest.tileable))]
    for mask in np.flatnonzero(np.bincount(split)).tolist():  # unique() would import numpy.ma
        dims = tuple(d for bit, d in enumerate(nest.tileable) if mask >> bit & 1)
        options[mask] = [(*order, 1) for order in distinct_orders(nest, dims, shared=False)]
        if cores > 1 and dims:
            shared = distinct_orders(nest, dims, shared=True)
            options[mask] += [(*order, cores) for order in shared]
    rank = len(nest.root_shape)
    return split, [o if o[0] else [(0,) * (rank + 1)] for o in options]


def _volumes(nest: Nest, columns: list[Ints]) -> npt.NDArray[np.float64]:
    """Root tile elements times reduction pieces: what 'large' means for a tile."""
    volume = np.ones(len(columns[0]) if columns else 1)
    for column in columns:
        volume = volume * column
    return volume


def _choose(
    variants: Ints, volumes: npt.NDArray[np.float64], limit: int, rng: np.random.Generator
) -> tuple[Ints, Ints]:
    """Cells and their variants: all of them, or the largest half of ``limit`` and random others."""
    ranked = np.argsort(-volumes, kind="stable")
    ends = np.cumsum(variants[ranked])
    total = int(ends[-1])
    flat = (
        np.arange(total)
        if total <= limit
        else np.concatenate(
            (
                np.arange(limit // 2),
                limit // 2
                + np.sort(rng.choice(total - limit // 2, limit - limit // 2, replace=False)),
            )
        )
    )
    position = np.searchsorted(ends, flat, side="right")
    cell = ranked[position]
    return cell, flat - (ends[position] - variants[cell])


def default_schedule(
    nests: tuple[Nest, ...],
    capacity_elements: int,
    cores: int,
    grain: int = 1,
    buffers: int = 2,
) -> Schedule | None:
    """A legal schedule by rule alone; None when none fits. What runs before anything was measured."""
    parts = []
    for nest in nests:
        rng = np.random.default_rng(0)
        table = enumerate_nest(nest, capacity_elements, cores, 2048, rng, grain, buffers)
        if not len(table):
            return None
        rule = _least_traffic if buffers > 1 else _fewest_tiles
        cost = rule(nest, table)
        parts.append(table.row(int(np.argmin(cost))))
    return Schedule(tuple(parts))


def _least_traffic(nest: Nest, table: ScheduleTable) -> npt.NDArray[np.float64]:
    """Where tiles are loaded ahead of their use: traffic, tiles and what overlaps decide."""
    cost = loaded_elements(nest, table) + tile_count(nest, table) * _TILE_ELEMENTS
    ahead: npt.NDArray[np.float64] = 1.0 + 0.9 * (table.buffers - 1) + 0.8 * (table.cores - 1)
    return cost / ahead


def _fewest_tiles(nest: Nest, table: ScheduleTable) -> npt.NDArray[np.float64]:
    """Where operands are read in place: tiles cost what they cut short, on as many cores as can
    share them; of equals the one whose tiles read least."""
    loaded = read_elements(nest, table)
    pieces = np.ones(len(table))
    for k, contraction in enumerate(nest.contractions):
        pieces *= -(-contraction.k_extent // table.k_tile[:, k])
    cost = _CUT_TILES * _time_share(nest, table) + tile_count(nest, table) * pieces
    least: npt.NDArray[np.float64] = cost + _READ_TILES * loaded / max(1.0, float(loaded.min()))
    return least + _FAR_TILES * np.log2(
        np.maximum(1.0, kept_elements(nest, table) / _NEAR_ELEMENTS)
    )


def _time_share(nest: Nest, table: ScheduleTable) -> npt.NDArray[np.float64]:
    """Time that a nest takes, of that on one core: the most of its outermost loop that a core runs,
    half a tile more where cores share it, as they are not equally fast, and what sharing costs."""
    outermost = table.order[:, 0] if table.order.shape[1] else np.zeros(len(table), np.int64)
    if not len(nest.root_shape):
        return np.ones(len(table))
    rows = np.arange(len(table))
    extent = np.array(nest.root_shape, dtype=np.int64)[outermost]
    tile = table.tile[rows, outermost]
    tiles = (extent + tile - 1) // tile
    mine = np.minimum(1.0, (tiles + table.cores - 1) // table.cores * tile / extent)
    late = 0.5 * tile / extent + _SHARING_OPERATIONS / operations(nest)
    share: npt.NDArray[np.float64] = mine + np.where(table.cores > 1, late, 0.0)
    return share


def operations(nest: Nest) -> float:
    """Multiply-adds of a nest's contractions, and as many for what others make as take as long."""
    return max(1.0, float(sum(_stage_operations(nest, stage) for stage in nest.stages)))


def _stage_operations(nest: Nest, stage: Stage) -> float:
    made = math.prod(nest.types[stage.output].shape)
    if stage.contraction is None:
        copies = not stage.view or stage.output in nest.stores
        return made * _MADE_OPERATIONS if copies else 0.0
    weight = nest.types[stage.op.inputs[1]].shape
    if stage.op.family is Family.CONV:
        return made * math.prod(weight) / weight[stage.op.axes.out_channel]
    return float(made) * nest.contractions[stage.contraction].k_extent


_CUT_TILES = 64.0
"""Tiles of which a nest is worth cutting one more for another core."""
_READ_TILES = 1.0
"""Tiles of which a nest is worth halving what it reads."""
_NEAR_ELEMENTS = 64 * 1024
"""What a product makes for another stage should be no more of: it stays in a second-level cache of
512 KiB beside what it is made of."""
_FAR_TILES = 32.0
"""Tiles of which a nest is worth halving what is kept beyond that."""
_PIECE_ELEMENTS = 16.0
"""Elements that a dense piece costs beside its own: lines that it shares with others, and to begin."""
_MADE_OPERATIONS = 16.0
"""Multiply-adds that take as long as an element that is made without: memory bounds those."""
_SHARING_OPERATIONS = 1e5
"""Multiply-adds that take as long as to share a nest: the other core looks up, and fetches what this
one has in cache (2 microseconds of a core with two vectors of 8)."""
_TILE_ELEMENTS = 512.0
"""What a tile costs in set-up, as elements of traffic that take as long (edge: near 100 cycles)."""


def random_schedule(
    nests: tuple[Nest, ...], capacity_elements: int, cores: int, rng: np.random.Generator
) -> Schedule | None:
    """A legal schedule drawn with ``rng``; None when none fits."""
    parts = []
    for nest in nests:
        table = enumerate_nest(nest, capacity_elements, cores, _DRAW, rng)
        if not len(table):
            return None
        parts.append(table.row(int(rng.integers(len(table)))))
    return Schedule(tuple(parts))


def scratchpad_elements(nest: Nest, table: ScheduleTable) -> Ints:
    """``schedule.scratchpad_elements`` of every row [n]."""
    shape = np.array(nest.root_shape, dtype=np.int64)
    total = np.zeros(len(table), dtype=np.int64)
    for buffer in nest.buffers:
        size = np.ones(len(table), dtype=np.int64)
        refilled = np.zeros(len(table), dtype=bool)
        for d in buffer.dims:
            refilled |= shape[d] // table.tile[:, d] > 1
        for position, axis in enumerate(buffer.footprint):
            if buffer.chunk is not None and buffer.chunk[1] == position:
                piece = table.k_tile[:, buffer.chunk[0]]
                size *= piece
                refilled |= nest.contractions[buffer.chunk[0]].k_extent // piece > 1
            elif axis.dim is None:
                size *= axis.window
            else:
                size *= -(-(axis.scale * (table.tile[:, axis.dim] - 1) + axis.window) // axis.per)
        total += size * np.where(refilled, table.buffers, 1)
    return total


def kept_elements(nest: Nest, table: ScheduleTable) -> npt.NDArray[np.float64]:
    """Elements that contractions make for other stages of a tile, for every row."""
    stored = {stage.result for stage in nest.stages if stage.output in nest.stores}
    made = {stage.result for stage in nest.stages if stage.contraction is not None} - stored
    total = np.zeros(len(table))
    for index in made:
        size = np.ones(len(table), dtype=np.int64)
        for axis in nest.buffers[index].footprint:
            extent = 1 if axis.dim is None else table.tile[:, axis.dim]
            size = size * -(-(axis.scale * (extent - 1) + axis.window) // axis.per)
        total += size
    return total


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
            size = axis.scale * (table.tile[:, axis.dim] - 1) + axis.window
        elements *= size
        pieces *= np.where(dense, 1, size)
        if axis.dim is not None:
            dense &= table.tile[:, axis.dim] == nest.root_shape[axis.dim]
    return elements, pieces


def stage_dims(stage: Stage) -> frozenset[int]:
    """Root dimensions that what a stage computes depends on."""
    return frozenset(axis.dim for axis in stage.footprint if axis.dim is not None)


def tile_count(nest: Nest, table: ScheduleTable) -> npt.NDArray[np.float64]:
    """Root tiles of every row, remainders included."""
    shape = np.array(nest.root_shape, dtype=np.int64)
    counts: npt.NDArray[np.float64] = np.prod(-(-shape // table.tile), axis=1, dtype=np.float64)
    return counts


def loaded_elements(nest: Nest, table: ScheduleTable) -> npt.NDArray[np.float64]:
    """Elements that DMA loads in all, for every row; padding is counted as if it were loaded."""
    shape = np.array(nest.root_shape, dtype=np.int64)
    tiles = -(-shape // table.tile)
    position = np.argsort(table.order, axis=1)
    total = np.zeros(len(table))
    around = {stage.contraction: stage_dims(stage) for stage in nest.stages}

    def depth(dims: frozenset[int]) -> Ints:
        level = np.full(len(table), -1, dtype=np.int64)
        for d in dims:
            level = np.maximum(level, np.where(tiles[:, d] > 1, position[:, d], -1))
        return level

    for index in nest.loads:
        buffer = nest.buffers[index]
        level = depth(buffer.dims)
        if buffer.chunk is not None:
            in_pieces = (
                table.k_tile[:, buffer.chunk[0]] < nest.contractions[buffer.chunk[0]].k_extent
            )
            level = np.where(in_pieces, depth(around[buffer.chunk[0]]), level)
        elements = np.ones(len(table))
        for axis in buffer.footprint:
            if axis.dim is None:
                elements *= axis.window
            else:
                count = tiles[:, axis.dim]
                whole = axis.scale * (shape[axis.dim] - count) + axis.window * count
                elements *= whole / axis.per
        for d in range(len(shape)):
            if d not in buffer.dims:
                elements *= np.where(position[:, d] <= level, tiles[:, d], 1)
        total += elements
    return total
