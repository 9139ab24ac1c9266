"""Writes the sums of one register tile of a GEMM: rows × vectors accumulators over all reduction
loops; gemm.py calls it per tile, and epilogue.py takes the sums from there."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from autotune.isa.formats import Format
from autotune.targets.native.codegen.gemm.loops import Reduction
from autotune.targets.native.codegen.writing.ir import FunctionWriter, vector
from autotune.targets.native.codegen.writing.lane_access import broadcast, load_lanes
from autotune.targets.native.codegen.writing.narrow_strips import ELEMENTS, load_narrow
from autotune.targets.native.codegen.writing.vector_builder import VectorBuilder
from autotune.targets.native.cpu.vector_isa import VectorIsa

MAX_UNROLL = 4
UNROLLED_PRODUCTS = 48
"""Steps of the reduction, and their FMAs, in a trip. Beside another thread on its core a tile is bound by the
instructions that the core takes in, not by FMAs: ResNet-50 takes 8 % more with 24 (Zen 3; decision 29). With 48
tiles of up to 12 FMAs a step have MAX_UNROLL steps already: more would unroll larger tiles alone."""
LINE_BYTES = 64


@dataclass(frozen=True, slots=True)
class Columns:
    """The lanes of a tile: registers, valid lanes of the last one, and the distance of neighbouring
    lanes in the factor (1 in panels)."""

    vectors: int
    last_lanes: int
    stride: int


Rows = Sequence[str | int]
"""Offsets in elements of each row of a tile: constants, or i64 values."""


@dataclass(slots=True)
class TileSums:
    """Writes the reduction of a tile. ``reductions`` from the outermost in; ``rows`` are offsets in
    the broadcast factor. What is ``coming`` next is prefetched, so many elements a step. ``format`` is that
    of the factor in lanes, dense unless it is fp32. Lanes are in groups as ``Loops`` has them: the innermost
    reduction then is as long as a group, and a register of the broadcast factor holds what all its groups read."""

    writer: FunctionWriter
    isa: VectorIsa
    columns: Columns
    rows: Rows
    reductions: tuple[Reduction, ...]
    coming: int = 0
    locality: int = 3
    format: Format = Format.FP32
    group: int = 0

    @property
    def _kind(self) -> str:
        """Type of an element of the factor in lanes."""
        return ELEMENTS[self.format]

    def write(
        self, lanes: str, scalars: str, coming: str = "", before: list[str] | None = None
    ) -> list[str]:
        """Accumulators row by row, given the tile's first element of either factor and of what is
        coming, and what they hold ``before``, if not zeros."""
        zeros = ["zeroinitializer"] * (len(self.rows) * self.columns.vectors)
        return self._level(0, lanes, scalars, coming, zeros if before is None else before)

    def _level(
        self, depth: int, lanes: str, scalars: str, coming: str, sums: list[str]
    ) -> list[str]:
        k = self.reductions[depth]
        innermost = depth == len(self.reductions) - 1
        unroll = unrolled(k.size, len(sums)) if innermost else 1
        if innermost and self.group:
            unroll = k.size
        trips = k.size // unroll
        if trips == 1:
            return self._steps(k, unroll, lanes, scalars, sums)
        pointers = [lanes, scalars, *[coming] * (self.coming > 0)]
        kind = vector(self.isa.lanes)
        carried = [("ptr", each) for each in pointers] + [(kind, value) for value in sums]
        loop = self.writer.begin(trips, *carried)
        places, sums = loop.values[: len(pointers)], list(loop.values[len(pointers) :])
        if innermost:
            for near in range(0, unroll * self.coming, LINE_BYTES // self.format.bytes):
                prefetch(self.writer, places[2], near, locality=self.locality, kind=self._kind)
            sums = self._steps(k, unroll, places[0], places[1], sums)
        else:
            sums = self._level(depth + 1, places[0], places[1], places[-1], sums)
        within = unroll * math.prod(inner.size for inner in self.reductions[depth + 1 :])
        strides = (unroll * k.lanes, unroll * k.broadcast, within * self.coming)
        kinds = (self._kind, "float", self._kind)
        moves = zip(places, strides, kinds, strict=False)
        following = [self.writer.offset(*each) for each in moves]
        self.writer.end(loop, *following, *sums)
        return sums

    def _steps(
        self, k: Reduction, count: int, lanes: str, scalars: str, sums: list[str]
    ) -> list[str]:
        if self.group:
            return self._grouped(k, lanes, scalars, sums)
        for step in range(count):
            near = step * k.lanes
            rows = [self._element(scalars, row, step * k.broadcast) for row in self.rows]
            sums = self._step(lanes, near, rows, sums)
        return sums

    def _grouped(self, k: Reduction, lanes: str, scalars: str, sums: list[str]) -> list[str]:
        """All steps of the innermost reduction, where each group of lanes has elements of its own: a register holds those
        of all its groups, and each step spreads one of a group over the group's lanes."""
        vectors, kind, sums = self.columns.vectors, vector(self.isa.lanes), list(sums)
        given = []
        for row in self.rows:
            for j in range(vectors):
                place = self._element(scalars, row, j * self.isa.lanes)
                given.append(load_lanes(self.writer, self.isa, place, self._count(j)))
        for step in range(k.size):
            held = [self._vector(lanes, step * k.lanes, j) for j in range(vectors)]
            picks = (lane // k.size * k.size + step for lane in range(self.isa.lanes))
            mask = f"<{self.isa.lanes} x i32> <{', '.join(f'i32 {i}' for i in picks)}>"
            for at, own in enumerate(given):
                spread = self.writer.value(f"shufflevector {kind} {own}, {kind} poison, {mask}")
                column = held[at % vectors]
                sums[at] = multiply_add(self.writer, self.isa, spread, column, sums[at])
        return sums

    def _element(self, scalars: str, row: str | int, step: int) -> str:
        if isinstance(row, int):
            return self.writer.offset(scalars, row + step)
        return self.writer.offset(self.writer.offset(scalars, row), step)

    def _step(self, lanes: str, near: int, rows: list[str], sums: list[str]) -> list[str]:
        """One rank-1 update. The smaller side is loaded first and stays in registers."""
        vectors, sums = self.columns.vectors, list(sums)
        if vectors <= len(rows):
            held = [self._vector(lanes, near, j) for j in range(vectors)]
            for i, row in enumerate(rows):
                scalar = broadcast(self.writer, self.isa, row)
                for j in range(vectors):
                    at = i * vectors + j
                    sums[at] = multiply_add(self.writer, self.isa, scalar, held[j], sums[at])
            return sums
        spread = [broadcast(self.writer, self.isa, row) for row in rows]
        for j in range(vectors):
            column = self._vector(lanes, near, j)
            for i, scalar in enumerate(spread):
                at = i * vectors + j
                sums[at] = multiply_add(self.writer, self.isa, scalar, column, sums[at])
        return sums

    def _vector(self, lanes: str, near: int, j: int) -> str:
        stride = self.columns.stride
        count = self._count(j)
        place = self.writer.offset(lanes, near + j * self.isa.lanes * stride, self._kind)
        if self.format is not Format.FP32:
            return load_narrow(
                VectorBuilder(self.writer, self.isa), place, stride, 0, count, self.format
            )
        return load_lanes(self.writer, self.isa, place, count, stride)

    def _count(self, j: int) -> int:
        """Valid lanes of a register."""
        return self.columns.last_lanes if j == self.columns.vectors - 1 else self.isa.lanes


def unrolled(size: int, products: int) -> int:
    """Steps of a trip of a reduction of ``size`` steps with so many FMAs each: a divisor."""
    most = max(1, min(MAX_UNROLL, UNROLLED_PRODUCTS // products))
    return next(count for count in range(most, 0, -1) if size % count == 0)


def prefetch(
    writer: FunctionWriter,
    pointer: str,
    elements: str | int,
    *,
    write: bool = False,
    locality: int = 3,
    kind: str = "float",
) -> None:
    """Ask for the cache line of an element of a ``kind``, which need not exist; 2 is into the L2 cache alone."""
    writer.declare("void @llvm.prefetch.p0(ptr, i32, i32, i32)")
    place = writer.value(f"getelementptr {kind}, ptr {pointer}, i64 {elements}")
    writer.line(
        f"call void @llvm.prefetch.p0(ptr {place}, i32 {int(write)}, i32 {locality}, i32 1)"
    )


def multiply_add(writer: FunctionWriter, isa: VectorIsa, x: str, y: str, z: str) -> str:
    """x·y + z in all lanes, in one rounding where the instruction set can."""
    kind = vector(isa.lanes)
    if isa.fused:
        name = f"llvm.fma.v{isa.lanes}f32"
        return writer.call(kind, name, (kind, x), (kind, y), (kind, z))
    return writer.value(f"fadd {kind} {writer.value(f'fmul {kind} {x}, {y}')}, {z}")
