"""log, softplus and pow; part of vector maths (maths.py)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from autotune.isa.functions import UnaryFn
from autotune.targets.native.codegen.maths.exponential import (
    LN2_LOWER,
    LN2_UPPER,
    falling_exp,
    less_one,
)
from autotune.targets.native.codegen.writing.vector_builder import VectorBuilder

INFINITY, NAN = float("inf"), float("nan")
ROOT_HALF_BITS = 0x3F3504F3
SMALLEST_NORMAL = 2.0**-126
LOG = (
    0.33333331,
    -0.2500082,
    0.20001242,
    -0.16623409,
    0.14201581,
    -0.13159616,
    0.12762207,
    -0.07636398,
)
"""(ln(1 + f) − f + f²/2) / f³ over √½ ≤ 1 + f < √2, 6e-9 of the logarithm; by linear programming."""


def _split(v: VectorBuilder, x: str) -> tuple[str, str]:
    """x = 2^e · m with √½ ≤ m < √2, as (e in floating point, m); x is positive and finite."""
    small = v.compare("olt", x, v.constant(SMALLEST_NORMAL))
    x = v.select(small, v.mul(x, v.constant(2.0**23)), x)
    bits = v.bits(x)
    above = v.whole("sub", bits, v.integer(ROOT_HALF_BITS))
    exponent = v.whole("ashr", above, v.integer(23))
    m = v.from_bits(v.whole("sub", bits, v.whole("shl", exponent, v.integer(23))))
    return v.add(v.from_whole(exponent), v.select(small, v.constant(-23.0), v.constant(0.0))), m


def log(v: VectorBuilder, x: str) -> str:
    """e·ln 2 + ln(1 + f)."""
    e, m = _split(v, x)
    f = v.sub(m, v.constant(1.0))
    square = v.mul(f, f)
    tail = v.mul(v.mul(f, square), v.horner(LOG, f))
    tail = v.fma(e, v.constant(LN2_LOWER), tail)
    tail = v.fma(square, v.constant(-0.5), tail)
    result = v.fma(e, v.constant(LN2_UPPER), v.add(f, tail))
    result = v.select(v.compare("olt", x, v.constant(INFINITY)), result, x)
    zero = v.constant(0.0)
    result = v.select(v.compare("oeq", x, zero), v.constant(-INFINITY), result)
    return v.select(v.compare("olt", x, zero), v.constant(NAN), result)


def softplus(v: VectorBuilder, x: str) -> str:
    """max(x, 0) + ln(1 + e) with e = exp(−|x|)."""
    e = falling_exp(v, v.neg(v.abs(x)))
    return v.add(v.at_least(x, v.constant(0.0)), _log_one_plus(v, e))


def _log_one_plus(v: VectorBuilder, e: str) -> str:
    """ln(1 + e) for 0 ≤ e ≤ 1, with all digits of a small e: 1 + e is never rounded, being 1 + f
    up to √2 and 2 · (1 + f) above."""
    far = v.compare("ogt", e, v.constant(math.sqrt(2) - 1))
    f = v.select(far, v.mul(v.sub(e, v.constant(1.0)), v.constant(0.5)), e)
    square = v.mul(f, f)
    tail = v.mul(v.mul(f, square), v.horner(LOG, f))
    near = v.add(f, v.fma(square, v.constant(-0.5), tail))
    return v.add(near, v.select(far, v.constant(math.log(2)), v.constant(0.0)))


LOG2 = (
    2.885390081790083,
    0.9617966733452479,
    0.57708358443091,
    0.41167274868410914,
    0.3407295627993272,
)
"""log2((1 + s)/(1 − s)) / s over s², |s| ≤ 0.1716, 4e-12; by linear programming."""
ROUNDING = 1.5 * 2.0**52
POWER_LOW, POWER_HIGH = -152.0, 129.0
"""2 to the power of this is 0 below and infinite above."""
LN2 = 0.6931471805599453


class _Doubles:
    """The same lanes in double precision: pow's exponent needs 40 bits."""

    def __init__(self, v: VectorBuilder) -> None:
        self._writer, self._lanes = v.writer, v.lanes
        self.kind = v.floats.replace("float", "double")
        self.suffix = f"v{v.lanes}f64" if v.lanes > 1 else "f64"

    def constant(self, value: float) -> str:
        return f"splat (double {value!r})" if self._lanes > 1 else repr(value)

    def do(self, name: str, x: str, y: str) -> str:
        return self._writer.value(f"{name} {self.kind} {x}, {y}")

    def fma(self, x: str, y: str, z: str) -> str:
        given = [(self.kind, argument) for argument in (x, y, z)]
        return self._writer.call(self.kind, f"llvm.fmuladd.{self.suffix}", *given)

    def bounded(self, how: str, x: str, bound: str) -> str:
        where = self._writer.value(f"fcmp {how} {self.kind} {x}, {bound}")
        truth = self.kind.replace("double", "i1")
        return self._writer.value(f"select {truth} {where}, {self.kind} {bound}, {self.kind} {x}")


