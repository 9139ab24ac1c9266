"""Writes a narrow product by tile registers (AMX) that read rows where they lie, for narrow_gemm.py."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from autotune.targets.native.codegen.gemm.blocking import Panels
from autotune.targets.native.codegen.gemm.loops import Reduction
from autotune.targets.native.codegen.gemm.tile_plan import (
    BLOCK_ROWS,
    LINE_BYTES,
    TILE_ROWS,
    InPlace,
)
from autotune.targets.native.codegen.gemm.tile_products import TileProducts

if TYPE_CHECKING:
    from autotune.targets.native.codegen.gemm.gemm import Index, Place


@dataclass(slots=True)
class TilesInPlace(TileProducts):
    """Writes all of a product whose plan is ``in_place``.

    Portions of lines pass by each panel in turn. A stretch of rows ends with a tile that may repeat rows of the one before:
    it stores the same sums again."""

    in_place: InPlace = field(kw_only=True)

    def write(self, place: Place) -> None:
        """The whole body."""
        size = self.in_place.waiting * self._sums_pitch
        self.sums = self.owner.writer.value(f"alloca [{size} x i8], align {LINE_BYTES}")
        self._configure()
        for before, count, lines in self.in_place.portions:
            self.owner._repeat(count, partial(self._lines, place, before, lines))
        self._does("tilerelease")

    def _lines(self, place: Place, before: int, lines: int, number: Index) -> None:
        """Lines behind ``before`` others and ``number`` portions, by all panels."""
        first = self.owner._times(number, self.in_place.portion, before)
        for panels in self.owner.blocking.panels:
            self.owner._repeat(panels.count, partial(self._by_panel, place, panels, first, lines))

    def _by_panel(self, place: Place, panels: Panels, first: Index, lines: int, p: Index) -> None:
        """A portion, which begins with line ``first``, by a panel."""
        owner, lie = self.owner, self.in_place
        at = owner._at_panel(place, panels, p)
        begin = self._line(place.scalars, first)
        stretch = partial(self._stretch, at.lanes, panels.vectors)
        if lie.across:
            stretch(begin, self.sums, lie.positions(lines))
        elif lie.rows == TILE_ROWS:
            apart = (lie.line_bytes, lie.step * self._sums_pitch)
            tiles = partial(self._tiles, at.lanes, panels.vectors)
            pairs, odd = divmod(lines, 2)
            if pairs:
                owner._repeat(pairs, lambda i: tiles(*self._at(begin, owner._times(i, 2)), apart))
            if odd:
                tiles(*self._at(begin, lines - 1))
        else:
            owner._repeat(lines, lambda i: stretch(*self._at(begin, i), lie.rows))
        if lie.step == lie.rows:
            self._end_rows(at, panels, self.sums, owner._times(first, lie.rows), lines * lie.rows)
        else:
            owner._repeat(
                lines,
                lambda i: self._end_rows(
                    at,
                    panels,
                    self._line_sums(i),
                    owner._times(self._sum(first, i), lie.rows),
                    lie.rows,
                ),
            )

    def _line(self, begin: str, number: Index) -> str:
        far = self.owner._times(number, self.in_place.line_bytes)
        return self.owner.writer.offset(begin, far, "i8")

    def _line_sums(self, number: Index) -> str:
        far = self.owner._times(number, self.in_place.step * self._sums_pitch)
        return self.owner.writer.offset(self.sums, far, "i8")

    def _at(self, begin: str, number: Index) -> tuple[str, str]:
        """Where a line behind ``begin`` and its sums begin."""
        return self._line(begin, number), self._line_sums(number)

    def _stretch(self, panel: str, vectors: int, begin: str, sums: str, rows: int) -> None:
        """Rows at equal distances from ``begin`` on, by a panel."""
        owner, pitch = self.owner, self.plan.pitch
        whole, rest = divmod(rows, BLOCK_ROWS)

        def tiles(first: Index, apart: int = 0) -> None:
            row = owner.writer.offset(begin, owner._times(first, pitch), "i8")
            to = owner.writer.offset(sums, owner._times(first, self._sums_pitch), "i8")
            steps = (apart * pitch, apart * self._sums_pitch) if apart else None
            self._tiles(panel, vectors, row, to, steps)

        if whole:
            owner._repeat(whole, lambda i: tiles(owner._times(i, BLOCK_ROWS), TILE_ROWS))
        if 0 < rest <= TILE_ROWS:
            tiles(rows - TILE_ROWS)
        elif rest and whole:
            tiles(rows - BLOCK_ROWS, TILE_ROWS)
        elif rest:
            tiles(0, rows - TILE_ROWS)

    def _tiles(
        self,
        panel: str,
        vectors: int,
        row: str,
        sums: str,
        apart: tuple[int, int] | None = None,
    ) -> None:
        """A tile of rows, and another one so many bytes ``apart`` in memory and in sums."""
        rows, ends = [row], [sums]
        if apart is not None:
            rows.append(self.owner.writer.offset(row, apart[0], "i8"))
            ends.append(self.owner.writer.offset(sums, apart[1], "i8"))
        self._multiply(panel, rows, ends, vectors)

    def _reduce(self, panel: str, rows: list[str], vectors: int) -> None:
        self._within(self.owner.groups.outer, panel, rows, vectors)

    def _within(
        self, outer: tuple[Reduction, ...], panel: str, rows: list[str], vectors: int
    ) -> None:
        """All chunks within so many loops of the reduction."""
        groups = self.owner.groups
        chunks = groups.run * groups.element_bytes // LINE_BYTES
        if not outer:
            self._chunks(chunks, panel, rows, vectors)
            return
        loop, *rest = outer
        step = chunks * self.plan.chunk * self._group * math.prod(inner.size for inner in rest)
        self._walk(
            loop.size,
            panel,
            step,
            rows,
            loop.broadcast * groups.element_bytes,
            lambda at, mine: self._within(tuple(rest), at, mine, vectors),
        )
