"""What interval each operator makes of its inputs' intervals: the table that interval analysis reads."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from autotune.operators.op import OPERATORS, Op, OpKind, OpRow

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Interval:
    """Numbers from ``low`` to ``high``."""

    low: float
    high: float

    def __post_init__(self) -> None:
        assert self.low <= self.high

    @property
    def extreme(self) -> float:
        """The largest magnitude."""
        return max(abs(self.low), abs(self.high))

    def within(self, low: float, high: float) -> bool:
        """Whether no number lies outside."""
        return low <= self.low and self.high <= high

    def __add__(self, other: Interval) -> Interval:
        low, high = self.low + other.low, self.high + other.high  # ∞ − ∞ may be anything
        return Interval(
            -math.inf if math.isnan(low) else low, math.inf if math.isnan(high) else high
        )

    def __or__(self, other: Interval) -> Interval:
        return Interval(min(self.low, other.low), max(self.high, other.high))

    def __neg__(self) -> Interval:
        return Interval(-self.high, -self.low)

    def __mul__(self, other: Interval) -> Interval:
        products = [a * b for a in (self.low, self.high) for b in (other.low, other.high)]
        real = [0.0 if math.isnan(p) else p for p in products]  # 0 · ∞: the end is not reached
        return Interval(min(real), max(real))


ANYTHING = Interval(-math.inf, math.inf)
TRUTH = Interval(0.0, 1.0)

Intervals = Sequence[Interval]
Rule = Callable[[Op, Intervals, Sequence[Shape]], Interval]


def _union(op: Op, given: Intervals, shapes: Sequence[Shape]) -> Interval:
    return Interval(min(i.low for i in given), max(i.high for i in given))


def _monotone(function: Callable[[float], float]) -> Rule:
    return lambda op, given, shapes: Interval(function(given[0].low), function(given[0].high))


def _of(function: Callable[..., Interval]) -> Rule:
    return lambda op, given, shapes: function(*given)


def _abs(x: Interval) -> Interval:
    low = 0.0 if x.low <= 0 <= x.high else min(abs(x.low), abs(x.high))
    return Interval(low, x.extreme)


def _outward(function: Callable[[float], int]) -> Callable[[float], float]:
    """A rounding that lets infinite ends be."""
    return lambda x: float(function(x)) if math.isfinite(x) else x


def _quotient(a: Interval, b: Interval) -> Interval:
    """No larger than what is divided, by the least divisor if that is less than 1."""
    if b.low <= 0 <= b.high:
        return ANYTHING
    most = a.extreme / min(1.0, abs(b.low), abs(b.high))
    return Interval(-most, most)


def whole_quotient(a: Interval, b: Interval) -> Interval:
    """A quotient of whole numbers before it is cut off: the divisor is 1 at least, as by 0 nothing
    is defined."""
    if b.low >= 0:
        return Interval(min(0.0, a.low), max(0.0, a.high))
    return Interval(-a.extreme, a.extreme)


def _clip(op: Op, given: Intervals, shapes: Sequence[Shape]) -> Interval:
    low, high = op.float("min"), op.float("max")
    return Interval(
        min(max(given[0].low, low), high),
        min(max(given[0].high, low), high),
    )


def _matmul(op: Op, given: Intervals, shapes: Sequence[Shape]) -> Interval:
    depth = shapes[0][-2 if op.int("trans_a") else -1]
    return _partial_sums(given[0] * given[1], depth)


def _conv(op: Op, given: Intervals, shapes: Sequence[Shape]) -> Interval:
    weight = shapes[1]
    depth = math.prod(weight) // weight[op.axes.out_channel]
    total = _partial_sums(given[0] * given[1], depth)
    return total + given[2] if len(given) == 3 else total


def _sum(op: Op, given: Intervals, shapes: Sequence[Shape]) -> Interval:
    return _partial_sums(given[0], math.prod(shapes[0][axis] for axis in op.ints("axes")))


def _slide(op: Op, given: Intervals, shapes: Sequence[Shape]) -> Interval:
    return _partial_sums(given[0], op.int("before") + 1 + op.int("after"))


def _partial_sums(term: Interval, count: int) -> Interval:
    """Sums of up to ``count`` terms: what is added on the way has to be exact too."""
    return Interval(min(0.0, term.low * count), max(0.0, term.high * count))


def _power(base: Interval, exponent: Interval) -> Interval:
    """Corners where the base is positive; otherwise the largest magnitude, with both signs."""
    if base.low > 0:
        ends = [_raised(x, y) for x in (base.low, base.high) for y in (exponent.low, exponent.high)]
        return Interval(min(ends), max(ends))
    if exponent.low < 0:
        return ANYTHING
    most = max(1.0, _raised(base.extreme, exponent.high))
    return Interval(-most, most)


def _raised(base: float, exponent: float) -> float:
    try:
        return math.pow(base, exponent)
    except OverflowError:
        return math.inf


def _less(a: Interval, b: Interval) -> Interval:
    """0 where it cannot hold; where it must, a NaN may still be compared."""
    return Interval(0.0, float(a.low <= b.high))


def _pad(op: Op, given: Intervals, shapes: Sequence[Shape]) -> Interval:
    value = op.float("value")
    return Interval(min(given[0].low, value), max(given[0].high, value))


def _kept(op: Op, given: Intervals, shapes: Sequence[Shape]) -> Interval:
    """Zeros where the other operand's value is not taken."""
    return Interval(min(0.0, given[0].low), max(0.0, given[0].high))


