"""Code of REDUCE: sums, products and extremes over some dimensions of a rectangle.

Vectors lie along a kept dimension (the channels of a pooling window: sums stay in registers over
the window), or along a reduced one (rows: partial sums, added up across the register at the end).
A sum is made of short sums, so that its error grows with their length and number, not with their
product.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from types import MappingProxyType

from autotune.isa.formats import Format
from autotune.isa.functions import ReduceFn
from autotune.targets.native.codegen.maths.maths import BinaryCode, maximum, minimum
from autotune.targets.native.codegen.writing.ir import FunctionWriter
from autotune.targets.native.codegen.writing.micro_kernel import MicroKernel
from autotune.targets.native.codegen.writing.narrow_strips import (
    ELEMENTS,
    load_narrow,
    store_narrow,
)
from autotune.targets.native.codegen.writing.nest import Dim, merged
from autotune.targets.native.codegen.writing.strips import across, filled, load_strip, store_strip
from autotune.targets.native.codegen.writing.vector_builder import VectorBuilder
from autotune.targets.native.cpu.vector_isa import VectorIsa

Loaded = Callable[[str], list[str]]
"""The vectors, one a sum, of a position of the reduced dimensions, given by its address."""
MAX_RANK = 5
DST, SRC = 0, 1
REGISTERS_AT_ONCE = 4
"""Sums side by side: hide the latency of an addition. Fewer are fed by sums of pairs."""
AT_ONCE = 8
"""Vectors that a trip of the innermost loop adds."""
SHORT_SUM = 128
"""Elements that are added one after the other, in each lane."""
UNROLLED = 16
"""Elements of a window that is written out without a loop."""
GATHER_COST = 1.5


COMBINED: Mapping[ReduceFn, tuple[BinaryCode, float]] = MappingProxyType(
    {
        ReduceFn.SUM: (VectorBuilder.add, -0.0),
        ReduceFn.MAX: (maximum, float("-inf")),
        ReduceFn.MIN: (minimum, float("inf")),
        ReduceFn.PROD: (VectorBuilder.mul, 1.0),
    }
)
"""What joins two values, and what changes none; -0 for sums, since 0 would change -0."""


@dataclass(frozen=True, slots=True)
class Reduction:
    """dst = fn of src over the dimensions whose dst stride is 0 and size > 1; combined with what
    dst holds where it accumulates. Operands of the kernel are dst and src, which do not overlap,
    unless nothing is reduced: then they may be the same elements. Operands of other ``formats`` than
    fp32 become fp32 when loaded, and are rounded and saturated when stored; what accumulates is fp32."""

    fn: ReduceFn
    sizes: tuple[int, ...]
    dst_strides: tuple[int, ...]
    src_strides: tuple[int, ...]
    accumulate: bool = False
    formats: tuple[Format, Format] = (Format.FP32, Format.FP32)

    def __post_init__(self) -> None:
        assert not self.accumulate or self.formats[DST] is Format.FP32, "sums are fp32"
        rank = len(self.sizes)
        assert rank <= MAX_RANK and min(self.sizes, default=1) >= 1, "no rectangle"
        assert len(self.dst_strides) == len(self.src_strides) == rank, "strides of another rank"


def reduction(spec: Reduction, isa: VectorIsa) -> MicroKernel:
    """The kernel of a reduction; its operands are dst and src."""
    return _Code(spec, isa).kernel()


class _Code:
    """Writes one reduction: loops over the kept dimensions around loops over the reduced ones."""

    def __init__(self, spec: Reduction, isa: VectorIsa) -> None:
        self._spec, self._isa = spec, isa
        dims = merged(spec.sizes, (spec.dst_strides, spec.src_strides), leading=DST)
        usable = [dim for dim in dims if any(dim.strides)]
        self._axis = min(usable, key=self._cost, default=None)
        self._writer = FunctionWriter(2)
        self._kinds = tuple(ELEMENTS[format] for format in spec.formats)
        self._v = VectorBuilder(self._writer, isa, isa.lanes if self._axis is not None else 1)
        others = [dim for dim in dims if dim is not self._axis]
        self._kept = [dim for dim in others if dim.strides[DST]]
        reduced = [dim for dim in others if not dim.strides[DST]]
        self._reduced = sorted(reduced, key=lambda dim: -dim.strides[SRC])
        self._sums = 1

    def _cost(self, dim: Dim) -> float:
        lanes = self._isa.lanes
        cost = 1.0 if dim.strides[SRC] == 1 else GATHER_COST * lanes
        if not dim.strides[DST]:
            cost += lanes / dim.size  # the register is folded once a row
        elif dim.strides[DST] != 1:
            cost += GATHER_COST * lanes * self._outputs_share()
        return cost * -(-dim.size // lanes) / dim.size

    def _outputs_share(self) -> float:
        """Results an element."""
        pairs = zip(self._spec.sizes, self._spec.dst_strides, strict=True)
        return 1 / prod(size for size, stride in pairs if not stride)

    def kernel(self) -> MicroKernel:
        dst, src = self._writer.pointers
        self._over(self._kept, dst, src)
        return self._writer.finish()

    def _over(self, dims: Sequence[Dim], dst: str, src: str) -> None:
        """Loops over the kept dimensions."""
        if dims:
            loop = self._writer.begin(dims[0].size)
            self._over(dims[1:], *self._moved((dst, src), dims[0], loop.index))
            self._writer.end(loop)
        elif self._axis is None or not self._axis.strides[DST]:
            self._row(dst, src)
        else:
            self._columns(dst, src, self._axis)

    def _moved(
        self, pointers: tuple[str, str], dim: Dim, index: str, step: int = 1
    ) -> tuple[str, str]:
        (dst, src), (far, near) = pointers, dim.strides
        return self._stepped(dst, index, far * step, DST), self._stepped(src, index, near * step)

    def _stepped(self, pointer: str, index: str, stride: int, operand: int = SRC) -> str:
        if stride == 0:
            return pointer
        offset = index if stride == 1 else self._writer.value(f"mul nsw i64 {index}, {stride}")
        return self._writer.offset(pointer, offset, self._kinds[operand])

    def _behind(self, src: str, elements: int) -> str:
        """The address ``elements`` of the source further."""
        return self._writer.offset(src, elements, self._kinds[SRC])

    def _load(self, at: str, stride: int, first: int, count: int, rest: float = 0.0) -> str:
        """Elements of the source as fp32; lanes without one hold ``rest``."""
        v, format = self._v, self._spec.formats[SRC]
        if format is Format.FP32:
            return load_strip(v, at, stride, first, count, rest)
        value = load_narrow(v, at, stride, first, count, format)
        return value if count == v.lanes else filled(v, value, count, rest)

    def _store(
        self, v: VectorBuilder, total: str, dst: str, stride: int, first: int, count: int
    ) -> None:
        """Store the first ``count`` lanes, rounded to the result's format."""
        format = self._spec.formats[DST]
        if format is Format.FP32:
            store_strip(v, total, dst, stride, first, count)
        else:
            store_narrow(v, total, dst, stride, first, count, format)

    def _columns(self, dst: str, src: str, axis: Dim) -> None:
        """Vectors along a kept dimension: blocks of registers, then what is left."""
        lanes = self._v.lanes
        block = lanes * min(REGISTERS_AT_ONCE, max(1, axis.size // lanes))
        trips, left = divmod(axis.size, block)
        if trips > 1:
            loop = self._writer.begin(trips)
            self._block(*self._moved((dst, src), axis, loop.index, block), axis, block)
            self._writer.end(loop)
        elif trips:
            self._block(dst, src, axis, block)
        if left:
            behind = self._moved((dst, src), axis, str(trips * block))
            self._block(*behind, axis, left)

    def _block(self, dst: str, src: str, axis: Dim, elements: int) -> None:
        """``elements`` results side by side."""
        v, lanes = self._v, self._v.lanes
        strips = [(first, min(lanes, elements - first)) for first in range(0, elements, lanes)]

        def loaded(at: str) -> list[str]:
            return [self._load(at, axis.strides[SRC], *strip) for strip in strips]

        self._sums = len(strips)
        totals = self._folded(self._reduced, src, loaded)
        if self._spec.accumulate:
            old = [load_strip(v, dst, axis.strides[DST], *strip) for strip in strips]
            totals = self._joined(old, totals)
        for strip, total in zip(strips, totals, strict=True):
            self._store(v, total, dst, axis.strides[DST], *strip)

    def _row(self, dst: str, src: str) -> None:
        """One result, of vectors along a reduced dimension."""
        v, axis = self._v, self._axis
        stride, size = (axis.strides[SRC], axis.size) if axis is not None else (1, 1)
        full, left = divmod(size, v.lanes)
        totals: list[str] = []
        if full:
            vectors = Dim(full, (0, v.lanes * stride))
            dims = [*self._reduced, vectors] if full > 1 else self._reduced
            totals = self._folded(dims, src, lambda at: [self._load(at, stride, 0, v.lanes)])
        if left:
            rest, neutral = self._behind(src, full * v.lanes * stride), self._neutral
            partial = self._folded(
                self._reduced, rest, lambda at: [self._load(at, stride, 0, left, neutral)]
            )
            totals = self._joined(totals, partial)
        self._store_scalar(across(v, totals[0], self._combined), dst)

    def _store_scalar(self, total: str, dst: str) -> None:
        one = VectorBuilder(self._writer, self._isa, 1)
        if self._spec.accumulate:
            total = self._combined(one, self._writer.load("float", dst), total)
        self._store(one, total, dst, 1, 0, 1)

    def _folded(self, dims: Sequence[Dim], src: str, loaded: Loaded) -> list[str]:
        """What ``loaded`` gives at each position of the reduced dimensions, combined."""
        if prod(dim.size for dim in dims) <= UNROLLED:
            return self._written_out(dims, src, loaded)
        (size, stride), rest = (dims[0].size, dims[0].strides[SRC]), dims[1:]
        trip = 1 if rest else AT_ONCE
        if size > SHORT_SUM:
            trip = SHORT_SUM if size <= SHORT_SUM**2 else SHORT_SUM**2
        many, left = divmod(size, trip)
        part = [Dim(trip, (0, stride)), *rest] if trip > 1 else rest
        totals = self._looped(many, trip * stride, src, lambda at: self._folded(part, at, loaded))
        if left:
            behind = self._behind(src, many * trip * stride)
            ends = self._folded([Dim(left, (0, stride)), *rest], behind, loaded)
            totals = self._joined(totals, ends)
        return totals

    def _looped(self, trips: int, stride: int, src: str, part: Loaded) -> list[str]:
        """The parts of ``trips`` positions, combined one after the other."""
        if trips == 1:
            return part(src)
        count = self._sums
        start = (self._v.floats, self._v.constant(self._neutral))
        loop = self._writer.begin(trips, *[start] * count)
        totals = self._joined(loop.values, part(self._stepped(src, loop.index, stride)))
        self._writer.end(loop, *totals)
        return totals

    def _written_out(self, dims: Sequence[Dim], src: str, loaded: Loaded) -> list[str]:
        offsets = [0]
        for dim in dims:
            offsets = [at + i * dim.strides[SRC] for at in offsets for i in range(dim.size)]
        return self._paired(src, offsets, loaded)

    def _paired(self, src: str, offsets: Sequence[int], loaded: Loaded) -> list[str]:
        """Pairs, then pairs of pairs: as short a chain of additions as there can be. Sums enough
        to hide the latency are made one after the other, for want of registers."""
        if len(offsets) == 1:
            return loaded(self._behind(src, offsets[0]))
        middle = len(offsets) - 1 if self._sums >= REGISTERS_AT_ONCE else (len(offsets) + 1) // 2
        first = self._paired(src, offsets[:middle], loaded)
        return self._joined(first, self._paired(src, offsets[middle:], loaded))

    def _joined(self, totals: Sequence[str], more: Sequence[str]) -> list[str]:
        if not totals:
            return list(more)
        pairs = zip(totals, more, strict=True)
        return [self._combined(self._v, total, each) for total, each in pairs]

    def _combined(self, v: VectorBuilder, x: str, y: str) -> str:
        return COMBINED[self._spec.fn][0](v, x, y)

    @property
    def _neutral(self) -> float:
        return COMBINED[self._spec.fn][1]
