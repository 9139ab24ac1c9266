"""Generator of MATMUL kernels of bytes and of bf16: NarrowShape → MicroKernel.

Panels and tiles of rows are walked as in gemm.py. narrow_sums.py writes a tile's sums of bytes, in INT32 and exact;
half_sums.py writes those of bf16.

Zero points are no work of the inner loop: Σ (a − za)(b − zb) = Σ ab − za Σ b − zb Σ a + k·za·zb. A panel has the second
and the last term ready. The third one is 0 where the packed factor's zero point is. (Jacob et al., "Quantization and
Training of Neural Networks", CVPR 2018, section 2.3.)
"""

from __future__ import annotations

from dataclasses import dataclass

from autotune.errors import ProgramError
from autotune.isa.formats import Format
from autotune.isa.functions import UnaryFn
from autotune.targets.native.codegen.gemm.blocking import Panels
from autotune.targets.native.codegen.gemm.epilogue import EndRows, Ends, TileEnd, conditions
from autotune.targets.native.codegen.gemm.gemm import GemmWriter, Index, Place, columns_of
from autotune.targets.native.codegen.gemm.half_sums import HalfSums
from autotune.targets.native.codegen.gemm.narrow_blocking import narrow_blocking
from autotune.targets.native.codegen.gemm.narrow_pack import NarrowPanelPack
from autotune.targets.native.codegen.gemm.narrow_shape import (
    Groups,
    MemoryLanes,
    NarrowShape,
    lanes_in_memory,
    narrow_loops,
)
from autotune.targets.native.codegen.gemm.narrow_sums import NarrowSums
from autotune.targets.native.codegen.gemm.register_tile import Columns, Rows
from autotune.targets.native.codegen.gemm.tile_plan import TilePlan, tile_plan
from autotune.targets.native.codegen.gemm.tile_products import LANES, TileProducts
from autotune.targets.native.codegen.gemm.tiles_in_place import TilesInPlace
from autotune.targets.native.codegen.writing.ir import FunctionWriter, vector
from autotune.targets.native.codegen.writing.micro_kernel import MicroKernel
from autotune.targets.native.codegen.writing.narrow_strips import ELEMENTS
from autotune.targets.native.cpu.vector_isa import VectorIsa


def narrow_gemm(shape: NarrowShape, isa: VectorIsa) -> MicroKernel:
    """The kernel of a narrow MATMUL; operands and numbers are those of ``shape.product``. c may be
    r (with the same strides), and overlaps no other operand. Raises ProgramError for a factor that is not
    in panels, and for an epilogue that INT32 has not. It raises the same for bf16 where ``isa`` does not multiply it."""
    product = shape.product
    if product.panel is None or product.panel % isa.lanes:
        raise ProgramError(
            f"narrow matmul: panels of {product.panel} on {isa.name}; give a multiple of {isa.lanes}"
        )
    if not shape.is_bf16 and (
        product.fn not in (UnaryFn.COPY, UnaryFn.RELU)
        or product.scale != 1.0
        or product.c_format is not Format.FP32
    ):
        raise ProgramError("matmul of bytes: INT32 sums take COPY or RELU, no scale and no format")
    loops, groups = narrow_loops(shape, isa)
    blocking = narrow_blocking(shape, loops, isa, product.panel)
    writer = FunctionWriter(len(product.operands), product.numbers)
    NarrowWriter(
        writer, isa, product, loops, blocking, conditions(writer, product), None, shape, groups
    ).write()
    return writer.finish()


