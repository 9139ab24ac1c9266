"""Writes the sums of one register tile of a product of bytes: rows × vectors accumulators of INT32 over
all groups of the reduction; narrow_gemm.py calls it per tile."""

from __future__ import annotations

from dataclasses import dataclass

from autotune.isa.formats import ELEMENT_BYTES
from autotune.targets.native.codegen.gemm.narrow_shape import SIGN, Groups, NarrowShape
from autotune.targets.native.codegen.gemm.register_tile import (
    LINE_BYTES,
    Rows,
    prefetch,
    unrolled,
)
from autotune.targets.native.codegen.writing.ir import FunctionWriter, Loop, vector
from autotune.targets.native.codegen.writing.narrow_strips import ELEMENTS
from autotune.targets.native.cpu.vector_isa import VectorIsa

PAIR_BITS = 16


Places = tuple[str, str, str]
"""Pointers into a panel, the broadcast factor and what is coming (empty without)."""


@dataclass(slots=True)
class NarrowSums:
    """Writes the reduction of a tile of ``vectors`` registers; ``rows`` are offsets in elements of the
    broadcast factor, ``width`` the lanes of a panel. Of what is ``coming`` so many words are asked for a group.
    Sums of other numbers than bytes replace ``write`` and what a group of elements is loaded and multiplied by."""

    writer: FunctionWriter
    isa: VectorIsa
    shape: NarrowShape
    groups: Groups
    width: int
    vectors: int
    rows: Rows
    coming: int = 0

    def write(self, panel: str, scalars: str, coming: str = "") -> list[str]:
        """Accumulators row by row, as vectors of floats of the same bits, given a panel, the tile's
        first element of the broadcast factor and of what is coming."""
        begin = [self._word(panel, j * self.isa.lanes) for j in range(self.vectors)]
        sums = begin * len(self.rows) + ["zeroinitializer"] * (len(self.rows) * self._sums_rows)
        sums = self._level(0, (self.writer.offset(panel, self.width), scalars, coming), sums)
        floats = vector(self.isa.lanes)
        return [
            self.writer.value(f"bitcast {self._kind} {self._less_row(sums, at)} to {floats}")
            for at in range(len(self.rows) * self.vectors)
        ]

    @property
    def _kind(self) -> str:
        return f"<{self.isa.lanes} x i32>"

    @property
    def _zero(self) -> int:
        """The zero point of the factor in lanes, as it is packed."""
        return self.shape.lanes.as_read(False)[1]

    @property
    def _sums_rows(self) -> bool:
        """Whether the broadcast factor's own sums count."""
        return self._zero != 0

    @property
    def _unsigned(self) -> bool | None:
        """How the instruction takes the broadcast factor; None as it is, in 16 bits."""
        return self.isa.dot.unsigned if self.isa.dot.group == 4 else None

    def _less_row(self, sums: list[str], at: int) -> str:
        """A sum less the zero point times its row's own."""
        if not self._sums_rows:
            return sums[at]
        row = sums[len(self.rows) * self.vectors + at // self.vectors]
        taken = self.writer.value(f"mul {self._kind} {row}, splat (i32 {self._zero})")
        return self.writer.value(f"sub {self._kind} {sums[at]}, {taken}")

    def _word(self, pointer: str, words: int) -> str:
        return self.writer.load(self._kind, self.writer.offset(pointer, words))

    @property
    def _step_words(self) -> int:
        """Words of a panel that a group takes."""
        return self.groups.step_words(self.width)

    @property
    def _element(self) -> str:
        """Type of an element of the broadcast factor."""
        return ELEMENTS[self.shape.broadcast.format]

    def _level(self, depth: int, places: Places, sums: list[str]) -> list[str]:
        if depth == len(self.groups.outer):
            return self._run(places, sums)
        loop = self.groups.outer[depth]
        groups = self.groups.run_groups
        for inner in self.groups.outer[depth + 1 :]:
            groups *= inner.size
        trip = self.writer.begin(loop.size, *self._carried(places, sums))
        here, old = self._values(trip)
        sums = self._level(depth + 1, here, old)
        self.writer.end(trip, *self._moved(here, groups, loop.broadcast), *sums)
        return sums

    def _carried(self, places: Places, sums: list[str]) -> list[tuple[str, str]]:
        pointers = [("ptr", place) for place in places if place]
        return [*pointers, *((self._kind, value) for value in sums)]

    def _values(self, loop: Loop) -> tuple[Places, list[str]]:
        """Where a trip reads, and the sums before it."""
        panel, scalars, *others = loop.values
        if not self.coming:
            return (panel, scalars, ""), others
        return (panel, scalars, others[0]), others[1:]

    def _moved(self, places: Places, groups: int, scalars: int) -> list[str]:
        """Pointers so many groups further, and ``scalars`` elements of the broadcast factor."""
        panel, scalar, coming = places
        moved = [
            self.writer.offset(panel, groups * self._step_words),
            self.writer.offset(scalar, scalars, self._element),
        ]
        return [*moved, self.writer.offset(coming, groups * self.coming)] if coming else moved

    def _run(self, places: Places, sums: list[str]) -> list[str]:
        """The groups that lie at one distance in the broadcast factor, then what is left."""
        groups = self.groups
        full, rest = divmod(groups.run, groups.group)
        if full:
            panel, scalars, sums = self._full(full, places, sums)
            return self._group(panel, scalars, rest, sums) if rest else sums
        return self._group(places[0], places[1], rest, sums)

    def _full(self, count: int, places: Places, sums: list[str]) -> tuple[str, str, list[str]]:
        """So many whole groups; where to go on."""
        group, step = self.groups.group, self.groups.step
        unroll = unrolled(count, len(sums))
        loop = None
        if count > unroll:
            loop = self.writer.begin(count // unroll, *self._carried(places, sums))
            places, sums = self._values(loop)
        panel, scalars, coming = places
        for near in range(0, unroll * self.coming if coming else 0, LINE_BYTES // ELEMENT_BYTES):
            prefetch(self.writer, coming, near, locality=2)
        for _ in range(unroll):
            sums = self._group(panel, scalars, group, sums)
            panel = self.writer.offset(panel, self._step_words)
            scalars = self.writer.offset(scalars, group * step, self._element)
        if loop is not None:
            ahead = [self.writer.offset(coming, unroll * self.coming)] if coming else []
            self.writer.end(loop, panel, scalars, *ahead, *sums)
        return panel, scalars, sums

    def _group(self, panel: str, scalars: str, count: int, sums: list[str]) -> list[str]:
        """The products of one group of ``count`` elements. The smaller side is loaded first and stays
        in registers."""
        sums, vectors = list(sums), self.vectors
        held: dict[int, str] = {}
        spread: dict[int, str] = {}
        pairs = [(i, j) for i in range(len(self.rows)) for j in range(vectors)]
        if vectors > len(self.rows):
            pairs.sort(key=lambda pair: pair[1])
        for i, j in pairs:
            if i not in spread:
                spread[i] = self._broadcast(scalars, self.rows[i], count)
                if self._sums_rows:
                    at = len(self.rows) * vectors + i
                    sums[at] = self.multiplied(spread[i], self.ones(count), sums[at])
            if j not in held:
                held[j] = self._column(panel, j)
            at = i * vectors + j
            sums[at] = self.multiplied(spread[i], held[j], sums[at])
        return sums

    def ones(self, count: int) -> str:
        """A one for every element of a group, as the factor in lanes."""
        bits = 8 if self.isa.dot.group == 4 else PAIR_BITS
        return f"splat (i32 {sum(1 << (bits * i) for i in range(count))})"

    def _column(self, panel: str, j: int) -> str:
        """A register of the factor in lanes."""
        lanes, group = self.isa.lanes, self.isa.dot.group
        place = self.writer.offset(panel, j * lanes * group // 4)
        if group == 4:
            return self._word(place, 0)
        halves = self.writer.value(f"load <{2 * lanes} x i8>, ptr {place}, align 4")
        wide = self.writer.value(f"sext <{2 * lanes} x i8> {halves} to <{2 * lanes} x i16>")
        return self.writer.value(f"bitcast <{2 * lanes} x i16> {wide} to {self._kind}")

    def _broadcast(self, scalars: str, row: str | int, count: int) -> str:
        """A group of the broadcast factor in all lanes, as the instruction takes it."""
        writer, lanes = self.writer, self.isa.lanes
        place = writer.offset(scalars, row, "i8")
        word = self._four(place, count) if self.isa.dot.group == 4 else self._pair(place, count)
        single = writer.value(f"insertelement {self._kind} poison, i32 {word}, i64 0")
        zeros = f"<{lanes} x i32> zeroinitializer"
        spread = writer.value(f"shufflevector {self._kind} {single}, {self._kind} poison, {zeros}")
        shift, _ = self.shape.broadcast.as_read(self._unsigned)
        if not shift:
            return spread
        signs = int.from_bytes(bytes([SIGN] * 4), "little") - (1 << 32)
        return writer.value(f"xor {self._kind} {spread}, splat (i32 {signs})")

    def _four(self, place: str, count: int) -> str:
        if count == 4 and self.groups.step == 1:
            return self.writer.value(f"load i32, ptr {place}, align 1")
        return self._composed(place, count, 8, "zext")

    def _pair(self, place: str, count: int) -> str:
        extend = "sext" if self.shape.broadcast.format.name == "INT8" else "zext"
        if count == 2 and self.groups.step == 1:
            both = self.writer.value(f"load <2 x i8>, ptr {place}, align 1")
            wide = self.writer.value(f"{extend} <2 x i8> {both} to <2 x i16>")
            return self.writer.value(f"bitcast <2 x i16> {wide} to i32")
        return self._composed(place, count, PAIR_BITS, extend)

    def _composed(self, place: str, count: int, bits: int, extend: str) -> str:
        """Elements that are not neighbours, or no whole group, side by side in a word."""
        writer, word, element = self.writer, "0", self._element
        for i in range(count):
            at = writer.offset(place, i * self.groups.step, element)
            part = writer.value(f"load {element}, ptr {at}, align 1")
            if element != f"i{bits}":
                part = writer.value(f"{extend} {element} {part} to i{bits}")
            wide = writer.value(f"zext i{bits} {part} to i32")
            moved = writer.value(f"shl i32 {wide}, {bits * i}") if i else wide
            word = writer.value(f"or i32 {word}, {moved}") if i else moved
        return word

    def multiplied(self, scalar: str, column: str, total: str) -> str:
        """``total`` plus the products of a group, lane by lane."""
        dot, kind, lanes = self.isa.dot, self._kind, self.isa.lanes
        if dot.group == 4 and dot.unsigned:
            return self.writer.call(
                kind, dot.intrinsic, (kind, total), (kind, scalar), (kind, column)
            )
        if dot.group == 4:
            kinds = f"<{4 * lanes} x i8>"
            x, y = (self.writer.value(f"bitcast {kind} {v} to {kinds}") for v in (scalar, column))
            return self.writer.call(kind, dot.intrinsic, (kind, total), (kinds, x), (kinds, y))
        return self.writer.value(f"add {kind} {total}, {self._pairs(scalar, column)}")

    def _pairs(self, x: str, y: str) -> str:
        """Sums of the two products of each lane."""
        kind, halves = self._kind, f"<{2 * self.isa.lanes} x i16>"
        if self.isa.dot.intrinsic:
            x, y = (self.writer.value(f"bitcast {kind} {v} to {halves}") for v in (x, y))
            return self.writer.call(kind, self.isa.dot.intrinsic, (halves, x), (halves, y))
        high = [self.writer.value(f"ashr {kind} {v}, splat (i32 16)") for v in (x, y)]
        low = [
            self.writer.value(
                f"ashr {kind} {self.writer.value(f'shl {kind} {v}, splat (i32 16)')}, splat (i32 16)"
            )
            for v in (x, y)
        ]
        parts = [self.writer.value(f"mul {kind} {p}, {q}") for p, q in (high, low)]
        return self.writer.value(f"add {kind} {parts[0]}, {parts[1]}")
