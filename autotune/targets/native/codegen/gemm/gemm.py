"""Generator of fp32 MATMUL kernels: GemmShape → MicroKernel. It walks panels and tiles of rows;
register_tile.py writes a tile's sums and epilogue.py what becomes of them.

Register tiles of outer products hold a panel of one factor near while rows of the other pass (Goto and
van de Geijn, "Anatomy of High-Performance Matrix Multiplication", ACM TOMS 34(3), 2008).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial

from autotune.errors import ProgramError
from autotune.isa.formats import Format
from autotune.targets.native.codegen.gemm.blocking import Blocking, Panels, RowTiles, best_blocking
from autotune.targets.native.codegen.gemm.blocks import BlockWriter
from autotune.targets.native.codegen.gemm.epilogue import (
    Conditions,
    EndRows,
    Ends,
    TileEnd,
    conditions,
)
from autotune.targets.native.codegen.gemm.loops import Axis, Loops, loops_of, packed
from autotune.targets.native.codegen.gemm.packing import PanelPack, packed_width
from autotune.targets.native.codegen.gemm.panels import goes_in_blocks
from autotune.targets.native.codegen.gemm.register_tile import Columns, Rows, TileSums
from autotune.targets.native.codegen.gemm.row_sums import RowSums, sums_lie_along
from autotune.targets.native.codegen.gemm.shape import GemmShape, VectorAxis
from autotune.targets.native.codegen.writing.ir import FunctionWriter
from autotune.targets.native.codegen.writing.micro_kernel import MicroKernel
from autotune.targets.native.codegen.writing.narrow_strips import ELEMENTS
from autotune.targets.native.cpu.vector_isa import VectorIsa

SHORT_STEPS = 256
"""Up to so many a tile is over before its lines of c come from memory. Where all panels pass by a
tile of rows, those of the next one are asked for: 79 % of the peak for 63 on 56x56x64 to 256 with a
residual (Zen 3)."""


def gemm(shape: GemmShape, isa: VectorIsa) -> MicroKernel:
    """The kernel of a MATMUL; operands are ``shape.operands``, numbers ``shape.numbers``. c may be
    r (with the same strides), and overlaps no other operand. Raises ProgramError for panels that do
    not fit the instruction set."""
    most = isa.lanes * (isa.registers - 2)
    if shape.c_format is not Format.FP32:
        raise ProgramError(f"matmul: c of {shape.c_format.name}; narrow products alone round it")
    if shape.panel_format is not Format.FP32 and shape.panel is None:
        raise ProgramError(
            f"matmul: {shape.panel_format.name} is widened in panels only; give a width of panels"
        )
    if shape.panel is not None and (shape.panel % isa.lanes or shape.panel > most):
        raise ProgramError(
            f"matmul: panels of {shape.panel} on {isa.name}; "
            f"give a multiple of {isa.lanes} up to {most}"
        )
    source = loops_of(shape)
    width = shape.panel if shape.panel is not None else packed_width(source, isa)
    loops = source if width is None else packed(source, width)
    local = source if shape.panel is None and width is not None else None
    outside = None if local is None else False
    if local is None and sums_lie_along(loops, isa):
        width, outside = isa.lanes, False
    blocking = best_blocking(loops, isa, width, outside=outside)
    writer = FunctionWriter(len(shape.operands), shape.numbers)
    GemmWriter(writer, isa, shape, loops, blocking, conditions(writer, shape), local).write()
    return writer.finish()


@dataclass(frozen=True, slots=True)
class Place:
    """Pointers to where something begins: in the factor in lanes, the broadcast one, c, r and bias.

    ``bias`` is empty without one. ``coming`` is the next panel, empty unless it is to be prefetched. ``ends`` are what
    else is read and written at the end of a tile.
    """

    lanes: str
    scalars: str
    c: str
    r: str
    bias: str
    coming: str = ""
    ends: tuple[str, ...] = ()


Index = str | int
"""Of a trip: a constant where there is only one."""


@dataclass(slots=True)
class GemmWriter:
    """Walks a product's panels and tiles. ``local`` are the loops of an unpacked factor that is packed here, panel by panel."""

    writer: FunctionWriter
    isa: VectorIsa
    shape: GemmShape
    loops: Loops
    blocking: Blocking
    conditions: Conditions
    local: Loops | None

    def write(self) -> None:
        """The whole body."""
        place = self._place()
        if self._goes_in_blocks():
            self._in_blocks(place)
            return
        words = self._buffer_words()
        buffer = self.writer.value(f"alloca [{words} x float], align 64") if words else ""
        outer = self.loops.outer
        self._repeat(outer.size, lambda i: self._blocks(self._moved(place, i, outer), buffer))

    def _buffer_words(self) -> int:
        """Words of a panel that is copied to the stack; 0 where none is."""
        return 0 if self.local is None else self.loops.depth * self.blocking.width

    def _place(self) -> Place:
        """Where all begins."""
        return self._placed(dict(zip(self.shape.operands, self.writer.pointers, strict=True)))

    def _placed(self, pointer: Mapping[str, str]) -> Place:
        a, b = pointer["a"], pointer["b"]
        lanes, scalars = (a, b) if self.loops.axis is VectorAxis.M else (b, a)
        return Place(lanes, scalars, pointer["c"], pointer.get("r", ""), pointer.get("bias", ""))

    @property
    def _lane_kind(self) -> str:
        """The type of the packed factor's elements."""
        return ELEMENTS[self.shape.panel_format]

    @property
    def _scalar_kind(self) -> str:
        """The type of the broadcast factor's elements."""
        return "float"

    def _goes_in_blocks(self) -> bool:
        return goes_in_blocks(self.shape, self.loops, self.blocking.width)

    def _panel_elements(self) -> int:
        """Elements of a panel of a constant factor."""
        return self.blocking.width * self.loops.depth

    def _in_blocks(self, place: Place) -> None:
        ends = Ends(place.c, place.bias, place.r)
        BlockWriter(
            self.writer,
            self.isa,
            self.shape,
            self.loops,
            self.blocking,
            self.conditions,
            place.lanes,
            place.scalars,
            ends,
        ).write()

    def _blocks(self, place: Place, buffer: str) -> None:
        if self.blocking.rows_outside:
            self._rows_outside(place)
            return
        for panels in self.blocking.panels:
            self._repeat(panels.count, partial(self._panel, place, panels, buffer))

    def _panel(self, place: Place, panels: Panels, buffer: str, p: Index) -> None:
        place = self._at_panel(place, panels, p)
        if self.blocking.coming and self.shape.panel is not None:
            following = self.blocking.ahead * self._panel_elements()
            coming = self.writer.offset(place.lanes, following, self._lane_kind)
            place = replace(place, coming=coming)
        if buffer:
            self._copy(place.lanes, panels, buffer)
            place = replace(place, lanes=buffer)
        before = 0
        for tiles in panels.tiles:
            self._rows(place, tiles, partial(self._tile, panels, tiles.rows), before)
            before += tiles.count

    def _copy(self, source: str, panels: Panels, buffer: str) -> None:
        """Fill the buffer with the panel that begins at ``source``."""
        assert self.local is not None, "panels of fp32 are copied by their loops"
        columns = columns_of(panels, self.local.vector.lanes)
        width, reductions = self.blocking.width, self.local.reductions
        PanelPack(self.writer, self.isa, columns, width, reductions).write(source, buffer)

    def _rows_outside(self, place: Place) -> None:
        for tiles in self.blocking.panels[0].tiles:
            self._rows(place, tiles, partial(self._across, tiles.rows))

    def _across(self, rows: int, place: Place, first: Index) -> None:
        """All panels by the tile of rows at ``place``."""

        def tile(panels: Panels, p: Index) -> None:
            self._tile(panels, rows, self._at_panel(place, panels, p), first)

        for panels in self.blocking.panels:
            self._repeat(panels.count, partial(tile, panels))

    def _rows(
        self,
        place: Place,
        tiles: RowTiles,
        body: Callable[[Place, Index], None],
        before: int = 0,
    ) -> None:
        """``body`` at each tile of rows, behind ``before`` others of a line. Scattered tiles are
        given the number of their first row, others a place at it."""
        lines = 1 if self.blocking.scattered else self.loops.row1.size
        share = self.loops.depth * self.blocking.coming

        def tile(at: Place, i: Index) -> None:
            at = replace(at, coming=self._offset(at.coming, i, share, self._lane_kind))
            first = self._times(i, tiles.rows, tiles.first)
            if self.blocking.scattered:
                body(at, first)
            else:
                body(self._moved(at, first, self.loops.row0, self.loops.bias_row), 0)

        def line(j: Index) -> None:
            number = self._times(j, tiles.count, before * lines)
            at = replace(place, coming=self._offset(place.coming, number, share, self._lane_kind))
            at = at if self.blocking.scattered else self._moved(at, j, self.loops.row1)
            self._repeat(tiles.count, lambda i: tile(at, i))

        self._repeat(lines, line)

    def _tile(self, panels: Panels, count: int, place: Place, first: Index) -> None:
        row1, row0, stride = self.loops.row1, self.loops.row0, self.loops.vector.lanes
        columns = columns_of(panels, stride)
        padded = self.local is not None or (self.shape.panel is not None and not self.loops.group)
        read = replace(columns, last_lanes=self.isa.lanes) if padded else columns
        rows = self._offsets(first, count, row1.broadcast, row0.broadcast)
        ends = EndRows(
            self._offsets(first, count, row1.c, row0.c),
            self._offsets(first, count, row1.r, row0.r) if place.r else (),
            self._offsets(first, count, 0, self.loops.bias_row) if place.bias else (),
        )
        end = self._end(columns, place, ends, first)
        short = self.blocking.rows_outside and self.loops.depth <= SHORT_STEPS
        end.prefetch(count if short else 0)
        end.write(self._sums(read, rows, place))

    def _end(self, columns: Columns, place: Place, rows: EndRows, first: Index) -> TileEnd:
        """What becomes of the sums of a tile, whose rows begin with ``first``."""
        ends = Ends(place.c, place.bias, place.r)
        return TileEnd(
            self.writer, self.isa, self.shape, self.loops, self.conditions, columns, ends, rows
        )

    def _sums(self, columns: Columns, rows: Rows, place: Place) -> list[str]:
        """The sums of a tile, as vectors of floats."""
        if self.local is None and sums_lie_along(self.loops, self.isa):
            along = RowSums(self.writer, self.isa, columns, rows, self.loops.reductions)
            return along.write(place.lanes, place.scalars)
        coming = self.blocking.coming if place.coming and not self.loops.group else 0
        reductions, format = self.loops.reductions, self.shape.panel_format
        sums = TileSums(
            self.writer,
            self.isa,
            columns,
            rows,
            reductions,
            coming,
            locality=2,
            format=format,
            group=self.loops.group,
        )
        return sums.write(place.lanes, place.scalars, place.coming)

    def _offsets(self, first: Index, count: int, stride1: int, stride0: int) -> Rows:
        """Return the offsets of a tile's rows, by the strides of row1 and row0."""
        if not self.blocking.scattered:
            return [row * stride0 for row in range(count)]
        return [
            self._scattered(self._times(first, 1, row), stride1, stride0) for row in range(count)
        ]

    def _scattered(self, row: Index, stride1: int, stride0: int) -> Index:
        size = self.loops.row0.size
        if isinstance(row, int):
            return row // size * stride1 + row % size * stride0
        quotient = self.writer.value(f"udiv i64 {row}, {size}")
        whole = self.writer.value(f"mul i64 {row}, {stride0}")
        jump = self.writer.value(f"mul i64 {quotient}, {stride1 - size * stride0}")
        return self.writer.value(f"add i64 {whole}, {jump}")

    def _at_panel(self, place: Place, panels: Panels, p: Index) -> Place:
        width, vector = self.blocking.width, self.loops.vector
        lanes = width * (self.local or self.loops).vector.lanes
        if self.shape.panel is not None:
            lanes = self._panel_elements()
        ends = tuple(width * step for step in vector.ends)
        step = Axis(
            c=width * vector.c,
            r=width * vector.r,
            lanes=lanes,
            broadcast=width * vector.broadcast,
            ends=ends,
        )
        index = self._times(p, 1, panels.first)
        return self._moved(place, index, step, width * self.loops.bias_vector)

    def _moved(self, place: Place, index: Index, axis: Axis, bias: int = 0) -> Place:
        return Place(
            self._offset(place.lanes, index, axis.lanes, self._lane_kind),
            self._offset(place.scalars, index, axis.broadcast, self._scalar_kind),
            self._offset(place.c, index, axis.c, ELEMENTS[self.shape.c_format]),
            self._offset(place.r, index, axis.r),
            self._offset(place.bias, index, bias),
            place.coming,
            self._moved_ends(place.ends, index, axis),
        )

    def _moved_ends(self, ends: tuple[str, ...], index: Index, axis: Axis) -> tuple[str, ...]:
        return ends

    def _offset(self, pointer: str, index: Index, stride: int, kind: str = "float") -> str:
        return self.writer.offset(pointer, self._times(index, stride), kind) if pointer else ""

    def _times(self, index: Index, factor: int, term: int = 0) -> Index:
        """index · factor + term."""
        if isinstance(index, int) or factor == 0:
            return (index * factor if isinstance(index, int) else 0) + term
        if factor != 1:
            index = self.writer.value(f"mul i64 {index}, {factor}")
        return self.writer.value(f"add i64 {index}, {term}") if term else index

    def _repeat(self, trips: int, body: Callable[[Index], None]) -> None:
        if trips == 1:
            body(0)
            return
        loop = self.writer.begin(trips)
        body(loop.index)
        self.writer.end(loop)


def columns_of(panels: Panels, stride: int) -> Columns:
    """The lanes of a panel whose neighbours lie ``stride`` elements apart."""
    return Columns(panels.vectors, panels.last_lanes, stride)
