"""Writes a narrow product by tile registers (AMX), as tile_plan.py says, for narrow_gemm.py.

It copies rows, multiplies tiles, and hands sums to the ends of register tiles by way of the stack.

Sums of bytes are exact modulo 2^32, as those of vectors. A tile of bf16 takes 32 neighbours at a time. It sums the even
ones and the odd ones apart, by fused multiply-adds from zero. It adds the two sums, and then the total so far. Each step
rounds to nearest even, and subnormal numbers count as zeros (Intel, "Architecture Instruction Set Extensions Programming
Reference", TDPBF16PS).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from autotune.isa.formats import ELEMENT_BYTES, Format
from autotune.targets.native.codegen.gemm.blocking import Panels
from autotune.targets.native.codegen.gemm.tile_plan import (
    BLOCK_ROWS,
    LINE_BYTES,
    TILE_ROWS,
    Piece,
    TilePlan,
    pieces,
)
from autotune.targets.native.cpu.vector_isa import TileUnit

if TYPE_CHECKING:
    from autotune.targets.native.codegen.gemm.gemm import Index, Place
    from autotune.targets.native.codegen.gemm.narrow_gemm import NarrowWriter

END_ROWS = 8
"""Rows whose end is written out."""
SUMS, ROWS, LANES = (0, 1, 2, 3), (4, 5), (6, 7)
"""Tile registers: of sums, row by row, of the broadcast factor and of the one in lanes."""
LINE = f"<{LINE_BYTES} x i8>"


@dataclass(slots=True)
class TileProducts:
    """Writes all of a product that ``owner`` walks."""

    owner: NarrowWriter
    plan: TilePlan
    unit: TileUnit
    copy: str = ""
    sums: str = ""

    def write(self, place: Place) -> None:
        """The whole body."""
        owner, plan, writer = self.owner, self.plan, self.owner.writer
        size = plan.copied * plan.pitch + 2 * LINE_BYTES
        self.copy = writer.value(f"alloca [{size} x i8], align {LINE_BYTES}")
        self.sums = writer.value(
            f"alloca [{BLOCK_ROWS * self._sums_pitch} x i8], align {LINE_BYTES}"
        )
        self._configure()
        for before, count, rows in _parts(plan.rows, plan.copied):
            owner._repeat(count, partial(self._portion, place, before, rows))
        self._does("tilerelease")

    @property
    def _sums_pitch(self) -> int:
        """Bytes of a row of sums."""
        return len(LANES) * LINE_BYTES

    def _portion(self, place: Place, before: int, rows: int, number: Index) -> None:
        """Rows behind ``before`` others and ``number`` portions, copied now, by all panels."""
        owner = self.owner
        first = owner._times(number, self.plan.copied, before)

        def copied(i: Index) -> None:
            self._copy_row(place, self._sum(first, i), i)

        owner._repeat(rows, copied)
        for panels in owner.blocking.panels:
            owner._repeat(panels.count, partial(self._panel, place, panels, first, rows))

    def _panel(self, place: Place, panels: Panels, first: Index, rows: int, p: Index) -> None:
        """The blocks of a portion, which begins with row ``first``, by a panel."""
        owner = self.owner
        at = owner._at_panel(place, panels, p)
        for before, count, height in _parts(rows, BLOCK_ROWS):

            def block(number: Index, before: int = before, height: int = height) -> None:
                near = owner._times(number, BLOCK_ROWS, before)
                copy = owner.writer.offset(self.copy, owner._times(near, self.plan.pitch), "i8")
                self._block(at, panels, self._sum(first, near), height, copy)

            owner._repeat(count, block)

    def _sum(self, x: Index, y: Index) -> Index:
        if isinstance(x, int) and isinstance(y, int):
            return x + y
        if x == 0 or y == 0:
            return y if x == 0 else x
        return self.owner.writer.value(f"add i64 {x}, {y}")

    def _copy_row(self, place: Place, row: Index, to: Index) -> None:
        """A row of the broadcast factor, with zeros behind its runs."""
        owner, plan, writer = self.owner, self.plan, self.owner.writer
        row1, row0 = owner.loops.row1, owner.loops.row0
        at = owner._scattered(row, row1.broadcast, row0.broadcast)
        source = writer.offset(place.scalars, at, owner._scalar_kind)
        target = writer.offset(self.copy, owner._times(to, plan.pitch), "i8")
        border, cleared = (plan.chunks - 1) * plan.chunk * ELEMENT_BYTES, plan.overlap == 0
        for piece in pieces(plan, owner.groups):
            if piece.target >= border and not cleared:
                self._store("zeroinitializer", writer.offset(target, border, "i8"))
                cleared = True
            self._copy_piece(source, writer.offset(target, piece.target, "i8"), piece)

    def _copy_piece(self, source: str, target: str, piece: Piece) -> None:
        """A piece of the row at ``source``, a line at a time."""
        owner, writer = self.owner, self.owner.writer
        begin = writer.offset(source, piece.element, owner._scalar_kind)
        size = min(piece.size, LINE_BYTES)

        def line(number: Index) -> None:
            far = owner._times(number, LINE_BYTES)
            value = self._line(writer.offset(begin, far, "i8"), size)
            self._store(value, writer.offset(target, far, "i8"))

        if piece.is_looped:
            owner._repeat(piece.lines, line)
        else:
            for number in range(piece.lines):
                line(number)

    def _line(self, at: str, size: int) -> str:
        """Bytes from ``at``, with zeros behind them: a cache line."""
        writer = self.owner.writer
        if size == LINE_BYTES:
            return writer.value(f"load {LINE}, ptr {at}, align 1")
        bits = ", ".join(f"i1 {int(i < size)}" for i in range(LINE_BYTES))
        return writer.call(
            LINE,
            f"llvm.masked.load.v{LINE_BYTES}i8.p0",
            ("ptr", at),
            ("i32", "1"),
            (f"<{LINE_BYTES} x i1>", f"<{bits}>"),
            (LINE, "zeroinitializer"),
        )

    def _store(self, value: str, at: str) -> None:
        self.owner.writer.line(f"store {LINE} {value}, ptr {at}, align 1")

    def _block(self, at: Place, panels: Panels, first: Index, rows: int, copy: str) -> None:
        """A block of rows, which begins with row ``first`` and lies at ``copy``, by a panel."""
        writer, plan, tiles = self.owner.writer, self.plan, range(-(-rows // TILE_ROWS))
        copies = [writer.offset(copy, i * TILE_ROWS * plan.pitch, "i8") for i in tiles]
        sums = [writer.offset(self.sums, i * TILE_ROWS * self._sums_pitch, "i8") for i in tiles]
        self._multiply(at.lanes, copies, sums, panels.vectors)
        self._end_rows(at, panels, self.sums, first, rows)

    def _end_rows(self, at: Place, panels: Panels, sums: str, first: Index, rows: int) -> None:
        """What becomes of the sums of rows that begin with row ``first``."""
        owner = self.owner

        def ended(number: Index, before: int, count: int) -> None:
            near = owner._times(number, END_ROWS, before)
            mine = owner.writer.offset(sums, owner._times(near, self._sums_pitch), "i8")
            row = self._sum(first, near)
            place = at
            if not owner.blocking.scattered:
                place, row = owner._moved(at, row, owner.loops.row0, owner.loops.bias_row), 0
            owner._tile(panels, count, replace(place, scalars=mine), row)

        whole, rest = divmod(rows, END_ROWS)
        if whole:
            owner._repeat(whole, lambda i: ended(i, 0, END_ROWS))
        if rest:
            ended(0, whole * END_ROWS, rest)

    def _multiply(self, panel: str, rows: list[str], sums: list[str], vectors: int) -> None:
        """Tiles of ``rows``, ``vectors`` of a panel by each of them, to where their ``sums`` belong."""
        for i in range(len(rows)):
            for j in range(vectors):
                self._does("tilezero", ("i8", SUMS[2 * i + j]))
        self._reduce(
            self.owner.writer.offset(panel, self._group * self.owner.groups.begins, "i8"),
            rows,
            vectors,
        )
        for i, begin in enumerate(sums):
            for j in range(vectors):
                place = self.owner.writer.offset(begin, j * LINE_BYTES, "i8")
                given = ("ptr", place), ("i64", self._sums_pitch)
                self._does("tilestored64", ("i8", SUMS[2 * i + j]), *given)

    @property
    def _group(self) -> int:
        """Bytes of a group of the reduction in a panel."""
        return self.plan.width * ELEMENT_BYTES

    def _reduce(self, panel: str, rows: list[str], vectors: int) -> None:
        """All chunks of the reduction."""
        plan, writer = self.plan, self.owner.writer
        whole = plan.chunks - (plan.overlap > 0)
        self._chunks(whole, panel, rows, vectors)
        if plan.overlap:
            last = writer.offset(panel, (plan.groups - plan.chunk) * self._group, "i8")
            ends = [writer.offset(row, whole * LINE_BYTES, "i8") for row in rows]
            self._chunk(last, ends, vectors)

    def _chunks(self, count: int, panel: str, rows: list[str], vectors: int) -> None:
        """Chunks that lie behind each other in rows."""
        if count == 1:
            self._chunk(panel, rows, vectors)
        elif count > 1:
            self._walk(
                count,
                panel,
                self.plan.chunk * self._group,
                rows,
                LINE_BYTES,
                partial(self._chunk, vectors=vectors),
            )

    def _walk(
        self,
        trips: int,
        panel: str,
        step: int,
        rows: list[str],
        row_step: int,
        body: Callable[[str, list[str]], None],
    ) -> None:
        """``body`` at places of a panel and of rows that move by steps of bytes."""
        writer = self.owner.writer
        loop = writer.begin(trips, ("ptr", panel), *(("ptr", row) for row in rows))
        at, *mine = loop.values
        body(at, mine)
        writer.end(
            loop,
            writer.offset(at, step, "i8"),
            *(writer.offset(row, row_step, "i8") for row in mine),
        )

    def _chunk(self, panel: str, rows: list[str], vectors: int) -> None:
        """The products of a chunk of the reduction."""
        writer = self.owner.writer
        for j in range(vectors):
            at = writer.offset(panel, j * LINE_BYTES, "i8")
            self._does("tileloadd64", ("i8", LANES[j]), ("ptr", at), ("i64", self._group))
        for i, row in enumerate(rows):
            self._does("tileloadd64", ("i8", ROWS[i]), ("ptr", row), ("i64", self.plan.pitch))
            for j in range(vectors):
                tiles = (SUMS[2 * i + j], ROWS[i], LANES[j])
                self._does(self._product, *(("i8", tile) for tile in tiles))

    @property
    def _product(self) -> str:
        unit, format = self.unit, self.owner.narrow.broadcast.format
        if format is Format.BF16:
            return unit.halves
        return unit.signed if format is Format.INT8 else unit.unsigned

    def _configure(self) -> None:
        """Sizes of the tile registers (Intel, the same reference, section 3.3): palette 1, bytes of a row, rows."""
        plan, writer = self.plan, self.owner.writer
        rows = min(TILE_ROWS, plan.rows)
        shapes = [(rows, LINE_BYTES)] * 4 + [(rows, plan.chunk * ELEMENT_BYTES)] * 2
        shapes += [(plan.chunk, LINE_BYTES)] * 2
        words = bytearray(LINE_BYTES)
        words[0] = 1
        for number, (count, size) in enumerate(shapes):
            words[16 + 2 * number : 18 + 2 * number] = size.to_bytes(2, "little")
            words[48 + number] = count
        config = writer.value(f"alloca {LINE}, align {LINE_BYTES}")
        self._store(f"<{', '.join(f'i8 {word}' for word in words)}>", config)
        self._does("ldtilecfg", ("ptr", config))

    def _does(self, name: str, *arguments: tuple[str, object]) -> None:
        """Call an intrinsic without a result."""
        writer, full = self.owner.writer, name if "." in name else f"llvm.x86.{name}"
        kinds = ", ".join(f"{kind} immarg" if kind == "i8" else kind for kind, _ in arguments)
        writer.declare(f"void @{full}({kinds})")
        given = ", ".join(f"{kind} {value}" for kind, value in arguments)
        writer.line(f"call void @{full}({given})")


def _parts(rows: int, size: int) -> list[tuple[int, int, int]]:
    """Rows in parts of a size, and what is left: rows before them, their number, rows of each."""
    whole, rest = divmod(rows, size)
    parts = [(0, whole, size), (whole * size, 1, rest)]
    return [part for part in parts if part[1] and part[2]]
