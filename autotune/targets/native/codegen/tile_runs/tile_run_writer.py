"""Generator of products of bytes with a run behind them: TileRun → MicroKernel. Sums become fp32 in registers,
pass the run's nodes and are stored in the format of its results; INT32 never reaches memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from autotune.isa.formats import Format
from autotune.isa.functions import When
from autotune.targets.native.codegen.gemm.epilogue import Conditions, EndRows, Ends, TileEnd
from autotune.targets.native.codegen.gemm.gemm import Index, Place
from autotune.targets.native.codegen.gemm.loops import Axis
from autotune.targets.native.codegen.gemm.narrow_blocking import narrow_blocking
from autotune.targets.native.codegen.gemm.narrow_gemm import IntegerEnd, NarrowWriter
from autotune.targets.native.codegen.gemm.register_tile import Columns, Rows
from autotune.targets.native.codegen.tile_runs.tile_run import TileRun, tile_run_loops
from autotune.targets.native.codegen.vector.elementwise import stored_node
from autotune.targets.native.codegen.vector.node_code import code_of
from autotune.targets.native.codegen.vector.vector_run import Load, Node, arguments
from autotune.targets.native.codegen.writing.ir import FunctionWriter
from autotune.targets.native.codegen.writing.micro_kernel import MicroKernel
from autotune.targets.native.codegen.writing.narrow_strips import (
    ELEMENTS,
    load_narrow,
    store_narrow,
)
from autotune.targets.native.codegen.writing.strips import load_strip, store_strip
from autotune.targets.native.codegen.writing.vector_builder import VectorBuilder
from autotune.targets.native.cpu.vector_isa import VectorIsa


def tile_run(tile: TileRun, isa: VectorIsa) -> MicroKernel:
    """The kernel; its operands are ``tile.operands``, then ``tile.others``."""
    loops, groups = tile_run_loops(tile, isa)
    product = tile.product.product
    assert product.panel is not None, "the factor in lanes is in panels"
    blocking = narrow_blocking(tile.product, loops, isa, product.panel)
    writer = FunctionWriter(len(tile.operands) + len(tile.others))
    given = (writer, isa, product, loops, blocking, Conditions(), None, tile.product, groups)
    _TileRunWriter(*given, tile).write()
    return writer.finish()


@dataclass(slots=True)
class _TileRunWriter(NarrowWriter):
    """Walks panels and tiles as the product alone does, with a place in every operand of the run."""

    tile: TileRun

    def _place(self) -> Place:
        names, pointers = self.tile.operands, self.writer.pointers
        place = self._placed({**dict(zip(names, pointers, strict=False)), "c": ""})
        return replace(place, ends=pointers[len(names) :])

    def _moved_ends(self, ends: tuple[str, ...], index: Index, axis: Axis) -> tuple[str, ...]:
        steps = axis.ends or (0,) * len(ends)
        moves = zip(ends, steps, self.tile.others, strict=True)
        return tuple(self._offset(at, index, step, self._kind(i)) for at, step, i in moves)

    def _kind(self, operand: int) -> str:
        return ELEMENTS[self.tile.run.format(operand)]

    def _end(self, columns: Columns, place: Place, rows: EndRows, first: Index) -> TileEnd:
        count, none = len(rows.c), (0,) * len(place.ends)
        outer, inner = self.loops.row1.ends or none, self.loops.row0.ends or none
        offsets = [self._offsets(first, count, *each) for each in zip(outer, inner, strict=True)]
        return _RunEnd(
            self.writer,
            self.isa,
            self.shape,
            self.loops,
            self.conditions,
            columns,
            Ends("", place.bias, ""),
            rows,
            self.tile,
            place.ends,
            offsets,
        )


@dataclass(slots=True)
class _RunEnd(IntegerEnd):
    """The run on one tile; ``places`` are its first elements in the run's operands, ``offsets`` those of its
    rows."""

    tile: TileRun
    places: tuple[str, ...]
    offsets: Sequence[Rows]
    _loaded: dict[tuple[object, ...], str] = field(default_factory=dict)

    def write(self, sums: list[str]) -> None:
        """From sums, row by row, to the run's results in memory."""
        if self.shape.epilogue is When.ALWAYS:
            sums = self._ended(sums)
        vectors = self.columns.vectors
        for column in range(vectors):
            for row in range(len(sums) // vectors):
                self._register(sums[row * vectors + column], row, column)

    def _register(self, total: str, row: int, column: int) -> None:
        """The run on one register of sums."""
        run, v = self.tile.run, VectorBuilder(self.writer, self.isa)
        number = self.writer.value(f"sitofp {v.integers} {v.bits(total)} to {v.floats}")
        values: list[str] = []
        for node in run.body:
            values.append(self._value(v, node, values, number, row, column))
        for position, output in enumerate(run.outputs, start=len(run.inputs)):
            format = run.format(position)
            value = values[stored_node(run.body, output.node, format)]
            at, step = self._address(position, row, column)
            if format is Format.FP32:
                store_strip(v, value, at, step, 0, self._count(column))
            else:
                store_narrow(v, value, at, step, 0, self._count(column), format)

    def _value(
        self, v: VectorBuilder, node: Node, values: list[str], number: str, row: int, column: int
    ) -> str:
        if not isinstance(node, Load):
            return code_of(v, self.tile.run.body, node, [values[x] for x in arguments(node)])
        if node.operand == self.tile.sums:
            return number
        which = self.tile.others.index(node.operand)
        moves = column if self.loops.vector.ends[which] else 0
        key = node.operand, node.offset, self.offsets[which][row], moves
        if key not in self._loaded:
            self._loaded[key] = self._load(v, node, row, column)
        return self._loaded[key]

    def _load(self, v: VectorBuilder, node: Load, row: int, column: int) -> str:
        format = self.tile.run.format(node.operand)
        at, step = self._address(node.operand, row, column)
        at = self.writer.offset(at, node.offset, ELEMENTS[format])
        given = v, at, step, 0, self._count(column)
        return load_strip(*given) if format is Format.FP32 else load_narrow(*given, format)

    def _address(self, operand: int, row: int, column: int) -> tuple[str, int]:
        """Where a register begins in an operand of the run, and the distance of its lanes."""
        which, kind = self.tile.others.index(operand), ELEMENTS[self.tile.run.format(operand)]
        step = self.loops.vector.ends[which]
        at = self.writer.offset(self.places[which], self.offsets[which][row], kind)
        return self.writer.offset(at, column * self.isa.lanes * step, kind), step
