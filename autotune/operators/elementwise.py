"""Element-wise families: unary, and binary with broadcasting. What each function computes is its row's
(``isa/functions.py``)."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from autotune.isa.functions import UnaryFn
from autotune.operators.axis_map import Footprint
from autotune.operators.family import (
    ONE,
    FamilyRow,
    Inputs,
    Intervals,
    Operands,
    Shape,
    Shapes,
    Types,
    Work,
    broadcast_region,
    broadcast_shape,
    same_attrs,
    same_region,
)
from autotune.operators.interval import ANYTHING, Interval
from autotune.operators.op import Op, OpKind
from autotune.operators.tensor import Array


def _reference(op: Op, inputs: Inputs) -> Array:
    return op.function.row.reference(*inputs, *op.scalars)


def _operations(op: Op, shapes: Shapes, result: Shape) -> int:
    return op.function.row.operations * math.prod(result)


def _interval(op: Op, intervals: Intervals, shapes: Shapes) -> Interval:
    """By the function's own rule, otherwise its bounds."""
    if op.kind is OpKind.CLIP:
        return _clipped(intervals[0], op.float("min"), op.float("max"))
    rule = RULES.get(op.kind)
    return Interval(*op.function.row.bounds) if rule is None else rule(*intervals)


def _clipped(x: Interval, low: float, high: float) -> Interval:
    return Interval(min(max(x.low, low), high), min(max(x.high, low), high))


def _monotone(function: Callable[[float], float]) -> Callable[[Interval], Interval]:
    return lambda x: Interval(function(x.low), function(x.high))


def _outward(function: Callable[[float], int]) -> Callable[[float], float]:
    """Let a rounding keep infinite ends."""
    return lambda x: float(function(x)) if math.isfinite(x) else x


def _abs(x: Interval) -> Interval:
    low = 0.0 if x.low <= 0 <= x.high else min(abs(x.low), abs(x.high))
    return Interval(low, x.extreme)


def _quotient(a: Interval, b: Interval) -> Interval:
    """No larger than the dividend, divided by the least divisor if that is less than 1."""
    if b.low <= 0 <= b.high:
        return ANYTHING
    most = a.extreme / min(1.0, abs(b.low), abs(b.high))
    return Interval(-most, most)


def whole_quotient(a: Interval, b: Interval) -> Interval:
    """Bound a quotient of whole numbers before it is cut off. The divisor is 1 at least: division by 0
    defines nothing."""
    if b.low >= 0:
        return Interval(min(0.0, a.low), max(0.0, a.high))
    return Interval(-a.extreme, a.extreme)


def _power(base: Interval, exponent: Interval) -> Interval:
    """Corners where the base is positive; otherwise the largest magnitude, with both signs."""
    if base.low > 0:
        ends = [raised(x, y) for x in (base.low, base.high) for y in (exponent.low, exponent.high)]
        return Interval(min(ends), max(ends))
    if exponent.low < 0:
        return ANYTHING
    most = max(1.0, raised(base.extreme, exponent.high))
    return Interval(-most, most)


def raised(base: float, exponent: float) -> float:
    """Return a power, infinite where it overflows."""
    try:
        return math.pow(base, exponent)
    except OverflowError:
        return math.inf


def _less(a: Interval, b: Interval) -> Interval:
    """0 where it cannot hold; where it must, a NaN may still be compared."""
    return Interval(0.0, float(a.low <= b.high))


def _kept(x: Interval, where: Interval) -> Interval:
    """Zeros where the other operand's value is not taken."""
    return Interval(min(0.0, x.low), max(0.0, x.high))


def _gelu(x: Interval) -> Interval:
    """At most the operand, and never below −0.171."""
    return Interval(0.0 if x.low >= 0 else -0.171, max(0.0, x.high))


def _modulo(a: Interval, b: Interval) -> Interval:
    """Between 0 and the divisor, and never larger than the dividend where neither is negative."""
    most = min(a.high, b.high) if min(a.low, b.low) >= 0 else b.high
    return Interval(min(0.0, b.low), max(0.0, most))


def _remainder(a: Interval, b: Interval) -> Interval:
    """Between 0 and the dividend, and smaller than the divisor."""
    return Interval(max(min(0.0, a.low), -b.extreme), min(max(0.0, a.high), b.extreme))


RULES: dict[OpKind, Callable[..., Interval]] = {
    OpKind.RELU: _monotone(lambda x: max(x, 0.0)),
    OpKind.GELU: _gelu,
    OpKind.GELU_TANH: _gelu,
    OpKind.NEG: lambda x: -x,
    OpKind.ABS: _abs,
    OpKind.FLOOR: _monotone(_outward(math.floor)),
    OpKind.CEIL: _monotone(_outward(math.ceil)),
    OpKind.ROUND: _monotone(_outward(round)),
    OpKind.TRUNC: _monotone(_outward(math.trunc)),
    OpKind.BF16: _monotone(lambda x: float(UnaryFn.BF16.row.reference(np.float32(x)))),
    OpKind.FP16: _monotone(lambda x: float(UnaryFn.FP16.row.reference(np.float32(x)))),
    OpKind.ADD: lambda a, b: a + b,
    OpKind.SUB: lambda a, b: a + -b,
    OpKind.MUL: lambda a, b: a * b,
    OpKind.MAXIMUM: lambda a, b: Interval(max(a.low, b.low), max(a.high, b.high)),
    OpKind.MINIMUM: lambda a, b: Interval(min(a.low, b.low), min(a.high, b.high)),
    OpKind.LESS: _less,
    OpKind.LESS_EQUAL: _less,
    OpKind.DIV: _quotient,
    OpKind.POW: _power,
    OpKind.MOD: _modulo,
    OpKind.FMOD: _remainder,
    OpKind.KEEP_IF: _kept,
    OpKind.KEEP_UNLESS: _kept,
}
"""Functions whose operands' intervals tell more than their bounds do."""


def _unary_shape(op: Op, shapes: Shapes) -> Shape:
    return shapes[0]


def _binary_shape(op: Op, shapes: Shapes) -> Shape:
    return broadcast_shape(op, shapes, *shapes)


def _binary_region(op: Op, index: int, out: Footprint, types: Types) -> Footprint:
    return broadcast_region(types[op.inputs[index]].shape, out, types[op.output].shape)


UNARY = FamilyRow(
    Work.VECTOR,
    ONE,
    _unary_shape,
    _reference,
    _interval,
    same_region,
    _operations,
    channels_last=same_attrs,
)
BINARY = FamilyRow(
    Work.VECTOR,
    Operands(("a", "b")),
    _binary_shape,
    _reference,
    _interval,
    _binary_region,
    _operations,
    channels_last=same_attrs,
)
