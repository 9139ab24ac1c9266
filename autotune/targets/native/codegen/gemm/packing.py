"""Packs a panel of a GEMM's unpacked factor into a buffer on the stack, where lanes are not
neighbours in memory; gemm.py then reads the buffer like a packed constant."""

from __future__ import annotations

from dataclasses import dataclass

from autotune.targets.native.codegen.gemm.blocking import best_blocking
from autotune.targets.native.codegen.gemm.loops import Loops, Reduction
from autotune.targets.native.codegen.gemm.register_tile import Columns
from autotune.targets.native.codegen.writing.ir import FunctionWriter, vector
from autotune.targets.native.codegen.writing.lane_access import load_lanes
from autotune.targets.native.codegen.writing.transposition import transposed
from autotune.targets.native.cpu.vector_isa import VectorIsa

BUFFER_BYTES = 64 * 1024
"""Of the stack, at most."""
FEW_ROWS = 14
"""Up to so many rows a panel is read only once, from where it is."""

MANY_ROWS = 64
"""More rows make it worth while to copy a panel only to have it dense: vectors of it that are
``FAR_APART_BYTES`` apart or more fall into few sets of an L1 cache."""
FAR_APART_BYTES = 512
FEW_SETS_BYTES = 256
"""The same if they are more than an L1 cache spans: 256 steps of 64 columns go from 80 to 90 % of the
peak (Zen 3)."""
NEAR_BYTES = 32 * 1024


def packed_width(loops: Loops, isa: VectorIsa) -> int | None:
    """Elements of the panels to pack the factor in, or None to read it in place: because it is
    dense enough, because it is hardly read again, or because a panel is too large for the stack."""
    most = BUFFER_BYTES // (4 * loops.depth) // isa.lanes * isa.lanes
    rows = loops.row1.size * loops.row0.size
    dense = loops.vector.lanes == 1
    if loops.vector.size == 1 or most == 0 or rows <= (MANY_ROWS if dense else FEW_ROWS):
        return None
    if dense and not _far_apart(loops):
        return None
    return best_blocking(loops, isa, most=most, outside=False).width


def _far_apart(loops: Loops) -> bool:
    """Whether a panel's vectors fall into few sets of an L1 cache."""
    apart = 4 * loops.reductions[-1].lanes
    spanned = apart * loops.reductions[-1].size
    return apart >= FAR_APART_BYTES or (apart >= FEW_SETS_BYTES and spanned > NEAR_BYTES)


@dataclass(slots=True)
class PanelPack:
    """Writes the copy of a panel of ``width`` elements. ``columns`` and ``reductions`` are those of
    the factor in memory."""

    writer: FunctionWriter
    isa: VectorIsa
    columns: Columns
    width: int
    reductions: tuple[Reduction, ...]

    def write(self, source: str, buffer: str) -> None:
        """Fill ``buffer``, [depth][width], with zeros behind the last lane."""
        self._level(0, source, buffer)

    def _level(self, depth: int, source: str, buffer: str) -> str:
        """Copies the loops from ``depth`` in; returns where to go on in the buffer."""
        if depth == len(self.reductions):
            return self._step(source, buffer)
        k = self.reductions[depth]
        if k.size == 1:
            return self._level(depth + 1, source, buffer)
        if self._lies_across(depth):
            return self._squares(k, source, buffer)
        loop = self.writer.begin(k.size, ("ptr", source), ("ptr", buffer))
        here, there = loop.values
        there = self._level(depth + 1, here, there)
        self.writer.end(loop, self.writer.offset(here, k.lanes), there)
        return there

    def _lies_across(self, depth: int) -> bool:
        """Whether neighbours in memory are steps of the innermost loop, and not lanes."""
        k, lanes = self.reductions[depth], self.isa.lanes
        innermost = all(inner.size == 1 for inner in self.reductions[depth + 1 :])
        return innermost and k.lanes == 1 and self.columns.stride != 1 and k.size >= lanes

    def _squares(self, k: Reduction, source: str, buffer: str) -> str:
        """As many steps at once as a register has lanes, transposed; then what is left."""
        lanes, (trips, left) = self.isa.lanes, divmod(k.size, self.isa.lanes)
        loop = self.writer.begin(trips, ("ptr", source), ("ptr", buffer))
        here, there = loop.values
        for j in range(self.columns.vectors):
            self._square(j, here, there)
        following = self.writer.offset(there, lanes * self.width)
        here = self.writer.offset(here, lanes)
        self.writer.end(loop, here, following)
        for _ in range(left):
            following = self._step(here, following)
            here = self.writer.offset(here, 1)
        return following

    def _square(self, j: int, source: str, buffer: str) -> None:
        """The lanes of one register in as many steps."""
        kind, lanes = vector(self.isa.lanes), self.isa.lanes
        count = self.columns.last_lanes if j == self.columns.vectors - 1 else lanes
        places = [
            self.writer.offset(source, (j * lanes + lane) * self.columns.stride)
            for lane in range(count)
        ]
        columns = [self.writer.load(kind, place) for place in places]
        columns += ["zeroinitializer"] * (lanes - count)
        for step, value in enumerate(transposed(self.writer, self.isa, columns)):
            place = self.writer.offset(buffer, step * self.width + j * lanes)
            self.writer.store(kind, value, place)

    def _step(self, source: str, buffer: str) -> str:
        kind, lanes, stride = vector(self.isa.lanes), self.isa.lanes, self.columns.stride
        for j in range(self.columns.vectors):
            count = self.columns.last_lanes if j == self.columns.vectors - 1 else lanes
            place = self.writer.offset(source, j * lanes * stride)
            value = load_lanes(self.writer, self.isa, place, count, stride)
            self.writer.store(kind, value, self.writer.offset(buffer, j * lanes))
        return self.writer.offset(buffer, self.width)