def _modulo(a: Interval, b: Interval) -> Interval:
    """Between 0 and the divisor, and never larger than what is divided where neither is negative."""
    most = min(a.high, b.high) if min(a.low, b.low) >= 0 else b.high
    return Interval(min(0.0, b.low), max(0.0, most))


def _remainder(a: Interval, b: Interval) -> Interval:
    """Between 0 and what is divided, and smaller than the divisor."""
    return Interval(max(min(0.0, a.low), -b.extreme), min(max(0.0, a.high), b.extreme))


def _product(op: Op, given: Intervals, shapes: Sequence[Shape]) -> Interval:
    count = math.prod(shapes[0][axis] for axis in op.ints("axes"))
    extreme = _raised(max(1.0, given[0].extreme), count)
    return Interval(0.0 if given[0].low >= 0 else -extreme, extreme)


def _bounds(row: OpRow) -> Rule:
    """What the results of an element-wise function lie within, whatever it reads."""
    assert row.function is not None
    bounds = Interval(*row.function.row.bounds)
    return lambda op, given, shapes: bounds


def _anything(op: Op, given: Intervals, shapes: Sequence[Shape]) -> Interval:
    return ANYTHING


RULES: dict[OpKind, Rule] = {
    **{kind: _bounds(row) for kind, row in OPERATORS.items() if row.function is not None},
    OpKind.CONV: _conv,
    OpKind.WINOGRAD_CONV: _anything,
    OpKind.MATMUL: _matmul,
    OpKind.RELU: _monotone(lambda x: max(x, 0.0)),
    OpKind.CLIP: _clip,
    OpKind.NEG: _of(lambda x: -x),
    OpKind.ABS: _of(_abs),
    OpKind.ADD: _of(lambda a, b: a + b),
    OpKind.SUB: _of(lambda a, b: a + -b),
    OpKind.MUL: _of(lambda a, b: a * b),
    OpKind.MAXIMUM: _of(lambda a, b: Interval(max(a.low, b.low), max(a.high, b.high))),
    OpKind.MINIMUM: _of(lambda a, b: Interval(min(a.low, b.low), min(a.high, b.high))),
    OpKind.FLOOR: _monotone(_outward(math.floor)),
    OpKind.CEIL: _monotone(_outward(math.ceil)),
    OpKind.ROUND: _monotone(_outward(round)),
    OpKind.TRUNC: _monotone(_outward(math.trunc)),
    OpKind.LESS: _of(_less),
    OpKind.LESS_EQUAL: _of(_less),
    OpKind.DIV: _of(_quotient),
    OpKind.POW: _of(_power),
    OpKind.MOD: _of(_modulo),
    OpKind.FMOD: _of(_remainder),
    OpKind.KEEP_IF: _kept,
    OpKind.KEEP_UNLESS: _kept,
    OpKind.MAX_POOL: _union,
    OpKind.AVERAGE_POOL: lambda op, given, shapes: given[0] | Interval(0.0, 0.0),
    OpKind.SLIDING_SUM: _slide,
    OpKind.REDUCE_MEAN: _union,
    OpKind.REDUCE_SUM: _sum,
    OpKind.REDUCE_MAX: _union,
    OpKind.REDUCE_MIN: _union,
    OpKind.REDUCE_PROD: _product,
    OpKind.SOFTMAX: lambda op, given, shapes: TRUTH,
    OpKind.LAYER_NORM: _anything,
    OpKind.RMS_NORM: _anything,
    OpKind.CONCAT: _union,
    OpKind.RESHAPE: _union,
    OpKind.TRANSPOSE: _union,
    OpKind.SLICE: _union,
    OpKind.PAD: _pad,
    OpKind.EXPAND: _union,
    OpKind.GATHER: lambda op, given, shapes: given[0],
}
"""Interval of each kind's result."""
