"""Rounding to whole numbers, to BF16 and FP16, and the sign; part of vector maths (maths.py)."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from autotune.isa.functions import UnaryFn
from autotune.targets.native.codegen.writing.vector_builder import VectorBuilder

WHOLE = 2.0**23
"""From here on every float is a whole number; adding it rounds a smaller one to nearest."""


def nearest(v: VectorBuilder, x: str) -> str:
    """To the nearest whole number, ties to even."""
    if v.isa.rounds:
        return v.rounded("roundeven", x)
    size = v.abs(x)
    whole = v.sub(v.add(size, v.constant(WHOLE)), v.constant(WHOLE))
    return v.select(v.compare("olt", size, v.constant(WHOLE)), v.copysign(whole, x), x)


def floor(v: VectorBuilder, x: str) -> str:
    """The largest whole number that is not above."""
    if v.isa.rounds:
        return v.rounded("floor", x)
    whole = nearest(v, x)
    below = v.sub(whole, v.constant(1.0))
    return v.copysign(v.select(v.compare("ogt", whole, x), below, whole), x)


def ceil(v: VectorBuilder, x: str) -> str:
    """The smallest whole number that is not below; -0 between -1 and 0."""
    return v.rounded("ceil", x) if v.isa.rounds else v.neg(floor(v, v.neg(x)))


def trunc(v: VectorBuilder, x: str) -> str:
    """Towards zero."""
    return v.rounded("trunc", x) if v.isa.rounds else v.copysign(floor(v, v.abs(x)), x)


def sign(v: VectorBuilder, x: str) -> str:
    """-1 or 1; zeros and NaN stay."""
    zero = v.constant(0.0)
    rest = v.select(v.compare("olt", x, zero), v.constant(-1.0), x)
    return v.select(v.compare("ogt", x, zero), v.constant(1.0), rest)


ROUNDINGS: Mapping[UnaryFn, Callable[..., str]] = {
    UnaryFn.FLOOR: floor,
    UnaryFn.CEIL: ceil,
    UnaryFn.ROUND: nearest,
    UnaryFn.TRUNC: trunc,
    UnaryFn.SIGN: sign,
    UnaryFn.BF16: VectorBuilder.near_bf16,
    UnaryFn.FP16: VectorBuilder.near_fp16,
}
