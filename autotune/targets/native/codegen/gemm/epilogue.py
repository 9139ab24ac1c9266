"""Writes the end of a register tile of a GEMM: adds to c, applies the epilogue, stores; each part
never, always, or by the trip of the reduction loop. Takes the sums of register_tile.py."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import assert_never

from autotune.isa.formats import Format
from autotune.isa.functions import UnaryFn, When
from autotune.targets.native.codegen.gemm.loops import Loops
from autotune.targets.native.codegen.gemm.register_tile import (
    LINE_BYTES,
    Columns,
    Rows,
    multiply_add,
    prefetch,
)
from autotune.targets.native.codegen.gemm.shape import GemmShape
from autotune.targets.native.codegen.writing.ir import FunctionWriter, vector
from autotune.targets.native.codegen.writing.lane_access import (
    broadcast,
    load_lanes,
    splat,
    store_lanes,
)
from autotune.targets.native.codegen.writing.narrow_strips import ELEMENTS, store_narrow
from autotune.targets.native.codegen.writing.vector_builder import VectorBuilder
from autotune.targets.native.cpu.vector_isa import VectorIsa


@dataclass(frozen=True, slots=True)
class Conditions:
    """i1 values of what goes by the reduction loop, made once in the entry block."""

    accumulates: str = ""
    ends: str = ""


def conditions(writer: FunctionWriter, shape: GemmShape) -> Conditions:
    """Compare the trip, if anything goes by it."""
    if not shape.numbers:
        return Conditions()
    (trip,) = writer.numbers
    return Conditions(
        writer.value(f"icmp ne i64 {trip}, 0"), writer.value(f"icmp eq i64 {trip}, {shape.last}")
    )


@dataclass(frozen=True, slots=True)
class Ends:
    """First elements of a tile: pointers into c, bias and r (empty without one)."""

    c: str
    bias: str
    r: str


@dataclass(frozen=True, slots=True)
class EndRows:
    """Offsets of the tile's rows in c, r and a bias along rows."""

    c: Rows
    r: Rows
    bias: Rows


