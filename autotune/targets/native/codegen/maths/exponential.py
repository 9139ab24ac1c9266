"""exp and what is made of it: sigmoid, tanh, ELU, the tanh form of GELU; part of vector maths (maths.py).

x = n·ln 2 + r with |r| ≤ ln 2 / 2; exp(r) is a polynomial and 2^n an exponent. n is rounded by adding
a large number whose last place is 1, which every vector instruction set can.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import log2, pi, sqrt

from autotune.isa.functions import UnaryFn
from autotune.targets.native.codegen.writing.vector_builder import VectorBuilder

ROUNDING = 1.5 * 2**23
LN2_UPPER, LN2_LOWER = 0.693145751953125, 1.4286068203094173e-06
"""ln 2 in two parts; n times the upper one is exact for |n| < 2^8 (Cody and Waite, 1980)."""
EXP = (0.49999994, 0.16666521, 0.041668255, 0.008368663, 0.0013821459)
"""(exp(r) − 1 − r) / r², minimax over |r| ≤ ln 2 / 2, 3e-9 of exp(r); by linear programming."""
SPARE = 64
"""Powers of two put aside, so that 2^n stays finite where the result is not."""
EXP_LOW, EXP_HIGH = -87.33654, 89.0
"""exp is 0 below, where it would be subnormal, and infinite above. A vector operation that makes or takes a
subnormal number costs an Intel core some 150 cycles, and masks of attention lead there (decision 40)."""


def reduced(v: VectorBuilder, x: str, low: str | None = None) -> tuple[str, str]:
    """(n · 2^23 as an integer, r) of x + low; |x| < 2^7."""
    shifted = v.fma(x, v.constant(log2(2.718281828459045)), v.constant(ROUNDING))
    n = v.sub(shifted, v.constant(ROUNDING))
    r = v.fma(n, v.constant(-LN2_UPPER), x)
    r = v.fma(n, v.constant(-LN2_LOWER), r)
    if low is not None:
        r = v.add(r, low)
    # the rounding number's own bits fall out to the left
    return v.whole("shl", v.bits(shifted), v.integer(23)), r


def less_one(v: VectorBuilder, r: str) -> str:
    """exp(r) − 1 for |r| ≤ ln 2 / 2."""
    return v.fma(v.mul(r, r), v.horner(EXP, r), r)


def power_of_two(v: VectorBuilder, exponent: str, spare: int = 0) -> str:
    """2^(n + spare) of n · 2^23; a normal number, or 0 for n + spare = −127."""
    return v.from_bits(v.whole("add", exponent, v.integer((127 + spare) << 23)))


def exp(v: VectorBuilder, x: str) -> str:
    """exp(x), 0 where that is subnormal."""
    low = v.compare("olt", x, v.constant(EXP_LOW))
    exponent, r = reduced(v, v.at_most(x, v.constant(EXP_HIGH)))
    power = v.add(less_one(v, r), v.constant(1.0))
    spare = v.select(v.negative(x), v.constant(1.0), v.constant(2.0**SPARE))
    rest = v.whole("sub", v.integer(254 << 23), v.bits(spare))
    scale = v.from_bits(v.whole("add", exponent, rest))
    return v.select(low, v.constant(0.0), v.mul(v.mul(power, scale), spare))


def falling_exp(v: VectorBuilder, x: str) -> str:
    """exp(x) for x ≤ 0, the same number as :func:`exp`: nothing is too large."""
    low = v.compare("olt", x, v.constant(EXP_LOW))
    return v.select(low, v.constant(0.0), small_exp(v, x))


def scaled_exp(v: VectorBuilder, x: str, low: str, times: str) -> str:
    """times · exp(x + low) for −88.3 ≤ x ≤ 0; 0 for x ≤ −87.7."""
    exponent, r = reduced(v, x, low)
    return v.mul(v.fma(times, less_one(v, r), times), power_of_two(v, exponent))


def small_exp(v: VectorBuilder, x: str) -> str:
    """exp(x) for EXP_LOW ≤ x ≤ 88; NaN of NaN."""
    exponent, r = reduced(v, x)
    return v.mul(v.add(less_one(v, r), v.constant(1.0)), power_of_two(v, exponent))


def sigmoid(v: VectorBuilder, x: str) -> str:
    """1 / (1 + e) or e / (1 + e) with e = exp(−|x|), so that small results keep their digits."""
    e = falling_exp(v, v.neg(v.abs(x)))
    one = v.constant(1.0)
    return v.div(v.select(v.negative(x), e, one), v.add(e, one))


def tanh(v: VectorBuilder, x: str) -> str:
    """m / (m + 2) with m = exp(2|x|) − 1, which is as exact near 0 as elsewhere."""
    size = v.at_most(v.abs(x), v.constant(10.0))
    exponent, r = reduced(v, v.add(size, size))
    scale = power_of_two(v, exponent)
    m = v.fma(less_one(v, r), scale, v.sub(scale, v.constant(1.0)))
    return v.copysign(v.div(m, v.add(m, v.constant(2.0))), x)


ELU_LOW = -30.0
"""exp(x) − 1 is −1 below."""


def elu(v: VectorBuilder, x: str, alpha: float, scale: float) -> str:
    """alpha · (exp(x) − 1) below 0, as exact near 0 as elsewhere; scale · x above."""
    exponent, r = reduced(v, v.at_least(x, v.constant(ELU_LOW)))
    power = power_of_two(v, exponent)
    m = v.fma(less_one(v, r), power, v.sub(power, v.constant(1.0)))
    below = v.compare("olt", x, v.constant(0.0))
    above = x if scale == 1.0 else v.mul(x, v.constant(scale))
    return v.select(below, v.mul(m, v.constant(alpha)), above)


GELU_LINEAR = 2 * sqrt(2 / pi)
GELU_CUBIC = 0.044715 * GELU_LINEAR
GELU_LIMIT = 10.12
"""GELU in its tanh form is −0 below its negative: it would be subnormal."""
GELU_SPARE = 3
"""Powers of two put aside, of which x gives back more where exp(−w) is subnormal."""


def gelu_tanh(v: VectorBuilder, x: str) -> str:
    """x / (1 + exp(−w)) with w = x · (GELU_LINEAR + GELU_CUBIC · x²), in two words: the exponent's
    absolute error is the result's relative one."""
    size = v.at_most(v.abs(x), v.constant(GELU_LIMIT))
    high, low = _steepened(v, size)
    exponent, r = reduced(v, v.neg(high), v.neg(low))
    power = v.add(less_one(v, r), v.constant(1.0))
    raised = v.mul(power, power_of_two(v, exponent, GELU_SPARE))
    back = v.constant(2.0**-GELU_SPARE)
    tail = v.mul(v.mul(v.neg(size), raised), back)
    below = v.fma(raised, back, v.constant(1.0))
    return v.div(v.select(v.negative(x), tail, x), below)


