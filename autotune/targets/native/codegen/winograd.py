"""Generates TRANSFORM: tiles of Winograd's convolution there and back, lanes of channels at a time.

Straight-line code: a tile's columns, then its rows, each transformed by factored additions (Lavin and
Gray, arXiv:1509.09308, sections 4.1 and 4.3; of F(4×4) 12 a line of the input and 10 of the output, of
F(2×2) 4).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from autotune.isa.access import TILE_ROWS
from autotune.isa.functions import FAR, NEAR, Transform, UnaryFn
from autotune.targets.native.codegen.maths.maths import unary
from autotune.targets.native.codegen.writing.ir import FunctionWriter
from autotune.targets.native.codegen.writing.lane_access import load_lanes, store_lanes
from autotune.targets.native.codegen.writing.micro_kernel import MicroKernel
from autotune.targets.native.codegen.writing.vector_builder import VectorBuilder
from autotune.targets.native.cpu.vector_isa import VectorIsa

Line = tuple[str, ...]
Strides = tuple[int, ...]
"""Of rows and columns inside of a tile, tiles down, tiles across, channels."""


@dataclass(frozen=True, slots=True)
class TileTransform:
    """The constants of a TRANSFORM. ``tiles`` are those down and those across; strides count
    elements. Operands: src, dst, then bias and r where there are any; dst may be r."""

    transform: Transform
    tiles: tuple[int, int]
    channels: int
    src: Strides
    dst: Strides
    r: Strides = (0, 0, 0, 0, 0)
    biased: bool = False
    adds: bool = False
    fn: UnaryFn = UnaryFn.COPY
    p0: float = 0.0
    p1: float = 0.0

    def __post_init__(self) -> None:
        assert min(*self.tiles, self.channels) >= 1, "an empty transform"

    @property
    def operands(self) -> tuple[str, ...]:
        """Names of the kernel's operands, in their order."""
        return ("src", "dst", *("bias",) * self.biased, *("r",) * self.adds)

    def strides(self, operand: str) -> Strides:
        """Strides of one operand."""
        return (0, 0, 0, 0, 1) if operand == "bias" else getattr(self, operand)


def tile_transform(spec: TileTransform, isa: VectorIsa) -> MicroKernel:
    """The kernel of a transform."""
    writer = FunctionWriter(len(spec.operands))
    pointers = dict(zip(spec.operands, writer.pointers, strict=True))
    code = _TileCode(spec, writer, isa, VectorBuilder(writer, isa))
    code.loop(
        spec.tiles[0],
        2,
        1,
        pointers,
        lambda row: code.loop(spec.tiles[1], 3, 1, row, code.channels),
    )
    return writer.finish()


Places = dict[str, str]
"""Where each operand's current tile begins."""


