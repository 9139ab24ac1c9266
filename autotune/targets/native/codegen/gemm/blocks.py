"""Large products in blocks of rows and of the reduction, for gemm.py: a block of the broadcast factor
is copied to the stack, and all panels of the other pass by it.

Without the copy, the broadcast factor of a large product comes from far away for every panel. Its rows
are a multiple of 4 KiB apart and fall into one set of the L1 cache; the copy's rows lie apart. Sums go
on from the values that a block left in c, so every element has the roundings that it has without
blocks. Goto and van de Geijn, "Anatomy of High-Performance Matrix Multiplication" (ACM TOMS 34(3),
2008).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from autotune.isa.functions import When
from autotune.targets.native.codegen.gemm.blocking import (
    Blocking,
    Panels,
    RowTiles,
    most_rows,
    row_tiles,
)
from autotune.targets.native.codegen.gemm.epilogue import Conditions, EndRows, Ends, TileEnd
from autotune.targets.native.codegen.gemm.loops import Axis, Loops, Reduction
from autotune.targets.native.codegen.gemm.panels import MOST_STEPS
from autotune.targets.native.codegen.gemm.register_tile import Columns, TileSums
from autotune.targets.native.codegen.gemm.shape import GemmShape
from autotune.targets.native.codegen.writing.ir import FunctionWriter
from autotune.targets.native.codegen.writing.lane_access import load_lanes, store_lanes
from autotune.targets.native.cpu.vector_isa import VectorIsa

BUFFER_BYTES = 128 * 1024
"""Of the stack, for the copy. With 64 KiB panels come from beyond an L2 cache too often, 89 % of the
peak for 92 % on 1024x1024x1024; 256 KiB are no faster (Zen 3)."""
APART_ELEMENTS = 16
"""Between rows of the copy, so that a tile's fall into different sets: a cache line."""


@dataclass(frozen=True, slots=True)
class Steps:
    """``count`` blocks of ``size`` steps of the reduction from step ``first`` on; whether sums begin
    with the first of them, and end with it."""

    first: int
    size: int
    count: int
    begins: bool
    ends: bool


