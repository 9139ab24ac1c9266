"""What raw features count: work, traffic and loops of a nest under schedules, from nest, table and spec alone."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cached_property

import numpy as np
import numpy.typing as npt

from autotune.fusion.nest import Buffer, Nest, Stage
from autotune.operators.axis_map import AxisMap, Footprint
from autotune.operators.families import FAMILIES
from autotune.operators.op import Op
from autotune.operators.tensor import TensorType
from autotune.schedule.counts import loaded_elements, made_elements, stage_dims, tile_count
from autotune.schedule.table import Ints, ScheduleTable
from autotune.targets.spec import HardwareSpec

Floats = npt.NDArray[np.float64]


class RawCounts:
    """A nest under the ``n`` schedules of a table, counted; arrays [n]."""

    def __init__(self, nest: Nest, table: ScheduleTable, spec: HardwareSpec | None) -> None:
        self.nest = nest
        self.table = table
        self.spec = spec
        self.ones = np.ones(len(table))
        shape = np.array(nest.root_shape, dtype=np.int64)
        self.parts: Ints = -(-shape // table.tile)
        loops = table.loops(nest)
        is_split = np.take_along_axis(self.parts > 1, loops, axis=1)
        depth = np.where(is_split, np.cumsum(is_split, axis=1) - 1, -1)
        self.depth = np.full_like(depth, -1)
        """Loop depth of each root dimension [n, rank]; -1 where it is whole."""
        np.put_along_axis(self.depth, loops, depth, axis=1)

    @cached_property
    def multiply_adds(self) -> Floats:
        """Multiply-adds of all products, those that tiles repeat included."""
        return self._work(
            [s for s in self.nest.stages if s.contraction is not None], count_products
        )

    @cached_property
    def cell_cycles(self) -> Floats:
        """Multiply-adds of all products over those of a cell per cycle; without a spec, one of each."""
        spec, total = self.spec, self.ones * 0
        for stage in self.nest.stages:
            if stage.contraction is not None:
                rate = 1 if spec is None else max(1, spec.matrix.macs_per_cell(stage.op.multiplied))
                total = total + self._work([stage], count_products) / rate
        return total

    @cached_property
    def vector_operations(self) -> Floats:
        """Scalar operations of all other stages, those that tiles repeat included."""
        others = [s for s in self.nest.stages if s.contraction is None and not s.view]
        return self._work(others, count_operations)

    @cached_property
    def made(self) -> dict[str, Floats]:
        """Elements that each stage makes over all tiles, by output; every core makes what is outside of
        all loops."""
        return {s.output: self._made(s) for s in self.nest.stages}

    @cached_property
    def cores(self) -> Floats:
        """Cores that have a tile."""
        return np.minimum(self.table.cores, self.outer_parts).astype(np.float64)

    @cached_property
    def outer_parts(self) -> Floats:
        """Tiles along the outermost loop, which cores share."""
        parts: Floats = np.where(self.depth == 0, self.parts, 1).prod(axis=1, dtype=np.float64)
        return parts

    @cached_property
    def loaded_bytes(self) -> Floats:
        """Bytes that tiles load, repeated ones included."""
        by_size: dict[int, list[int]] = {}
        for index in self.nest.loads:
            by_size.setdefault(self._bytes(self.nest.buffers[index].tensor), []).append(index)
        total: Floats = self.ones * 0
        for size, loads in by_size.items():
            total = total + size * loaded_elements(self.nest, self.table, loads)
        return total

    @cached_property
    def stored_bytes(self) -> Floats:
        """Bytes that tiles store."""
        stored = [
            self._bytes(s.output) * self.made[s.output]
            for s in self.nest.stages
            if s.output in self.nest.stores
        ]
        total: Floats = np.sum([self.ones * 0, *stored], axis=0)
        return total

    def _bytes(self, tensor: str) -> int:
        """Bytes of an element, as it is stored."""
        return self.nest.types[tensor].storage.bytes

    @cached_property
    def tiles(self) -> Floats:
        """Root tiles."""
        return tile_count(self.nest, self.table)

    @cached_property
    def loads(self) -> list[Buffer]:
        """Loaded buffers, those of the largest tensors first."""
        buffers = [self.nest.buffers[i] for i in self.nest.loads]
        return sorted(buffers, key=lambda b: -math.prod(self.nest.types[b.tensor].shape))

    @cached_property
    def products(self) -> list[Stage]:
        """Stages on the matrix unit, those with most multiply-adds first."""
        found = [s for s in self.nest.stages if s.contraction is not None]
        return sorted(found, key=lambda s: -count_products(s.op, self.nest))

    def extent(self, axis: AxisMap) -> Floats:
        """Elements of a footprint's axis in a tile."""
        size = axis.window if axis.dim is None else axis.extent(self.table.tile[:, axis.dim])
        return self.ones * size

    def level(self, dims: frozenset[int]) -> Floats:
        """Depth of the innermost loop over one of ``dims``; -1 where none is split."""
        level: Floats = np.max([self.ones * -1, *(self.depth[:, d] for d in dims)], axis=0)
        return level

    def trips(self, dims: frozenset[int]) -> Floats:
        """How often the loops around what depends on ``dims`` run."""
        around = self.depth <= self.level(dims)[:, None]
        trips: Floats = np.where(around, self.parts, 1).prod(axis=1, dtype=np.float64)
        return trips

    def tile_bytes(self, buffer: Buffer) -> Floats:
        """Bytes of one fill of a buffer."""
        elements = self.ones
        for position, axis in enumerate(buffer.footprint):
            piece = buffer.chunk is not None and buffer.chunk[1] == position
            assert buffer.chunk is not None or not piece
            size = (
                self.table.k_tile[:, buffer.chunk[0]]
                if piece and buffer.chunk
                else self.extent(axis)
            )
            elements = elements * size
        return self._bytes(buffer.tensor) * elements

    def fills(self, buffer: Buffer) -> Floats:
        """How often a buffer is filled."""
        if buffer.chunk is None:
            return self.trips(buffer.dims)
        contraction, _ = buffer.chunk
        pieces = self.pieces(contraction)
        reader = next(s for s in self.nest.stages if s.contraction == contraction)
        return np.where(
            pieces > 1, pieces * self.trips(stage_dims(reader)), self.trips(buffer.dims)
        )

    def pieces(self, contraction: int) -> Floats:
        """Pieces of a reduction."""
        extent = self.nest.contractions[contraction].k_extent
        return self.ones * -(-extent // self.table.k_tile[:, contraction])

    def run_bytes(self, footprint: Footprint, tensor: TensorType) -> Floats:
        """Bytes of a tile that lie side by side in its row-major tensor."""
        run, whole = self.ones * tensor.storage.bytes, np.ones(len(self.table), dtype=bool)
        for axis, extent in zip(reversed(footprint), reversed(tensor.shape), strict=True):
            size = np.minimum(self.extent(axis), extent)
            run = np.where(whole, run * size, run)
            whole &= size >= extent
        return run

    def _made(self, stage: Stage) -> Floats:
        level = self.level(stage_dims(stage))
        elements = made_elements(self.nest, self.table, stage)
        return np.where(level < 0, elements * self.cores, elements)

    def _work(self, stages: Sequence[Stage], count: Callable[[Op, Nest], int]) -> Floats:
        total = self.ones * 0
        for stage in stages:
            ops = (stage.op, *(link.op for link in stage.links))
            whole = math.prod(self.nest.types[stage.output].shape)
            each = sum(count(op, self.nest) for op in ops) / max(whole, 1)
            total = total + each * self.made[stage.output]
        return total


def _shapes(op: Op, nest: Nest) -> tuple[tuple[int, ...], ...]:
    return tuple(nest.types[x].shape for x in op.inputs)


def count_products(op: Op, nest: Nest) -> int:
    """Return the multiply-adds of a whole operator."""
    count = FAMILIES[op.family].multiply_adds
    return count(op, _shapes(op, nest), nest.types[op.output].shape)


def count_operations(op: Op, nest: Nest) -> int:
    """Return the scalar operations of a whole operator, at least one for each result."""
    shape = nest.types[op.output].shape
    return max(FAMILIES[op.family].operations(op, _shapes(op, nest), shape), math.prod(shape))


def trivial_parts(of: RawCounts) -> tuple[Floats, Floats, Floats]:
    """Return multiply-adds, operations and bytes over what the spec says it does of each in a cycle."""
    spec = of.spec
    peak, lanes, bandwidth = 1.0, 1.0, 1.0
    if spec is not None:
        peak = float(spec.matrix.rows * spec.matrix.cols)
        lanes, bandwidth = float(spec.vector.lanes), spec.dram.bytes_per_cycle
    moved = of.loaded_bytes + of.stored_bytes
    return of.cell_cycles / peak, of.vector_operations / lanes, moved / bandwidth


def trivial_cycles(of: RawCounts) -> Floats:
    """Return the size [n] that raw models learn the ratio to, at least 1.

    It is multiply-adds over the peak, operations over lanes and bytes over bandwidth, added: no unit's
    set-up, overlap or waiting. Without a spec it counts each as one.
    """
    found: Floats = np.maximum(np.sum(trivial_parts(of), axis=0), 1.0)
    return found
