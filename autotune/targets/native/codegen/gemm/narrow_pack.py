"""Packs a panel of a product of bytes on the stack, where its factor in lanes is no constant; narrow_gemm.py then
reads the buffer as it reads the panels of weights (narrow_packing.py makes the same bytes of a constant)."""

from __future__ import annotations

from dataclasses import dataclass

from autotune.targets.native.codegen.gemm.narrow_shape import SIGN, Groups, NarrowShape
from autotune.targets.native.codegen.gemm.narrow_sums import NarrowSums
from autotune.targets.native.codegen.gemm.register_tile import Columns
from autotune.targets.native.codegen.writing.ir import FunctionWriter
from autotune.targets.native.codegen.writing.narrow_strips import loaded
from autotune.targets.native.codegen.writing.vector_builder import VectorBuilder
from autotune.targets.native.cpu.vector_isa import VectorIsa

GROUP = 4
"""Bytes of a lane: instruction sets that multiply pairs take them from panels of constants only."""


@dataclass(slots=True)
class NarrowPanelPack:
    """Writes the copy of a panel of ``width`` lanes. ``columns`` are those of the factor in memory, ``steps`` the
    distances of the reduction's loops there, those of ``groups``."""

    writer: FunctionWriter
    isa: VectorIsa
    shape: NarrowShape
    groups: Groups
    columns: Columns
    steps: tuple[int, ...]
    width: int

    def write(self, source: str, buffer: str) -> None:
        """Fill ``buffer``: what sums begin from, then the groups."""
        _, zero = self.shape.lanes.as_read(False)
        _, other = self.shape.broadcast.as_read(self.isa.dot.unsigned)
        first = self.writer.offset(buffer, self.width)
        zeros = ["zeroinitializer"] * self.columns.vectors
        _, sums = self._level(0, source, first, zeros if other else [])
        depth = self.groups.run
        for loop in self.groups.outer:
            depth *= loop.size
        for j in range(self.columns.vectors):
            begin = "zeroinitializer"
            if other:
                kind, constant = self._kind, depth * zero * other
                times = self.writer.value(f"mul {kind} {sums[j]}, splat (i32 {-other})")
                begin = self.writer.value(f"add {kind} {times}, splat (i32 {_wrapped(constant)})")
            self.writer.store(self._kind, begin, self.writer.offset(buffer, j * self.isa.lanes))

    @property
    def _kind(self) -> str:
        return f"<{self.isa.lanes} x i32>"

    def _level(self, depth: int, source: str, panel: str, sums: list[str]) -> tuple[str, list[str]]:
        """Copies the loops from ``depth`` in; where to go on in the panel, and the sums of the lanes."""
        if depth == len(self.groups.outer):
            return self._run(source, panel, sums)
        carried = [("ptr", source), ("ptr", panel), *((self._kind, each) for each in sums)]
        loop = self.writer.begin(self.groups.outer[depth].size, *carried)
        here, there, *before = loop.values
        there, after = self._level(depth + 1, here, there, before)
        self.writer.end(loop, self.writer.offset(here, self.steps[depth], "i8"), there, *after)
        return there, after

    def _run(self, source: str, panel: str, sums: list[str]) -> tuple[str, list[str]]:
        """All whole groups, then what is left."""
        full, rest = divmod(self.groups.run, GROUP)
        if full:
            carried = [("ptr", source), ("ptr", panel), *((self._kind, each) for each in sums)]
            loop = self.writer.begin(full, *carried)
            here, there, *before = loop.values
            panel, sums = self._group(here, there, GROUP, before)
            source = self.writer.offset(here, GROUP * self.steps[-1], "i8")
            self.writer.end(loop, source, panel, *sums)
        return self._group(source, panel, rest, sums) if rest else (panel, sums)

    def _group(self, source: str, panel: str, count: int, sums: list[str]) -> tuple[str, list[str]]:
        """One group of ``count`` steps, of all lanes."""
        found = list(sums)
        for j in range(self.columns.vectors):
            column = self._column(source, j, count)
            self.writer.store(self._kind, column, self.writer.offset(panel, j * self.isa.lanes))
            if found:
                found[j] = self._products.multiplied(self._products.ones(count), column, sums[j])
        return self.writer.offset(panel, self.width), found

    @property
    def _products(self) -> NarrowSums:
        return NarrowSums(
            self.writer, self.isa, self.shape, self.groups, self.width, self.columns.vectors, []
        )

    def _column(self, source: str, j: int, count: int) -> str:
        """A register of lanes, with a group in each: signed, and zeros behind it."""
        lanes, writer, kind = self.isa.lanes, self.writer, self._kind
        valid = self.columns.last_lanes if j == self.columns.vectors - 1 else lanes
        first, stride = j * lanes, self.columns.stride
        if count == GROUP and self.steps[-1] == 1 and stride != 1:
            word = self._words(writer.offset(source, first * stride, "i8"), valid)
        else:
            word = self._interleaved(source, first, valid, count)
        shift, _ = self.shape.lanes.as_read(False)
        if not shift:
            return word
        signs = int.from_bytes(bytes([SIGN] * count), "little")
        return writer.value(f"xor {kind} {word}, splat (i32 {_wrapped(signs)})")

    def _words(self, source: str, valid: int) -> str:
        """Groups that lie in memory as they are, one for each lane."""
        word = "zeroinitializer"
        for lane in range(valid):
            at = self.writer.offset(source, lane * self.columns.stride, "i8")
            one = self.writer.value(f"load i32, ptr {at}, align 1")
            word = self.writer.value(f"insertelement {self._kind} {word}, i32 {one}, i64 {lane}")
        return word

    def _interleaved(self, source: str, first: int, valid: int, count: int) -> str:
        """Groups of ``count`` steps, each a row of lanes in memory."""
        writer, kind, builder = self.writer, self._kind, VectorBuilder(self.writer, self.isa)
        word = ""
        for step in range(count):
            place = writer.offset(source, step * self.steps[-1], "i8")
            row = loaded(builder, place, self.columns.stride, first, valid, "i8")
            wide = writer.value(f"zext <{self.isa.lanes} x i8> {row} to {kind}")
            moved = writer.value(f"shl {kind} {wide}, splat (i32 {8 * step})") if step else wide
            word = writer.value(f"or {kind} {word}, {moved}") if step else moved
        return word


def _wrapped(number: int) -> int:
    """The INT32 of the same lowest 32 bits."""
    return (number + 2**31) % 2**32 - 2**31
