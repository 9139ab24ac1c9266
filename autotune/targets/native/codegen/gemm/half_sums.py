"""Writes the sums of one register tile of a product of bf16, for narrow_gemm.py: rows × vectors accumulators of fp32
over all pairs of the reduction.

The instruction multiplies two neighbours of the reduction a lane. Each product is exact; each of the two additions
rounds to nearest even, the second neighbour's first. Subnormal factors, products and sums count as zeros (Intel,
"Architecture Instruction Set Extensions Programming Reference", VDPBF16PS).

CPUs with tiles take four times as long for it as for a multiply-add of fp32. There both neighbours are widened and
multiplied one by one, with the same roundings; subnormal numbers count as they are.
"""

from __future__ import annotations

from autotune.targets.native.codegen.gemm.narrow_sums import NarrowSums
from autotune.targets.native.codegen.writing.ir import vector

HALF_BITS = 16


class HalfSums(NarrowSums):
    """Writes the reduction of a tile of bf16; fields are those of ``NarrowSums``."""

    def write(self, panel: str, scalars: str, coming: str = "") -> list[str]:
        """Accumulators row by row, as vectors of floats, given a panel, the tile's first element of
        the broadcast factor and of what is coming."""
        zeros = ["zeroinitializer"] * (len(self.rows) * self.vectors)
        return self._level(0, (panel, scalars, coming), zeros)

    @property
    def _kind(self) -> str:
        return vector(self.isa.lanes)

    @property
    def _sums_rows(self) -> bool:
        return False

    @property
    def _pairs_kind(self) -> str:
        return f"<{2 * self.isa.lanes} x bfloat>"

    def _column(self, panel: str, j: int) -> str:
        place = self.writer.offset(panel, j * self.isa.lanes)
        return self.writer.value(f"load {self._pairs_kind}, ptr {place}, align 4")

    def _broadcast(self, scalars: str, row: str | int, count: int) -> str:
        """A pair of the broadcast factor in all lanes."""
        writer, lanes = self.writer, self.isa.lanes
        place, words = writer.offset(scalars, row, self._element), f"<{lanes} x i32>"
        if count == self.groups.group and self.groups.step == 1:
            word = writer.value(f"load i32, ptr {place}, align 2")
        else:
            word = self._composed(place, count, HALF_BITS, "zext")
        single = writer.value(f"insertelement {words} poison, i32 {word}, i64 0")
        zeros = f"<{lanes} x i32> zeroinitializer"
        spread = writer.value(f"shufflevector {words} {single}, {words} poison, {zeros}")
        return writer.value(f"bitcast {words} {spread} to {self._pairs_kind}")

    def multiplied(self, scalar: str, column: str, total: str) -> str:
        kind, pairs, dot = self._kind, self._pairs_kind, self.shape.dot(self.isa)
        if self.isa.tiles is not None:
            for x, y in zip(self._widened(scalar), self._widened(column), strict=True):
                name = f"llvm.fma.v{self.isa.lanes}f32"
                total = self.writer.call(kind, name, (kind, x), (kind, y), (kind, total))
            return total
        return self.writer.call(
            kind, dot.intrinsic, (kind, total), (pairs, scalar), (pairs, column)
        )

    def _widened(self, pairs: str) -> tuple[str, str]:
        """The second and the first of each two neighbours, as fp32."""
        writer, words = self.writer, f"<{self.isa.lanes} x i32>"
        both = writer.value(f"bitcast {self._pairs_kind} {pairs} to {words}")
        second = writer.value(f"and {words} {both}, splat (i32 {-1 << HALF_BITS})")
        first = writer.value(f"shl {words} {both}, splat (i32 {HALF_BITS})")
        second, first = (
            writer.value(f"bitcast {words} {x} to {self._kind}") for x in (second, first)
        )
        return second, first