def step_blocks(depth: int) -> tuple[Steps, ...]:
    """A reduction in blocks of one size, the last one smaller: the first, those between, the last."""
    count = -(-depth // MOST_STEPS)
    size = -(-depth // count)
    if count == 1:
        return (Steps(0, depth, 1, True, True),)
    between = (Steps(size, size, count - 2, False, False),) if count > 2 else ()
    last = (count - 1) * size
    return (
        Steps(0, size, 1, True, False),
        *between,
        Steps(last, depth - last, 1, False, True),
    )


@dataclass(slots=True)
class BlockWriter:
    """Writes a product in blocks; ``lanes``, ``scalars`` and ``ends`` are its operands' firsts."""

    writer: FunctionWriter
    isa: VectorIsa
    shape: GemmShape
    loops: Loops
    blocking: Blocking
    conditions: Conditions
    lanes: str
    scalars: str
    ends: Ends

    def write(self) -> None:
        """The whole product."""
        parts = step_blocks(self.loops.depth)
        pitch = parts[0].size + APART_ELEMENTS
        rows = most_rows(self.isa, self.blocking.panels[0].vectors)
        rows *= BUFFER_BYTES // (4 * pitch * rows)
        buffer = self.writer.value(f"alloca [{rows * pitch} x float], align 64")
        for steps in parts:
            self._repeat(steps.count, partial(self._steps, steps, rows, pitch, buffer))

    def _steps(self, steps: Steps, rows: int, pitch: int, buffer: str, i: str | int) -> None:
        """All rows, and one block of steps."""
        first = self._times(i, steps.size, steps.first)
        scalars = self.writer.offset(self.scalars, first)
        lanes = self.writer.offset(self.lanes, self._times(first, self.blocking.width))
        full, rest = divmod(self.loops.row0.size, rows)

        def block(size: int, j: str | int) -> None:
            place = self.writer.offset(scalars, self._times(j, rows * self.loops.row0.broadcast))
            self._copy(place, buffer, size, steps.size, pitch)
            self._block(steps, lanes, buffer, self._times(j, rows), size, pitch)

        if full:
            self._repeat(full, lambda j: block(rows, j))
        if rest:
            block(rest, full)

    def _copy(self, source: str, buffer: str, rows: int, steps: int, pitch: int) -> None:
        """Rows of the broadcast factor, densely and ``pitch`` apart."""
        vectors, rest = divmod(steps, self.isa.lanes)

        def row(r: str | int) -> None:
            here = self.writer.offset(source, self._times(r, self.loops.row0.broadcast))
            there = self.writer.offset(buffer, self._times(r, pitch))

            def vector(v: str | int, lanes: int) -> None:
                at = self._times(v, self.isa.lanes)
                value = load_lanes(self.writer, self.isa, self.writer.offset(here, at), lanes)
                place = self.writer.offset(there, at)
                store_lanes(self.writer, self.isa, value, place, lanes)

            if vectors:
                self._repeat(vectors, lambda v: vector(v, self.isa.lanes))
            if rest:
                vector(vectors, rest)

        self._repeat(rows, row)

    def _block(
        self, steps: Steps, lanes: str, buffer: str, first: str | int, rows: int, pitch: int
    ) -> None:
        """All panels by a block of rows in the buffer, which begins at row ``first``."""
        row0, vector, width = self.loops.row0, self.loops.vector, self.blocking.width
        outer = self._at(self.ends, first, row0, self.loops.bias_row)

        def panel(panels: Panels, p: str | int) -> None:
            number = self._times(p, 1, panels.first)
            column = self._times(number, width)
            here = self.writer.offset(lanes, self._times(number, width * self.loops.depth))
            ends = self._at(outer, column, vector, self.loops.bias_vector)
            cut = row_tiles(rows, most_rows(self.isa, panels.vectors))
            share = -(-width // sum(tiles.count for tiles in cut))
            following = self.writer.offset(here, width * self.loops.depth)

            def tile(tiles: RowTiles, t: str | int) -> None:
                row = self._times(t, tiles.rows, tiles.first)
                at = self._at(ends, row, row0, self.loops.bias_row)
                coming = self.writer.offset(following, self._times(t, share * steps.size))
                scalars = self.writer.offset(buffer, self._times(row, pitch))
                self._tile(steps, panels, tiles.rows, (here, scalars, coming), pitch, at, share)

            for tiles in cut:
                self._repeat(tiles.count, partial(tile, tiles))

        for panels in self.blocking.panels:
            self._repeat(panels.count, partial(panel, panels))

    def _at(self, ends: Ends, index: str | int, axis: Axis, bias: int) -> Ends:
        """``index`` further along an axis."""
        return Ends(
            self._offset(ends.c, index, axis.c),
            self._offset(ends.bias, index, bias),
            self._offset(ends.r, index, axis.r),
        )

    def _offset(self, pointer: str, index: str | int, stride: int) -> str:
        return self.writer.offset(pointer, self._times(index, stride)) if pointer else ""

    def _tile(
        self,
        steps: Steps,
        panels: Panels,
        rows: int,
        factors: tuple[str, str, str],
        pitch: int,
        ends: Ends,
        share: int,
    ) -> None:
        """One register tile; ``factors`` are its firsts in the panel, in the copy and in what is
        ``coming``, of which each step asks for ``share`` elements."""
        columns = Columns(panels.vectors, panels.last_lanes, 1)
        places = EndRows(
            [row * self.loops.row0.c for row in range(rows)],
            [row * self.loops.row0.r for row in range(rows)] if ends.r else (),
            [row * self.loops.bias_row for row in range(rows)] if ends.bias else (),
        )
        shape = self.shape if steps.ends else replace(self.shape, epilogue=When.NEVER)
        end = TileEnd(
            self.writer,
            self.isa,
            shape,
            self.loops,
            self.conditions,
            replace(columns, stride=self.loops.vector.lanes),
            ends,
            places,
        )
        end.prefetch(0 if steps.begins else rows)
        before = None if steps.begins else end.loaded(rows * panels.vectors)
        sums = TileSums(
            self.writer,
            self.isa,
            replace(columns, last_lanes=self.isa.lanes),
            [row * pitch for row in range(rows)],
            (Reduction(steps.size, self.blocking.width, 1),),
            coming=share,
            locality=2,
        )
        end.write(sums.write(*factors, before))

    def _times(self, index: str | int, factor: int, term: int = 0) -> str | int:
        """index · factor + term."""
        if isinstance(index, int) or factor == 0:
            return (index * factor if isinstance(index, int) else 0) + term
        if factor != 1:
            index = self.writer.value(f"mul i64 {index}, {factor}")
        return self.writer.value(f"add i64 {index}, {term}") if term else index

    def _repeat(self, trips: int, body: Callable[[str | int], None]) -> None:
        if trips == 1:
            body(0)
            return
        loop = self.writer.begin(trips)
        body(loop.index)
        self.writer.end(loop)
