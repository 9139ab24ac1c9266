"""Pass: products of 8-bit integers less their zero points become products of the integers themselves.

Importers write quantised networks as ``MATMUL/CONV((qa − za) · sa, (qb − zb) · sb)``. That becomes the exact int32
sum Σ (qa − za) · (qb − zb), times sa · sb. A machine then stores, moves and multiplies 8 bits.
"""

from __future__ import annotations

import math
from collections.abc import Set
from dataclasses import dataclass, replace

import numpy as np

from autotune.graph.graph import Graph
from autotune.graph.passes.channel_points import ChannelPoints
from autotune.graph.passes.note import Note, PassResult
from autotune.graph.passes.quantised_factors import (
    PRODUCTS,
    Factor,
    ProductWriter,
    by_channel,
    constant_of,
    factor_of,
)
from autotune.graph.passes.storage import held_tensors
from autotune.graph.passes.whole_products import whole_product
from autotune.graph.product_sums import ProductSums, reduced_axes
from autotune.isa.formats import Formats
from autotune.operators.axes import CHANNELS_FIRST
from autotune.operators.contraction import is_depthwise
from autotune.operators.interval import Interval
from autotune.operators.op import AttrValue, Op, OpKind
from autotune.operators.tensor import EXACT_LIMIT, NARROW, Array, DType, TensorType

SUM_LIMIT = 2**31 - 1
"""Largest magnitude of a sum that int32 holds."""

EXACT_TAPS = EXACT_LIMIT >> 16
"""Products of 8-bit integers whose sum float32 surely holds."""

Factors = tuple[Factor, Factor]


@dataclass(frozen=True, slots=True)
class NarrowProducts:
    """Products whose two factors are 8-bit integers less a constant zero point. A constant weight may have one per channel.

    A constant scale of each factor, of the second one also per output channel, moves behind the
    sum, where both are applied as one factor. The pieces that an importer has cut a long sum into become one
    product again. Of a matrix by constant weights, the zero point of the first factor may be a
    number that only a run knows. Sums that could leave int32 are left alone. Depthwise convolutions, work for
    the vector unit, compute in float32 on the integers themselves.
    """

    formats: Formats
    name: str = "narrow-products"

    def run(self, graph: Graph) -> PassResult:
        """Rewrite every product that fits."""
        if self.formats.multiplied.isdisjoint(NARROW.values()):
            return PassResult(graph, ())
        writer, held = ProductWriter(graph), held_tensors(graph)
        notes: list[Note] = []
        for op in graph.ops:
            if _is_scaled_depthwise(op, graph, held):
                _write_depthwise(writer, graph, op, held)
                reason = f"{op.name} reads integers, and scales their sums"
                notes.append(Note(self.name, f"scales of {op.name}", reason))
                continue
            product = whole_product(graph, op) or op
            factors = self._factors(product, graph, held)
            if factors is None:
                writer.ops.append(op)
                continue
            points = self._channel_points(product, graph, factors)
            if points is None:
                _write(writer, graph, product, factors)
            else:
                _write_points(writer, graph, product, factors, points)
            types = " by ".join(graph.types[f.tensor].dtype for f in factors)
            reason = f"{op.name} multiplies {types}"
            notes.append(Note(self.name, f"float32 factors of {op.name}", reason))
        return PassResult(writer.graph() if notes else graph, tuple(notes))

    def _factors(self, op: Op, graph: Graph, held: Set[str]) -> Factors | None:
        if op.kind not in PRODUCTS or op.zeros is not None:
            return None
        if op.kind is OpKind.CONV and (op.axes != CHANNELS_FIRST or _is_depthwise(op, graph)):
            return None
        a, b = (factor_of(graph, x, held) for x in op.inputs[:2])
        if a is None or b is None or b.point is not None or not self._multiplies(graph, a, b):
            return None
        if not _scales_fit(op, a, b) or a.points is not None:
            return None
        if b.points is not None:
            fits = self._channel_points(op, graph, (a, b)) is not None
            return (a, b) if fits else None
        if a.point is not None:
            a = replace(a, zero=_middle(graph, a))
            return (a, b) if _is_exact_shifted(op, graph, a, b) else None
        return (a, b) if _stays_within(op, graph, a, b) else None

    def _channel_points(self, op: Op, graph: Graph, factors: Factors) -> ChannelPoints | None:
        a, b = factors
        if a.point is not None:
            return None
        return ChannelPoints.of(op, graph, b, _interval(graph, a), self.formats)

    def _multiplies(self, graph: Graph, *factors: Factor) -> bool:
        formats = (NARROW[graph.types[f.tensor].dtype] for f in factors)
        return self.formats.multiplied.issuperset(formats)


