"""erf and GELU; part of vector maths (maths.py). All coefficients minimax, by linear programming."""

from __future__ import annotations

from autotune.targets.native.codegen.exponential import lowered, raised_exp, small_exp
from autotune.targets.native.codegen.lanes import Lanes

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
TAIL_POLE = 0.265625
TAIL = (
    0.10598756,
    0.10555711,
    0.10242578,
    0.062415864,
    0.13274299,
    -0.10845368,
    0.21018863,
    -0.14132363,
    0.030459369,
)
"""½ erfc(t/√2) · exp(t²/2) / v with v = 1/(1 + TAIL_POLE · t), over 0 ≤ t ≤ 15, 1.5e-8."""
TAIL_LIMIT = 14.9
"""GELU is −0 below its negative."""


def erf(v: Lanes, x: str) -> str:
    """x + x·P(x²) up to 1, 1 − exp(−t·F(t)) above."""
    size = v.abs(x)
    near = v.fma(x, v.horner(NEAR_ZERO, v.mul(x, x)), x)
    t = v.at_most(size, v.constant(ERF_LIMIT))
    fall = v.mul(v.neg(t), v.horner(FALL, t))
    far = v.copysign(v.sub(v.constant(1.0), small_exp(v, fall)), x)
    return v.select(v.compare("olt", size, v.constant(1.0)), near, far)


def gelu(v: Lanes, x: str) -> str:
    """x·Φ(x) by the tail Φ(−|x|), so that small results keep their digits: x times the tail for
    negative x, x minus that for others."""
    t = v.at_most(v.abs(x), v.constant(TAIL_LIMIT))
    square, square_low = v.exact_product(t, t)
    half = v.constant(-0.5)
    raised = raised_exp(v, v.mul(square, half), v.mul(square_low, half))
    one = v.constant(1.0)
    near = v.div(one, v.fma(t, v.constant(TAIL_POLE), one))
    tail = v.mul(v.mul(v.horner(TAIL, near), near), raised)
    lost = lowered(v, v.mul(t, tail))
    return v.select(v.negative(x), v.neg(lost), v.sub(x, lost))