def _steepened(v: VectorBuilder, x: str) -> tuple[str, str]:
    """x · (GELU_LINEAR + GELU_CUBIC · x²) as a sum of two floats."""
    square, square_low = v.exact_product(x, x)
    (cubic, cubic_low), (linear, linear_low) = _two_words(GELU_CUBIC), _two_words(GELU_LINEAR)
    bend, bend_low = v.exact_product(v.constant(cubic), square)
    bend_low = v.fma(v.constant(cubic), square_low, bend_low)
    bend_low = v.fma(v.constant(cubic_low), square, bend_low)
    # the sum of two and what its rounding left out (Knuth)
    slope = v.add(bend, v.constant(linear))
    part = v.sub(slope, bend)
    left = v.add(v.sub(bend, v.sub(slope, part)), v.sub(v.constant(linear), part))
    slope_low = v.add(left, v.add(bend_low, v.constant(linear_low)))
    product, product_low = v.exact_product(x, slope)
    return product, v.fma(x, slope_low, product_low)


def _two_words(value: float) -> tuple[float, float]:
    """A number as a float of 12 significant bits and the rest."""
    scale = 2.0**11 / 2 ** int(log2(value) // 1)
    upper = round(value * scale) / scale
    return upper, value - upper


EXPONENTIALS: Mapping[UnaryFn, Callable[..., str]] = {
    UnaryFn.EXP: exp,
    UnaryFn.SIGMOID: sigmoid,
    UnaryFn.TANH: tanh,
    UnaryFn.ELU: elu,
    UnaryFn.GELU_TANH: gelu_tanh,
}