def _is_depthwise(op: Op, graph: Graph) -> bool:
    return op.int("group") > 1 and is_depthwise(op, graph.types)


def _is_scaled_depthwise(op: Op, graph: Graph, held: Set[str]) -> bool:
    """Return True for a depthwise convolution of scaled integers by constant ones."""
    if op.kind is not OpKind.CONV or op.axes != CHANNELS_FIRST or not _is_depthwise(op, graph):
        return False
    scaled = graph.producer.get(op.inputs[0])
    a, b = (factor_of(graph, x, held) for x in op.inputs[:2])
    if a is None or b is None or scaled is None or scaled.kind is not OpKind.MUL:
        return False
    taps = math.prod(graph.shape(op.inputs[1])[2:])
    known = b.tensor in graph.constants and b.point is None and taps <= EXACT_TAPS
    if a.points is not None:
        return False
    return known and a.scale is not None and b.scale is not None and _scales_fit(op, a, b)


def _write_depthwise(writer: ProductWriter, graph: Graph, op: Op, held: Set[str]) -> None:
    """Append a depthwise convolution of integers, then both scales and the bias."""
    a, b = (factor_of(graph, x, held) for x in op.inputs[:2])
    assert a is not None and b is not None, "the pass has checked it"
    value = _weight(graph, b)
    assert value is not None, "the pass has checked it"
    weight = writer.constant(value.astype(np.float32), f"{op.output}.integers")
    inputs = graph.producer[op.inputs[0]].inputs[0], weight
    name = writer.fresh(f"{op.output}.sums", TensorType(graph.shape(op.output), DType.INT32))
    writer.ops.append(Op(name, op.kind, inputs, name, op.attrs))
    writer.scaled(op, name, _scale(op, a, b), op.inputs[2:])


def _scales_fit(op: Op, a: Factor, b: Factor) -> bool:
    """Return True if both factors have no scale, or scales that can be applied to the sums."""
    if a.scale is None or b.scale is None:
        return a.scale is b.scale
    return a.scale.size == 1 and by_channel(op, b.scale) is not None


def _stays_within(op: Op, graph: Graph, a: Factor, b: Factor) -> bool:
    """Return True if int32 provably holds all sums, with the bias."""
    intervals = _interval(graph, a), _interval(graph, b)
    shape = graph.shape(op.inputs[1])
    depth = math.prod(shape[d] for d in reduced_axes(op, 1, len(shape)))
    bias = 0.0
    if len(op.inputs) == 3 and a.scale is None:
        value = constant_of(graph, op.inputs[2])
        if value is None:
            return False
        bias = float(np.abs(value).max())
    if (intervals[0] * intervals[1]).extreme * depth + bias <= SUM_LIMIT:
        return True
    weight = _weight(graph, b)
    if weight is None:
        return False
    sums = ProductSums.of(weight, reduced_axes(op, 1, weight.ndim), 0)
    return sums.partial(intervals[0]).extreme + bias <= SUM_LIMIT


def _middle(graph: Graph, factor: Factor) -> int:
    """Return the constant that stands for a zero point that only a run knows."""
    low, high = graph.types[factor.tensor].dtype.limits
    return (low + high + 1) // 2


def _is_exact_shifted(op: Op, graph: Graph, a: Factor, b: Factor) -> bool:
    """Return True if a matrix product is exact as Σ (qa − middle) · wb + (middle − za) · Σ wb.

    Both terms are then whole numbers that float32 holds, and their sum is rounded once.
    """
    weight = _weight(graph, b)
    if op.kind is not OpKind.MATMUL or weight is None or weight.ndim != 2 or a.views:
        return False
    sums = ProductSums.of(weight, reduced_axes(op, 1, 2), 0)
    return sums.partial(_interval(graph, a)).extreme <= EXACT_LIMIT