def power(v: VectorBuilder, x: str, y: str) -> str:
    """x to the power of y, as C's pow: 2^(y·log2 |x|) with x's sign where y is odd."""
    size = v.abs(x)
    result = _positive_power(v, size, y)
    whole, odd = _whole_odd(v, y)
    one, zero = v.constant(1.0), v.constant(0.0)
    result = v.select(v.compare("oeq", y, zero), one, result)
    sign = v.select(odd, x, one)
    result = v.copysign(result, sign)
    # a negative number, neither -0 nor -inf, to a power that is not whole
    wrong = v.select(whole, one, v.constant(NAN))
    finite = v.select(v.compare("ogt", x, v.constant(-INFINITY)), wrong, one)
    result = v.mul(result, v.select(v.compare("olt", x, zero), finite, one))
    # x = ±1 and y = ±inf is 1; 1 to the power of NaN is 1
    endless = v.compare("oeq", v.abs(y), v.constant(INFINITY))
    of_one = v.select(endless, one, result)
    result = v.select(v.compare("oeq", size, one), of_one, result)
    result = v.select(v.compare("oeq", x, one), one, result)
    return v.select(v.compare("oeq", y, zero), one, result)


def _positive_power(v: VectorBuilder, x: str, y: str) -> str:
    """x ≥ 0 or NaN to the power of y, but for 1 to ±inf or NaN, and NaN to 0."""
    d = _Doubles(v)
    value = v.writer.value
    exponent = d.do("fmul", value(f"fpext {v.floats} {y} to {d.kind}"), _log2(v, d, x))
    exponent = d.bounded("olt", exponent, d.constant(POWER_LOW))
    exponent = d.bounded("ogt", exponent, d.constant(POWER_HIGH))
    shifted = d.do("fadd", exponent, d.constant(ROUNDING))
    rest = d.do("fsub", exponent, d.do("fsub", shifted, d.constant(ROUNDING)))
    rest = d.do("fmul", rest, d.constant(LN2))
    r = value(f"fptrunc {d.kind} {rest} to {v.floats}")
    wide = d.kind.replace("double", "i64")
    bits = value(f"bitcast {d.kind} {shifted} to {wide}")
    n = value(f"trunc {wide} {bits} to {v.integers}")
    # 2^n in two halves, each a normal number
    first = v.whole("ashr", n, v.integer(1))
    result = v.add(less_one(v, r), v.constant(1.0))
    for part in (first, v.whole("sub", n, first)):
        biased = v.whole("shl", v.whole("add", part, v.integer(127)), v.integer(23))
        result = v.mul(result, v.from_bits(biased))
    return result


def _log2(v: VectorBuilder, d: _Doubles, x: str) -> str:
    """log2(x) in double precision, with its special values; x ≥ 0 or NaN."""
    value = v.writer.value
    e, m = _split(v, x)
    zero, endless = v.constant(0.0), v.constant(INFINITY)
    e = v.select(v.compare("oeq", x, zero), v.constant(-INFINITY), e)
    e = v.select(v.compare("ult", x, endless), e, endless)
    e = v.select(v.compare("uno", x, x), x, e)
    m_wide = value(f"fpext {v.floats} {m} to {d.kind}")
    one = d.constant(1.0)
    s = d.do("fdiv", d.do("fsub", m_wide, one), d.do("fadd", m_wide, one))
    square = d.do("fmul", s, s)
    total = d.constant(LOG2[-1])
    for coefficient in reversed(LOG2[:-1]):
        total = d.fma(total, square, d.constant(coefficient))
    return d.fma(total, s, value(f"fpext {v.floats} {e} to {d.kind}"))


def _whole_odd(v: VectorBuilder, y: str) -> tuple[str, str]:
    """Whether y is a whole number (infinities are), and whether it is odd, as i1."""
    size = v.abs(y)
    limit = v.constant(2.0**24)  # every float from here on is even
    size = v.select(v.compare("olt", size, limit), size, limit)
    n = v.writer.value(f"fptosi {v.floats} {size} to {v.integers}")
    whole = v.compare("oeq", v.from_whole(n), size)
    last = v.compare_integers("ne", v.whole("and", n, v.integer(1)), v.integer(0))
    truth = v.floats.replace("float", "i1")
    return whole, v.writer.value(f"and {truth} {whole}, {last}")


LOGARITHMS: Mapping[UnaryFn, Callable[..., str]] = {
    UnaryFn.LOG: log,
    UnaryFn.SOFTPLUS: softplus,
}