@dataclass(slots=True)
class TileEnd:
    """Writes what becomes of the sums of one tile."""

    writer: FunctionWriter
    isa: VectorIsa
    shape: GemmShape
    loops: Loops
    conditions: Conditions
    columns: Columns
    ends: Ends
    rows: EndRows

    def prefetch(self, rows_ahead: int) -> None:
        """Ask for the tile's lines of c and r long before they are used; for those so many rows
        ahead where a tile is too short for that."""
        vector, row0 = self.loops.vector, self.loops.row0
        for base, rows, stride, step, format in (
            (self.ends.c, self.rows.c, vector.c, row0.c, self.shape.c_format),
            (self.ends.r, self.rows.r, vector.r, row0.r, Format.FP32),
        ):
            first, line, kind = rows_ahead * step, LINE_BYTES // format.bytes, ELEMENTS[format]
            for row in rows if base and stride == 1 else ():
                place = self.writer.offset(base, row, kind)
                for near in range(first, first + self.isa.lanes * self.columns.vectors, line):
                    write = base is self.ends.c
                    prefetch(self.writer, place, near, write=write, kind=kind)

    def loaded(self, count: int) -> list[str]:
        """What stands in c, as ``count`` sums to go on from."""
        return [self._load_c(at) for at in range(count)]

    def write(self, sums: list[str]) -> None:
        """From sums, row by row, to c in memory."""
        accumulate, ends = self.shape.accumulate, self.shape.epilogue
        sums = self._when(accumulate, self.conditions.accumulates, sums, self._added)
        sums = self._when(ends, self.conditions.ends, sums, self._ended)
        stride, format = self.loops.vector.c, self.shape.c_format
        for at, value in enumerate(sums):
            place, count = self._place(self.ends.c, self.rows.c, at, stride, format)
            if format is Format.FP32:
                store_lanes(self.writer, self.isa, value, place, count, stride)
            else:
                v = VectorBuilder(self.writer, self.isa)
                store_narrow(v, value, place, stride, 0, count, format)

    def _when(
        self,
        when: When,
        condition: str,
        values: list[str],
        change: Callable[[list[str]], list[str]],
    ) -> list[str]:
        match when:
            case When.NEVER:
                return values
            case When.ALWAYS:
                return change(values)
            case When.BY_LEVEL:
                return self._branch(condition, values, change)
            case _:
                assert_never(when)

    def _branch(
        self, condition: str, values: list[str], change: Callable[[list[str]], list[str]]
    ) -> list[str]:
        writer, kind = self.writer, vector(self.isa.lanes)
        before, then, behind = writer.current_block, writer.fresh(), writer.fresh()
        writer.branch(condition, then, behind)
        writer.block(then)
        changed = change(values)
        last = writer.current_block
        writer.branch(None, behind)
        writer.block(behind)
        return [
            writer.value(f"phi {kind} [ {old}, %{before} ], [ {new}, %{last} ]")
            for old, new in zip(values, changed, strict=True)
        ]

    def _added(self, sums: list[str]) -> list[str]:
        return [self._plus(value, self._load_c(at)) for at, value in enumerate(sums)]

    def _ended(self, sums: list[str]) -> list[str]:
        loops, shape = self.loops, self.shape
        bias = self._bias() if shape.has_bias else []
        done = []
        for at, value in enumerate(sums):
            row, column = divmod(at, self.columns.vectors)
            term = bias[row if loops.bias_row else column] if bias else ""
            residual = self._residual(at) if shape.has_residual else ""
            if residual and not shape.adds_last:
                term = self._plus(term, residual) if term else residual
            ended = self._scaled(value, term)
            if residual and shape.adds_last:
                ended = self._plus(ended, residual)
            done.append(self._activated(ended))
        return done

    def _residual(self, at: int) -> str:
        stride = self.loops.vector.r
        place, count = self._place(self.ends.r, self.rows.r, at, stride)
        return load_lanes(self.writer, self.isa, place, count, stride)

    def _bias(self) -> list[str]:
        if self.loops.bias_row:
            places = [self.writer.offset(self.ends.bias, row) for row in self.rows.bias]
            return [broadcast(self.writer, self.isa, place) for place in places]
        lanes = self.isa.lanes
        places = [
            self.writer.offset(self.ends.bias, j * lanes) for j in range(self.columns.vectors)
        ]
        return [
            load_lanes(self.writer, self.isa, place, self._count(j))
            for j, place in enumerate(places)
        ]

    def _scaled(self, value: str, term: str) -> str:
        kind, scale = vector(self.isa.lanes), splat(self.shape.scale, self.isa)
        if self.shape.scale == 1.0:
            return self._plus(value, term) if term else value
        if term:
            return multiply_add(self.writer, self.isa, value, scale, term)
        return self.writer.value(f"fmul {kind} {value}, {scale}")

    def _activated(self, x: str) -> str:
        p0, p1 = splat(self.shape.p0, self.isa), splat(self.shape.p1, self.isa)
        kind = vector(self.isa.lanes)
        match self.shape.fn:
            case UnaryFn.RELU:
                return self._choose("ogt", "zeroinitializer", x)
            case UnaryFn.CLIP:
                return self._choose("olt", p1, self._choose("ogt", p0, x))
            case UnaryFn.LEAKY_RELU:
                scaled = self.writer.value(f"fmul {kind} {x}, {p0}")
                below = self.writer.value(f"fcmp olt {kind} {x}, zeroinitializer")
                return self._select(below, scaled, x)
            case _:
                return x

    def _choose(self, order: str, limit: str, x: str) -> str:
        """The limit where it compares so to x, else x (a NaN stays): one maxps or minps."""
        kind = vector(self.isa.lanes)
        return self._select(self.writer.value(f"fcmp {order} {kind} {limit}, {x}"), limit, x)

    def _select(self, mask: str, yes: str, no: str) -> str:
        kind = vector(self.isa.lanes)
        return self.writer.value(
            f"select <{self.isa.lanes} x i1> {mask}, {kind} {yes}, {kind} {no}"
        )

    def _plus(self, x: str, y: str) -> str:
        return self.writer.value(f"fadd {vector(self.isa.lanes)} {x}, {y}")

    def _load_c(self, at: int) -> str:
        stride = self.loops.vector.c
        place, count = self._place(self.ends.c, self.rows.c, at, stride)
        return load_lanes(self.writer, self.isa, place, count, stride)

    def _place(
        self, base: str, rows: Rows, at: int, stride: int, format: Format = Format.FP32
    ) -> tuple[str, int]:
        """Address and lane count of the at-th register of the tile."""
        row, column = divmod(at, self.columns.vectors)
        near, offset, kind = column * self.isa.lanes * stride, rows[row], ELEMENTS[format]
        if isinstance(offset, int):
            return self.writer.offset(base, offset + near, kind), self._count(column)
        place = self.writer.offset(self.writer.offset(base, offset, kind), near, kind)
        return place, self._count(column)

    def _count(self, column: int) -> int:
        last = column == self.columns.vectors - 1
        return self.columns.last_lanes if last else self.isa.lanes