@dataclass(frozen=True, slots=True)
class _TileCode:
    spec: TileTransform
    writer: FunctionWriter
    isa: VectorIsa
    lanes: VectorBuilder

    def loop(
        self, trips: int, dim: int, step: int, places: Places, body: Callable[[Places], None]
    ) -> None:
        """``body`` for every ``step``-th index of a dimension."""
        if trips == 1:
            body(places)
            return
        loop = self.writer.begin(trips)
        moved = {}
        for name, place in places.items():
            stride = self.spec.strides(name)[dim] * step
            moved[name] = self.writer.offset(
                place, self.writer.value(f"mul nsw i64 {loop.index}, {stride}")
            )
        body(moved)
        self.writer.end(loop)

    def channels(self, places: Places) -> None:
        """All channels of a tile: whole registers, then the lanes that are left."""
        whole, left = divmod(self.spec.channels, self.isa.lanes)
        if whole:
            self.loop(whole, 4, self.isa.lanes, places, lambda at: self._tile(at, self.isa.lanes))
        if left:
            first = whole * self.isa.lanes
            behind = {
                name: self.writer.offset(place, first * self.spec.strides(name)[4])
                for name, place in places.items()
            }
            self._tile(behind, left)

    def _tile(self, at: Places, count: int) -> None:
        rows, taken = TILE_ROWS[self.spec.transform]
        line = _LINES[self.spec.transform]
        columns = [
            line(self.lanes, tuple(self._load("src", at, count, p, q) for p in range(taken)))
            for q in range(taken)
        ]
        bias = self._load("bias", at, count, 0, 0) if self.spec.biased else ""
        for i in range(rows):
            results = line(self.lanes, tuple(column[i] for column in columns))
            for j, value in enumerate(results):
                self._store(at, count, i, j, self._ended(value, bias, at, count, i, j))

    def _ended(self, x: str, bias: str, at: Places, count: int, i: int, j: int) -> str:
        if bias:
            x = self.lanes.add(x, bias)
        if self.spec.adds:
            x = self.lanes.add(x, self._load("r", at, count, i, j))
        return unary(self.lanes, self.spec.fn, x, self.spec.p0, self.spec.p1)

    def _load(self, name: str, at: Places, count: int, i: int, j: int) -> str:
        row, column, *_, channel = self.spec.strides(name)
        place = self.writer.offset(at[name], i * row + j * column)
        return load_lanes(self.writer, self.isa, place, count, channel)

    def _store(self, at: Places, count: int, i: int, j: int, value: str) -> None:
        row, column, *_, channel = self.spec.dst
        place = self.writer.offset(at["dst"], i * row + j * column)
        store_lanes(self.writer, self.isa, value, place, count, channel)


def _f4_input_line(v: VectorBuilder, x: Line) -> Line:
    """Bᵀ x."""
    x0, x1, x2, x3, x4, x5 = x
    near2, far2 = v.constant(-(NEAR**2)), v.constant(-(FAR**2))
    product, total = v.constant(NEAR**2 * FAR**2), v.constant(-(NEAR**2) - FAR**2)
    even, odd = v.fma(far2, x2, x4), v.fma(far2, x1, x3)
    wide, steep = v.fma(near2, x2, x4), v.fma(near2, x1, x3)
    return (
        v.fma(product, x0, v.fma(total, x2, x4)),
        v.fma(v.constant(NEAR), odd, even),
        v.fma(v.constant(-NEAR), odd, even),
        v.fma(v.constant(FAR), steep, wide),
        v.fma(v.constant(-FAR), steep, wide),
        v.fma(product, x1, v.fma(total, x3, x5)),
    )


def _f4_output_line(v: VectorBuilder, x: Line) -> Line:
    """Aᵀ x."""
    x0, x1, x2, x3, x4, x5 = x
    near, tilt, far, steep = v.add(x1, x2), v.sub(x1, x2), v.add(x3, x4), v.sub(x3, x4)
    return (
        v.add(x0, v.add(near, far)),
        v.fma(v.constant(FAR), steep, v.mul(v.constant(NEAR), tilt)),
        v.fma(v.constant(FAR**2), far, v.mul(v.constant(NEAR**2), near)),
        v.fma(v.constant(FAR**3), steep, v.fma(v.constant(NEAR**3), tilt, x5)),
    )


def _f2_input_line(v: VectorBuilder, x: Line) -> Line:
    """Bᵀ x."""
    x0, x1, x2, x3 = x
    return v.sub(x0, x2), v.add(x1, x2), v.sub(x2, x1), v.sub(x1, x3)


def _f2_output_line(v: VectorBuilder, x: Line) -> Line:
    """Aᵀ x."""
    x0, x1, x2, x3 = x
    return v.add(x0, v.add(x1, x2)), v.sub(v.sub(x1, x2), x3)


_LINES: dict[Transform, Callable[[VectorBuilder, Line], Line]] = {
    Transform.F4_INPUT: _f4_input_line,
    Transform.F4_OUTPUT: _f4_output_line,
    Transform.F2_INPUT: _f2_input_line,
    Transform.F2_OUTPUT: _f2_output_line,
}