def _weight(graph: Graph, factor: Factor) -> Array | None:
    """Return the numbers of a constant factor, in the shape in which the product reads it."""
    value = graph.constants.get(factor.tensor)
    if value is None:
        return None
    weight = value - (np.float32(factor.zero) if factor.points is None else factor.points)
    return weight.reshape(factor.views[-1]) if factor.views else weight


def _interval(graph: Graph, factor: Factor) -> Interval:
    low, high = graph.types[factor.tensor].dtype.limits
    return Interval(float(low - factor.zero), float(high - factor.zero))


def _write(writer: ProductWriter, graph: Graph, op: Op, factors: Factors) -> None:
    """Append the narrow form of a product, then what its sums lack: a zero point, scale, bias."""
    a, b = factors
    attrs: dict[str, AttrValue] = {**dict(op.attrs), "a_zero": a.zero, "b_zero": b.zero}
    inputs = writer.viewed(a), writer.viewed(b)
    sums = TensorType(graph.shape(op.output), DType.INT32)
    if a.point is not None:
        partial = writer.fresh(f"{op.output}.sums", sums)
        writer.ops.append(Op.make(partial, op.kind, inputs, partial, attrs))
        is_last = a.scale is None
        output = op.output if is_last else writer.fresh(f"{op.output}.whole", sums)
        _shift(writer, graph, op, factors, partial, output)
        if a.scale is not None:
            writer.scaled(op, output, _scale(op, a, b), ())
        return
    if a.scale is None:
        writer.ops.append(Op.make(op.name, op.kind, (*inputs, *op.inputs[2:]), op.output, attrs))
        return
    name = writer.fresh(f"{op.output}.sums", sums)
    writer.ops.append(Op.make(name, op.kind, inputs, name, attrs))
    writer.scaled(op, name, _scale(op, a, b), op.inputs[2:])


def _write_points(
    writer: ProductWriter, graph: Graph, op: Op, factors: Factors, points: ChannelPoints
) -> None:
    """Append a product by a weight with a zero point per channel, then its scale."""
    a, b = factors
    shape = graph.shape(op.output)
    is_last = a.scale is None
    output = (
        op.output if is_last else writer.fresh(f"{op.output}.sums", TensorType(shape, DType.INT32))
    )
    points.write(writer, op, writer.viewed(a), a.zero, shape, output)
    if not is_last:
        writer.scaled(op, output, _scale(op, a, b), ())


def _scale(op: Op, a: Factor, b: Factor) -> Array:
    """Return the factor of the sums: both scales, rounded once."""
    assert a.scale is not None and b.scale is not None, "the pass has checked it"
    channel = by_channel(op, b.scale)
    assert channel is not None, "the pass has checked it"
    scale: Array = (a.scale.astype(np.float64).reshape(()) * channel).astype(np.float32)
    return scale


def _shift(
    writer: ProductWriter, graph: Graph, op: Op, factors: Factors, sums: str, output: str
) -> None:
    """Append ``output`` = sums + (middle − point) · Σ wb, by column."""
    a, b = factors
    weight = _weight(graph, b)
    assert weight is not None and a.point is not None, "the pass has checked it"
    totals = weight.sum(axis=reduced_axes(op, 1, 2), dtype=np.float64).astype(np.float32)
    middle = writer.constant(np.asarray(a.zero, np.float32), f"{op.output}.middle")
    columns = writer.constant(totals.reshape(-1), f"{op.output}.columns")
    distance = writer.fresh(f"{op.output}.distance", TensorType(graph.shape(a.point), DType.INT64))
    shift = writer.fresh(f"{op.output}.shift", TensorType(totals.reshape(-1).shape, DType.INT64))
    writer.ops.append(Op(distance, OpKind.SUB, (middle, a.point), distance))
    writer.ops.append(Op(shift, OpKind.MUL, (columns, distance), shift))
    name = op.name if output == op.output else output
    writer.ops.append(Op(name, OpKind.ADD, (sums, shift), output))
