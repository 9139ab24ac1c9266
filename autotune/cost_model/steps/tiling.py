"""How often what happens: trips, remainders and loop levels of every schedule in a table.

First step of feature extraction. Arrays have shape [n], one value per row of the table. A
*dimension* is a root dimension, or, numbered from the rank on, the reduction of a contraction: both
are taken in full pieces and at most one smaller rest.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import product

import numpy as np
import numpy.typing as npt

from autotune.fusion.nest import Buffer, Nest
from autotune.kernels.tape.recorder import recorded_step
from autotune.operators.axis_map import AxisMap
from autotune.schedule.table import Ints, ScheduleTable

Floats = npt.NDArray[np.float64]


def as_floats(numbers: npt.ArrayLike) -> Floats:
    """Return the same numbers as float64."""
    found: Floats = np.multiply(numbers, 1.0)
    return found


def over_kinds(values: Floats) -> Floats:
    """Sum values of kinds of tiles [c, n], one kind after the other: NumPy adds those of one schedule alone in
    another order."""
    found: Floats = (
        np.cumsum(values, axis=0)[-1] if values.shape[1:] == (1,) else values.sum(axis=0)
    )
    return found


@dataclass(frozen=True, slots=True)
class Tiles:
    """The kinds of tiles in some dimensions: every combination of full piece and rest, [c, n].

    ``sizes`` are extents by dimension, ``rest`` [c, 1] says which kinds are a rest there, ``count``
    [c, n] how many tiles are of a kind.
    """

    sizes: dict[int, Ints]
    rest: dict[int, npt.NDArray[np.bool_]]
    count: Ints

    @property
    def rested(self) -> tuple[int, ...]:
        """Dimensions with a rest, the one that changes slowest over the kinds first."""
        return tuple(sorted(self.rest))

    def resized(self, dim: int, size: Ints) -> Tiles:
        """The same tiles with another extent in one dimension."""
        return Tiles({**self.sizes, dim: size}, self.rest, self.count)


@lru_cache(maxsize=16)
def _rest_or_full(dims: int) -> npt.NDArray[np.bool_]:
    """Return for every kind of tile in so many dimensions where it is a rest [c, dims, 1]."""
    kinds = np.array(list(product((False, True), repeat=dims)), dtype=bool)
    return kinds.reshape(1 << dims, dims, 1)


class Tiling:
    """Trips of a nest's loops for every schedule of a table."""

    def __init__(self, nest: Nest, table: ScheduleTable) -> None:
        self.nest = nest
        self.table = table
        self._tensor_rows: int | None = None
        self._tiles: dict[frozenset[int], Tiles] = {}
        self._levels: dict[frozenset[int], Ints] = {}
        self.n = len(table)
        self.rank = len(nest.root_shape)
        self.extent = [*nest.root_shape, *(c.k_extent for c in nest.contractions)]
        self.size = [*table.tile.T, *table.k_tile.T]
        self.full = [extent // size for extent, size in zip(self.extent, self.size, strict=True)]
        self.rest = [extent % size for extent, size in zip(self.extent, self.size, strict=True)]
        self.parts = [full + (rest > 0) for full, rest in zip(self.full, self.rest, strict=True)]
        self.ones = np.ones(self.n, dtype=np.int64)
        self.divided = [bool((parts > 1).any()) for parts in self.parts]
        self.rested = [
            divided and bool((rest > 0).any())
            for divided, rest in zip(self.divided, self.rest, strict=True)
        ]
        self.position = self._positions()
        self.depth = (
            np.max(np.stack(self.position), axis=0, initial=-1) if self.rank else -self.ones
        )
        self.outer_parts = self._outer_parts()
        self.active_cores = np.minimum(table.cores, self.outer_parts)
        self.share = -(-self.outer_parts // table.cores) / self.outer_parts

    def _positions(self) -> list[Ints]:
        """Depth of each root dimension's loop among those that are split; −1 where it is not."""
        split = (
            np.stack([self.parts[d] > 1 for d in range(self.rank)], axis=1) if self.rank else None
        )
        if split is None:
            return []
        order = self.table.loops(self.nest)
        in_order = np.take_along_axis(split, order, axis=1)
        depth = np.where(in_order, np.cumsum(in_order, axis=1) - 1, -1)
        by_dim = np.empty_like(depth)
        np.put_along_axis(by_dim, order, depth, axis=1)
        return list(by_dim.T)

    def _outer_parts(self) -> Ints:
        parts = self.ones.copy()
        for d in range(self.rank):
            if self.divided[d]:
                parts = np.where(self.position[d] == 0, self.parts[d], parts)
        return parts

    def level(self, dims: frozenset[int]) -> Ints:
        """Depth of the innermost loop around what depends on ``dims``; −1 outside all loops."""
        level = self._levels.get(dims)
        if level is None:
            level = -self.ones
            for d in dims:
                if d < self.rank and self.divided[d]:
                    level = np.maximum(level, self.position[d])
            self._levels[dims] = level
        return level

    def repeats(self, dims: frozenset[int], level: Ints) -> Ints:
        """How often the loops over other dimensions repeat what depends on ``dims``."""
        repeats = self.ones
        for d in range(self.rank):
            if d not in dims and self.divided[d]:
                repeats = repeats * np.where(self.position[d] <= level, self.parts[d], 1)
        return repeats

    def tiles(self, dims: frozenset[int]) -> Tiles:
        """Every kind of tile in ``dims`` with its count; other dimensions are whole pieces."""
        if dims not in self._tiles:
            self._tiles[dims] = self._kinds(dims)
        return self._tiles[dims]

    def _kinds(self, dims: frozenset[int]) -> Tiles:
        rested = sorted(d for d in dims if self.rested[d])
        kinds = _rest_or_full(len(rested))
        count = np.ones((1, self.n), dtype=np.int64)
        sizes: dict[int, Ints] = {}
        rest: dict[int, npt.NDArray[np.bool_]] = {}
        for d in dims:
            if d not in rested:
                sizes[d] = self.size[d]
                count *= self.full[d]
        for place, d in enumerate(rested):
            rest[d] = kinds[:, place]
            either = np.stack([self.size[d], np.maximum(self.rest[d], 1)])
            sizes[d] = either[rest[d][:, 0].astype(np.intp)]
            turns = np.stack([self.full[d], self.rest[d] > 0])
            count = (count[:, None] * turns).reshape(
                (-1, self.n)
            )  # what came before changes slower
        return Tiles(sizes, rest, count)

    @cached_property
    def transfers(self) -> Floats:
        """Transfers of all tensors together [n], tile by tile."""
        nest, whole = self.nest, np.zeros(self.n)
        for buffer in (nest.buffers[i] for i in nest.loads):
            trips = self.repeats(frozenset(), self.level(buffer.dims))
            if buffer.chunk is not None:
                k = self.k_dim(buffer.chunk[0])
                around = self.repeats(frozenset(), self.depth) * self.parts[k]
                trips = np.where(self.parts[k] > 1, around, trips)
            whole = whole + trips
        for stage in nest.stages:
            if stage.output in nest.stores:
                dims = frozenset(axis.dim for axis in stage.footprint if axis.dim is not None)
                whole = whole + self.repeats(frozenset(), self.level(dims))
        return whole

    def tensor_rows(self, row_bytes: int) -> int:
        """DRAM rows of all tensors that the nest moves, each from the begin of a row on."""
        if self._tensor_rows is None:
            nest = self.nest
            names = {*(nest.buffers[i].tensor for i in nest.loads), *nest.stores}
            sizes = (nest.types[x].size_bytes for x in names)
            self._tensor_rows = sum(-(-size // row_bytes) for size in sizes)
        return self._tensor_rows

    def k_dim(self, contraction: int) -> int:
        """The dimension number of a contraction's reduction."""
        return self.rank + contraction

    def content(self, buffer: Buffer) -> frozenset[int]:
        """Dimensions, reductions included, that the content of a buffer depends on."""
        return buffer.dims if buffer.chunk is None else buffer.dims | {self.k_dim(buffer.chunk[0])}

    def axis_size(self, axis: AxisMap, sizes: dict[int, Ints]) -> Ints | int:
        """Elements of a footprint's axis in a tile of these extents."""
        if axis.dim is None:
            return axis.window
        size: Ints = sizes.get(axis.dim, self.size[axis.dim])
        return axis.extent(size)

    def reach(self, axis: AxisMap, tiles: Tiles) -> tuple[Ints | int, Ints | int]:
        """First element that tiles of each kind need along an axis, and one past the last."""
        if axis.dim is None:
            return axis.offset, axis.offset + axis.window
        size, full = self.size[axis.dim], self.full[axis.dim]
        end = axis.start((full - 1) * size) + axis.offset + axis.extent(size)
        if axis.dim not in tiles.rest:
            return axis.offset, end
        rest, first = tiles.rest[axis.dim], axis.start(full * size) + axis.offset
        last = first + axis.extent(self.rest[axis.dim])
        return np.where(rest, first, axis.offset), np.where(rest, last, end)

    def inside(self, axis: AxisMap, extent: int, tiles: Tiles) -> Floats | float:
        """Mean elements of an axis that lie inside the tensor, for each kind of tile: what DMA
        really moves. Exact as a mean."""
        if axis.dim is None:
            return float(min(axis.offset + axis.window, extent) - max(axis.offset, 0))
        size, full = self.size[axis.dim], self.full[axis.dim]
        whole = self._inside_full(axis, extent, size, full)
        if axis.dim not in tiles.rest:
            return whole
        start = axis.start(full * size) + axis.offset
        end = start + axis.extent(self.rest[axis.dim])
        last = np.maximum(np.minimum(end, extent) - np.maximum(start, 0), 0)
        return np.where(tiles.rest[axis.dim], last, whole)

    def _inside_full(self, axis: AxisMap, extent: int, size: Ints, full: Ints) -> Floats:
        span, step = axis.extent(size), axis.start(size)
        inside: Floats = span - edge_losses(span, step, full, axis.offset, extent) / full
        return inside


def edge_losses(span: Ints, step: Ints, full: Ints, offset: int, extent: int) -> Ints:
    """Elements outside of a tensor's ``extent`` [n] of ``full`` tiles of ``span`` elements, which begin at ``offset``
    and every ``step``: a sum over the few tiles that reach over an edge."""
    recorded: Ints | None = recorded_step("edges", (span, step, full, offset, extent))
    if recorded is not None:
        return recorded
    lost = np.zeros(full.shape, dtype=np.int64)
    reach = -offset
    tile = 0
    while reach > 0 and bool((step * tile < reach).any()) and tile < int(full.max()):
        lost += np.clip(reach - step * tile, 0, span) * (tile < full)
        tile += 1
    back = 1
    while back <= int(full.max()):
        over = (step * (full - back) + offset + span - extent) * (full >= back)
        if not bool((over > 0).any()):
            break
        lost += np.clip(over, 0, span)
        back += 1
    return lost
