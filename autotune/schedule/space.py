"""The schedule space of a nest: candidate extents and loop orders, enumerated in bulk where they fit."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import permutations

import numpy as np
import numpy.typing as npt

from autotune.fusion.nest import ADDRESS_LOOPS, Buffer, Nest
from autotune.fusion.patches import Patches
from autotune.operators.axis_map import AxisMap
from autotune.schedule.fit import MAX_RUNS
from autotune.schedule.table import Ints, ScheduleTable
from autotune.targets.capacity import Capacity
from autotune.targets.spec import HardwareSpec, Memory

MAX_EXTENT = (1 << 16) - 1
"""Longest tile of a dimension in the space; beyond it, one more instruction hardly counts."""
_MULTIPLES = (8, 16, 32)
_EVEN_PARTS = 8


def extents(extent: int, granule: int = 1) -> tuple[int, ...]:
    """Return ascending candidates for a tile of a dimension.

    They are divisors and near-even parts (no or small remainders), powers of two, multiples of 8,
    16 and 32 (full array folds), and the whole. All except the whole are multiples of ``granule``.
    """
    candidates = {extent}
    for root in range(1, math.isqrt(extent) + 1):
        if extent % root == 0:
            candidates.update((root, extent // root))
    candidates.update(1 << power for power in range(extent.bit_length()))
    candidates.update(-(-extent // parts) for parts in range(2, _EVEN_PARTS + 1))
    for step in _MULTIPLES:
        candidates.update(step * count for count in (1, 2, 3, 4, 6))
    rounded = {-(-x // granule) * granule for x in candidates} | {extent}
    legal = sorted(x for x in rounded if x <= min(extent, MAX_EXTENT))
    return tuple(legal)


def multiples_of(candidates: tuple[int, ...], tile_multiple: int) -> tuple[int, ...]:
    """Keep the candidates that are multiples of ``tile_multiple``, and the whole."""
    return tuple(x for x in candidates if x % tile_multiple == 0 or x == candidates[-1])


def thin(candidates: tuple[int, ...], count: int) -> tuple[int, ...]:
    """Return ``count`` of the candidates: the largest, and others evenly spread in rank."""
    if len(candidates) <= count:
        return candidates
    if count == 1:
        return candidates[-1:]
    last = len(candidates) - 1
    picked = {round(last * i / (count - 1)) for i in range(count)}
    return tuple(candidates[i] for i in sorted(picked))


def thin_product(axes: list[tuple[int, ...]], budget: int) -> list[tuple[int, ...]]:
    """Thin candidate lists, the longest first, until their product is at most ``budget``."""
    lengths = [len(axis) for axis in axes]
    while math.prod(lengths) > budget and max(lengths) > 1:
        lengths[lengths.index(max(lengths))] -= 1
    return [thin(axis, count) for axis, count in zip(axes, lengths, strict=True)]


Order = tuple[int, ...]


def distinct_orders(nest: Nest, split: tuple[int, ...], shared: bool) -> tuple[Order, ...]:
    """Return loop orders of which no two refill equal buffers and run stages equally often.

    An order lists all root dimensions, split ones first. With ``shared`` the outermost loop is
    divided over cores: it must allow this, and distinguishes orders too. Of equal orders the first
    in dimension order stays, as it walks DRAM rows in sequence.
    """
    rest = tuple(d for d in range(len(nest.root_shape)) if d not in split)
    contents = {nest.buffers[i].dims for i in nest.loads}
    contents |= {
        frozenset(axis.dim for axis in stage.footprint if axis.dim is not None)
        for stage in nest.stages
    }
    orders: dict[tuple[object, ...], Order] = {}
    for order in permutations(split):
        outermost = order[:1] if shared else ()
        if not nest.shareable.issuperset(outermost) or nest.reduced in order[:-1]:
            continue
        signature = (outermost, *(_around(order, dims) for dims in sorted(contents, key=sorted)))
        orders.setdefault(signature, (*order, *rest))
    return tuple(orders.values())


def _around(order: Order, dims: frozenset[int]) -> frozenset[int]:
    """Return the loops that enclose content of ``dims``: all down to the innermost of them."""
    depth = max((position for position, d in enumerate(order) if d in dims), default=-1)
    return frozenset(order[: depth + 1])


_POOL = 8192
"""Combinations of tile and reduction extents to look at; an enumeration stays near 2 ms."""
_IN_PLACE_POOL = 16384
"""The same where operands are read in place. Among fewer, an image's rows lacked the part that
makes four equal tiles while its columns had it; tiles of columns take up to a fifth longer."""


@dataclass(frozen=True, slots=True)
class _Grid:
    """The product of candidate extents: one axis per tileable dimension, then one per contraction.

    Every quantity is an array that broadcasts over these axes.
    """

    nest: Nest
    axes: list[Ints]
    im2col: bool

    @classmethod
    def of(cls, nest: Nest, budget: int, tile_multiple: int, buffers: int, im2col: bool) -> _Grid:
        chosen = thin_product(candidate_extents(nest, tile_multiple, buffers), budget)
        return cls(nest, [np.array(axis, dtype=np.int64) for axis in chosen], im2col)

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(len(axis) for axis in self.axes)

    def along(self, axis: int) -> Ints:
        """Return the candidates of one axis, shaped to broadcast."""
        shape = [1] * len(self.axes)
        shape[axis] = -1
        return self.axes[axis].reshape(shape)

    def tile(self, dim: int) -> Ints | int:
        """Return tile extents along a root dimension."""
        if dim in self.nest.tileable:
            return self.along(self.nest.tileable.index(dim))
        return self.nest.root_shape[dim]

    def k_tile(self, contraction: int) -> Ints:
        """Return reduction pieces of a contraction."""
        return self.along(len(self.nest.tileable) + contraction)

    def _size(self, axis: AxisMap) -> Ints | int:
        return axis.window if axis.dim is None else axis.extent(self.tile(axis.dim))

    def needs(self) -> tuple[Ints, Ints]:
        """Return scratchpad words and those of sums [2, …] of every combination, with single and with double buffers.

        It is ``fit.scratchpad_elements`` and ``fit.sums_elements`` in bulk.
        """
        single = np.zeros((2, *self.shape), dtype=np.int64)
        second = np.zeros((2, *self.shape), dtype=np.int64)
        for index, buffer in enumerate(self.nest.buffers):
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
            if self.im2col and buffer.patches is not None:
                size = self._patch_elements(buffer, buffer.patches)
            kinds = 2 if index in self.nest.sums else 1
            single[:kinds] += buffer.words(size)
            second[:kinds] += buffer.words(size) * refilled
        return single, single + second

    def expressible(self) -> npt.NDArray[np.bool_]:
        """Return the combinations that ``fit.check`` would not reject for their loops."""
        shape, contractions = self.nest.root_shape, self.nest.contractions
        trips = {d: shape[d] // self.tile(d) for d in self.nest.tileable}
        pieces = [c.k_extent // self.k_tile(k) for k, c in enumerate(contractions)]
        runs = np.ones(self.shape)
        for count in (*trips.values(), *pieces):
            runs = runs * np.maximum(1, count)
        possible: npt.NDArray[np.bool_] = runs <= MAX_RUNS
        for moving in self.nest.moving_operands:
            loops = np.zeros(self.shape, dtype=np.int64)
            for d in moving.dims & trips.keys():
                loops += trips[d] > 1
            if moving.contraction is not None:
                loops += pieces[moving.contraction] > 1
            possible = possible & (loops <= ADDRESS_LOOPS)
        return possible

    def _patch_elements(self, buffer: Buffer, patches: Patches) -> Ints:
        assert buffer.chunk is not None
        return patches.elements(self.k_tile(buffer.chunk[0]), self._size)


def enumerate_on(
    nest: Nest, spec: HardwareSpec, limit: int, rng: np.random.Generator
) -> ScheduleTable:
    """Enumerate at most ``limit`` legal schedules of a nest on a machine; empty when none fits."""
    return enumerate_nest(
        nest,
        spec.capacity,
        spec.cores,
        limit,
        rng,
        spec.tile_multiple,
        spec.max_buffers,
        im2col=spec.memory is Memory.SCRATCHPAD,
    )


def candidate_extents(nest: Nest, tile_multiple: int, buffers: int = 2) -> list[tuple[int, ...]]:
    """Return ascending candidates: extents of each tileable dimension, then contraction pieces.

    Tiles of the innermost dimension are multiples of ``tile_multiple``, or the whole. Rows of scores
    stay whole where operands are read in place, as a cache holds them.
    """
    tiles = [
        multiples_of(
            extents(nest.root_shape[d], nest.granule(d)),
            tile_multiple if d == nest.innermost else 1,
        )
        if d != nest.reduced or buffers > 1
        else (nest.root_shape[d],)
        for d in nest.tileable
    ]
    pieces = [extents(c.k_extent) if c.chunkable else (c.k_extent,) for c in nest.contractions]
    return [*tiles, *pieces]


def enumerate_nest(
    nest: Nest,
    capacity: Capacity,
    cores: int,
    limit: int,
    rng: np.random.Generator,
    tile_multiple: int = 1,
    buffers: int = 2,
    im2col: bool = False,
) -> ScheduleTable:
    """Return at most ``limit`` legal schedules of a nest; empty if none fits.

    A core has the ``capacity``. Innermost tiles are multiples of
    ``tile_multiple`` and have up to ``buffers`` copies. With ``im2col`` a third of the schedules
    read patches, where convolutions may gain by that. If more than ``limit`` are legal, half of the
    rows have the largest tiles and ``rng`` draws the rest. Rows of equal programs appear once.
    """
    if not (im2col and nest.takes_patches):
        return _enumerate(nest, capacity, cores, limit, rng, tile_multiple, buffers, False)
    third = limit // 3
    direct = _enumerate(nest, capacity, cores, limit - third, rng, tile_multiple, buffers, False)
    patches = _enumerate(nest, capacity, cores, third, rng, tile_multiple, buffers, True)
    return direct.then(patches)


def _enumerate(
    nest: Nest,
    capacity: Capacity,
    cores: int,
    limit: int,
    rng: np.random.Generator,
    tile_multiple: int,
    buffers: int,
    im2col: bool,
) -> ScheduleTable:
    """Enumerate the schedules of one algorithm."""
    grid = _Grid.of(nest, _POOL if buffers > 1 else _IN_PLACE_POOL, tile_multiple, buffers, im2col)
    (single, sums), (double, double_sums) = grid.needs()
    fits = np.stack(
        [capacity.holds(single, sums), capacity.holds(double, double_sums) & (double > single)]
    )
    fits &= grid.expressible()
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
        np.full(len(chosen), im2col, dtype=np.int64),
    )


def _orders(
    nest: Nest, columns: list[Ints], cores: int
) -> tuple[Ints, list[list[tuple[int, ...]]]]:
    """Return the mask of split dimensions for every cell, and (order…, cores) for every mask."""
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
    """Return root tile elements times reduction pieces, the measure of a large tile."""
    volume = np.ones(len(columns[0]) if columns else 1)
    for column in columns:
        volume = volume * column
    return volume


def _choose(
    variants: Ints, volumes: npt.NDArray[np.float64], limit: int, rng: np.random.Generator
) -> tuple[Ints, Ints]:
    """Return cells and their variants: all, or the largest half of ``limit`` and random others."""
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
