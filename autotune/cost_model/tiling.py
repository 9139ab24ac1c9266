"""How often what happens: trips, remainders and loop levels of every schedule in a table.

First step of feature extraction. Arrays have shape [n], one value per row of the table. A
*dimension* is a root dimension, or, numbered from the rank on, the reduction of a contraction: both
are taken in full pieces and at most one smaller rest.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

import numpy as np
import numpy.typing as npt

from autotune.fusion.footprint import AxisMap
from autotune.fusion.nest import Buffer, Nest
from autotune.schedule.table import Ints, ScheduleTable

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Corner:
    """One combination of full piece or rest in some dimensions: extents by dimension, which
    dimensions are in their rest, and how many tiles are of this kind [n]."""

    sizes: dict[int, Ints]
    rests: frozenset[int]
    count: Ints


class Tiling:
    """Trips of a nest's loops for every schedule of a table."""

    def __init__(self, nest: Nest, table: ScheduleTable) -> None:
        self.nest = nest
        self.table = table
        self.n = len(table)
        self.rank = len(nest.root_shape)
        self.extent = [*nest.root_shape, *(c.k_extent for c in nest.contractions)]
        self.size = [*table.tile.T, *table.k_tile.T]
        self.full = [extent // size for extent, size in zip(self.extent, self.size, strict=True)]
        self.rest = [extent % size for extent, size in zip(self.extent, self.size, strict=True)]
        self.parts = [full + (rest > 0) for full, rest in zip(self.full, self.rest, strict=True)]
        self.ones = np.ones(self.n, dtype=np.int64)
        self.zero = np.zeros(self.n)
        self.divided = [bool((parts > 1).any()) for parts in self.parts]
        self.position = self._positions()
        self.depth = np.max(
            [self.position[d] for d in range(self.rank)], axis=0, initial=-1
        ) if self.rank else -self.ones
        self.outer_parts = self._outer_parts()
        self.active_cores = np.minimum(table.cores, self.outer_parts)
        self.share = -(-self.outer_parts // table.cores) / self.outer_parts

    def _positions(self) -> list[Ints]:
        """Depth of each root dimension's loop among those that are split; −1 where it is not."""
        split = np.stack([self.parts[d] > 1 for d in range(self.rank)], axis=1) if self.rank else None
        if split is None:
            return []
        in_order = np.take_along_axis(split, self.table.order, axis=1)
        depth = np.where(in_order, np.cumsum(in_order, axis=1) - 1, -1)
        by_dim = np.empty_like(depth)
        np.put_along_axis(by_dim, self.table.order, depth, axis=1)
        return list(by_dim.T)

    def _outer_parts(self) -> Ints:
        parts = self.ones.copy()
        for d in range(self.rank):
            if self.divided[d]:
                parts = np.where(self.position[d] == 0, self.parts[d], parts)
        return parts

    def level(self, dims: frozenset[int]) -> Ints:
        """Depth of the innermost loop around what depends on ``dims``; −1 outside all loops."""
        level = -self.ones
        for d in dims:
            if d < self.rank and self.divided[d]:
                level = np.maximum(level, self.position[d])
        return level

    def repeats(self, dims: frozenset[int], level: Ints) -> Ints:
        """How often the loops over other dimensions repeat what depends on ``dims``."""
        repeats = self.ones
        for d in range(self.rank):
            if d not in dims and self.divided[d]:
                repeats = repeats * np.where(self.position[d] <= level, self.parts[d], 1)
        return repeats

    def corners(self, dims: frozenset[int]) -> Iterator[Corner]:
        """Every kind of tile in ``dims`` with its count; dimensions outside are whole pieces."""
        rests = sorted(d for d in dims if self.divided[d] and bool(self.rest[d].any()))
        for picks in product((False, True), repeat=len(rests)):
            chosen = frozenset(d for d, rest in zip(rests, picks, strict=True) if rest)
            count = self.ones
            sizes: dict[int, Ints] = {}
            for d in dims:
                if d in chosen:
                    count = count * (self.rest[d] > 0)
                    sizes[d] = self.rest[d]
                else:
                    count = count * self.full[d]
                    sizes[d] = self.size[d]
            if len(chosen) == 0 or bool(count.any()):
                yield Corner(sizes, chosen, count)

    def k_dim(self, contraction: int) -> int:
        """The dimension number of a contraction's reduction."""
        return self.rank + contraction

    def content(self, buffer: Buffer) -> frozenset[int]:
        """Dimensions, reductions included, that the content of a buffer depends on."""
        return buffer.dims if buffer.chunk is None else buffer.dims | {self.k_dim(buffer.chunk[0])}

    def axis_size(self, axis: AxisMap, sizes: dict[int, Ints]) -> Ints | int:
        """Elements of a footprint's axis in a corner."""
        if axis.dim is None:
            return axis.window
        return axis.scale * (sizes.get(axis.dim, self.size[axis.dim]) - 1) + axis.window

    def inside(self, axis: AxisMap, extent: int, rest: bool) -> Floats | float:
        """Mean elements of an axis that lie inside the tensor, over full tiles or for the rest:
        what DMA really moves. Exact as a mean."""
        if axis.dim is None:
            return float(min(axis.offset + axis.window, extent) - max(axis.offset, 0))
        size, full = self.size[axis.dim], self.full[axis.dim]
        if rest:
            start = axis.scale * full * size + axis.offset
            end = start + axis.scale * (self.rest[axis.dim] - 1) + axis.window
            return np.maximum(np.minimum(end, extent) - np.maximum(start, 0), 0).astype(np.float64)
        return self._inside_full(axis, extent, size, full)

    def _inside_full(self, axis: AxisMap, extent: int, size: Ints, full: Ints) -> Floats:
        """A sum over the few tiles that reach over an edge; the others are whole."""
        span = axis.scale * (size - 1) + axis.window
        step = axis.scale * size
        lost = np.zeros(self.n, dtype=np.int64)
        reach = -axis.offset
        tile = 0
        while reach > 0 and bool((step * tile < reach).any()) and tile < int(full.max()):
            lost += np.clip(reach - step * tile, 0, span) * (tile < full)
            tile += 1
        back = 1
        while back <= int(full.max()):
            over = (step * (full - back) + axis.offset + span - extent) * (full >= back)
            if not bool((over > 0).any()):
                break
            lost += np.clip(over, 0, span)
            back += 1
        inside: Floats = span - lost / full
        return inside
