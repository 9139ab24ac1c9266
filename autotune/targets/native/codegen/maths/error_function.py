"""erf and GELU; part of vector maths (maths.py). All coefficients minimax, by linear programming."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from autotune.isa.functions import UnaryFn
from autotune.targets.native.codegen.maths.exponential import scaled_exp, small_exp
from autotune.targets.native.codegen.writing.vector_builder import VectorBuilder

NEAR_ZERO = (
    0.12837917,
    -0.37612626,
    0.11283579,
    -0.026853347,
    0.005187162,
    -0.00079978531,
    7.8069039e-05,
)
"""erf(x)/x − 1 over x² ≤ 1, 1.4e-9."""
FALL = (1.1284801, 0.63583136, 0.10511629, -0.022798559, 0.0031869765, -0.00021064688)
"""−ln(1 − erf(x)) / x over 1 ≤ x ≤ 4, 2.5e-9 of erf."""
ERF_LIMIT = 4.0
"""erf is 1 above."""
TAIL_SLOPE = 1.2533141374588013
"""√(π/2): ½ erfc(t/√2) · exp(t²/2) · (1 + TAIL_SLOPE · t) is ½ at 0 and far away, 0.59 at most."""
TAIL_UPPER = (0.0, 0.227715015, 0.146554962, 0.0428673066, 0.00569501799)
TAIL_LOWER = (1.0, 1.74147201, 1.30805588, 0.53960973, 0.125298768, 0.0142762577)
"""What it is above ½, as a quotient, over 0 ≤ t ≤ 15, 1e-8: so small that its error hardly counts."""
TAIL_LIMIT = 13.27
"""GELU is −0 below its negative: it would be subnormal."""


def erf(v: VectorBuilder, x: str) -> str:
    """x + x·P(x²) up to 1, 1 − exp(−t·F(t)) above."""
    size = v.abs(x)
    near = v.fma(x, v.horner(NEAR_ZERO, v.mul(x, x)), x)
    t = v.at_most(size, v.constant(ERF_LIMIT))
    fall = v.mul(v.neg(t), v.horner(FALL, t))
    far = v.copysign(v.sub(v.constant(1.0), small_exp(v, fall)), x)
    return v.select(v.compare("olt", size, v.constant(1.0)), near, far)


def gelu(v: VectorBuilder, x: str) -> str:
    """x·Φ(x) by the tail Φ(−|x|), so that small results keep their digits: x times the tail for
    negative x, x minus that for others."""
    t = v.at_most(v.abs(x), v.constant(TAIL_LIMIT))
    square, square_low = v.exact_product(t, t)
    half = v.constant(-0.5)
    above = v.div(v.horner(TAIL_UPPER, t), v.horner(TAIL_LOWER, t))
    slope = v.fma(t, v.constant(TAIL_SLOPE), v.constant(1.0))
    tail = v.mul(t, v.div(v.add(above, v.constant(0.5)), slope))
    exponent, low = v.mul(square, half), v.mul(square_low, half)
    lost = scaled_exp(v, exponent, low, tail)
    return v.select(v.negative(x), v.neg(lost), v.sub(x, lost))


ERROR_FUNCTIONS: Mapping[UnaryFn, Callable[..., str]] = {
    UnaryFn.ERF: erf,
    UnaryFn.GELU: gelu,
}