@dataclass(slots=True)
class NarrowWriter(GemmWriter):
    """Walks a narrow product: ``narrow`` is all of it, ``groups`` its reduction."""

    narrow: NarrowShape
    groups: Groups

    @property
    def _plan(self) -> TilePlan | None:
        """How tile registers multiply it, if they do."""
        return tile_plan(self.narrow, self.isa)

    def _blocks(self, place: Place, buffer: str) -> None:
        plan, unit = self._plan, self.isa.tiles
        if plan is None or unit is None:
            GemmWriter._blocks(self, place, buffer)
        elif plan.in_place is None:
            TileProducts(self, plan, unit).write(place)
        else:
            TilesInPlace(self, plan, unit, in_place=plan.in_place).write(place)

    def _buffer_words(self) -> int:
        return self.groups.panel_words(self.blocking.width) if self.narrow.copies else 0

    def _copy(self, source: str, panels: Panels, buffer: str) -> None:
        lanes = self._memory
        columns, width = columns_of(panels, lanes.stride), self.blocking.width
        NarrowPanelPack(
            self.writer, self.isa, self.narrow, self.groups, columns, lanes.steps, width
        ).write(source, buffer)

    @property
    def _memory(self) -> MemoryLanes:
        """Where the factor in lanes lies that is copied."""
        found = lanes_in_memory(self.narrow)
        if found is None:
            raise ProgramError("narrow matmul: a factor in pieces is not copied; give its panels")
        return found

    @property
    def _lane_kind(self) -> str:
        return "i8" if self.narrow.copies else ELEMENTS[self.shape.panel_format]

    @property
    def _scalar_kind(self) -> str:
        return ELEMENTS[self.narrow.broadcast.format]

    def _goes_in_blocks(self) -> bool:
        return False

    def _panel_elements(self) -> int:
        if self.narrow.copies:
            return self.blocking.width * self._memory.stride
        return self.groups.panel_words(self.blocking.width)

    def _end(self, columns: Columns, place: Place, rows: EndRows, first: Index) -> TileEnd:
        if self.narrow.is_bf16:
            return GemmWriter._end(self, columns, place, rows, first)
        ends = Ends(place.c, place.bias, place.r)
        return IntegerEnd(
            self.writer, self.isa, self.shape, self.loops, self.conditions, columns, ends, rows
        )

    def _sums(self, columns: Columns, rows: Rows, place: Place) -> list[str]:
        width, vectors = self.blocking.width, columns.vectors
        if self._plan is not None:
            return self._loaded_sums(len(rows), vectors, place)
        kind = HalfSums if self.narrow.is_bf16 else NarrowSums
        coming = self.blocking.coming if place.coming else 0
        sums = kind(self.writer, self.isa, self.narrow, self.groups, width, vectors, rows, coming)
        return sums.write(place.lanes, place.scalars, place.coming)

    def _loaded_sums(self, rows: int, vectors: int, place: Place) -> list[str]:
        """Sums that tile registers left at ``place.scalars``, with what a panel begins with added."""
        writer, lanes = self.writer, self.isa.lanes
        kind = vector(lanes) if self.narrow.is_bf16 else f"<{lanes} x i32>"
        pitch = len(LANES) * lanes
        found = [
            writer.load(kind, writer.offset(place.scalars, row * pitch + j * lanes))
            for row in range(rows)
            for j in range(vectors)
        ]
        if self.narrow.is_bf16:
            return found
        begin = [writer.load(kind, writer.offset(place.lanes, j * lanes)) for j in range(vectors)]
        added = [
            writer.value(f"add {kind} {each}, {begin[at % vectors]}")
            for at, each in enumerate(found)
        ]
        return [writer.value(f"bitcast {kind} {each} to {vector(lanes)}") for each in added]


class IntegerEnd(TileEnd):
    """The end of a tile of INT32, which registers and memory hold as floats of the same bits."""

    def _plus(self, x: str, y: str) -> str:
        a, b = self._bits(x), self._bits(y)
        return self._floats(self.writer.value(f"add {self._kind} {a}, {b}"))

    def _scaled(self, value: str, term: str) -> str:
        return self._plus(value, term) if term else value

    def _activated(self, x: str) -> str:
        if self.shape.fn is UnaryFn.COPY:
            return x
        name, zeros = f"llvm.smax.v{self.isa.lanes}i32", (self._kind, "zeroinitializer")
        return self._floats(self.writer.call(self._kind, name, (self._kind, self._bits(x)), zeros))

    @property
    def _kind(self) -> str:
        return f"<{self.isa.lanes} x i32>"

    def _bits(self, x: str) -> str:
        return self.writer.value(f"bitcast {vector(self.isa.lanes)} {x} to {self._kind}")

    def _floats(self, x: str) -> str:
        return self.writer.value(f"bitcast {self._kind} {x} to {vector(self.isa.lanes)}")
