"""Writes the sums of a few rows by a factor whose neighbours in memory are steps of the reduction, as one query by
all keys: each element's products stay in lanes, and one register's elements are folded together behind the loop.

In place of register_tile.py, which would gather a register's lanes one by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from autotune.targets.native.codegen.gemm.loops import Loops, Reduction
from autotune.targets.native.codegen.gemm.register_tile import Columns, Rows, multiply_add
from autotune.targets.native.codegen.writing.ir import FunctionWriter, vector
from autotune.targets.native.codegen.writing.lane_access import load_lanes
from autotune.targets.native.codegen.writing.transposition import BLOCK, folded
from autotune.targets.native.cpu.vector_isa import VectorIsa

MOST_ROWS = 4
"""Each row reads the factor anew, from an L1 cache."""


def sums_lie_along(loops: Loops, isa: VectorIsa) -> bool:
    """Return True if both factors are dense along the innermost reduction, and few rows pass by."""
    k = loops.reductions[-1]
    is_dense = k.lanes == k.broadcast == 1 and k.size >= isa.lanes >= BLOCK
    rows = loops.row1.size * loops.row0.size
    return is_dense and loops.vector.lanes != 1 and not loops.widens and rows <= MOST_ROWS


@dataclass(frozen=True, slots=True)
class RowSums:
    """Writes the reduction of a tile of one register of columns; fields as ``TileSums`` has them."""

    writer: FunctionWriter
    isa: VectorIsa
    columns: Columns
    rows: Rows
    reductions: tuple[Reduction, ...]

    def write(self, lanes: str, scalars: str) -> list[str]:
        """Return a register of sums for each row, given the tile's first element of either factor."""
        assert self.columns.vectors == 1, "a tile is one register wide"
        return [self._row(lanes, self.writer.offset(scalars, row)) for row in self.rows]

    def _row(self, lanes: str, scalars: str) -> str:
        sums = self._level(0, lanes, scalars, ["zeroinitializer"] * self.columns.last_lanes)
        missing = ["zeroinitializer"] * (self.isa.lanes - len(sums))
        return folded(self.writer, self.isa, [*sums, *missing])

    def _level(self, depth: int, lanes: str, scalars: str, sums: Sequence[str]) -> list[str]:
        """Write the loops from ``depth`` in; return the sums of each column, in lanes."""
        k = self.reductions[depth]
        if depth < len(self.reductions) - 1:
            return self._loop(k, k.size, 1, lanes, scalars, sums, depth)
        trips, rest = divmod(k.size, self.isa.lanes)
        found = self._loop(k, trips, self.isa.lanes, lanes, scalars, sums, depth)
        if rest:
            done = trips * self.isa.lanes
            here, there = (self.writer.offset(x, done) for x in (lanes, scalars))
            found = self._step(rest, here, there, found)
        return found

    def _loop(
        self,
        k: Reduction,
        trips: int,
        step: int,
        lanes: str,
        scalars: str,
        sums: Sequence[str],
        depth: int,
    ) -> list[str]:
        """Write ``trips`` of a loop, ``step`` elements apart."""
        kind = vector(self.isa.lanes)
        carried = [("ptr", lanes), ("ptr", scalars), *((kind, value) for value in sums)]
        loop = self.writer.begin(trips, *carried)
        here, there, *before = loop.values
        if depth < len(self.reductions) - 1:
            after = self._level(depth + 1, here, there, before)
        else:
            after = self._step(self.isa.lanes, here, there, before)
        following = (
            self.writer.offset(here, step * k.lanes),
            self.writer.offset(there, step * k.broadcast),
        )
        self.writer.end(loop, *following, *after)
        return after

    def _step(self, count: int, lanes: str, scalars: str, sums: Sequence[str]) -> list[str]:
        """Add ``count`` products to each column's sums."""
        writer, isa = self.writer, self.isa
        row = load_lanes(writer, isa, scalars, count)
        places = (writer.offset(lanes, i * self.columns.stride) for i in range(len(sums)))
        columns = (load_lanes(writer, isa, place, count) for place in places)
        return [
            multiply_add(writer, isa, row, column, before)
            for column, before in zip(columns, sums, strict=True)
        ]
