"""Vector maths: functions of the vector unit on one register of floats; no library is called.

Functions of the C library (``Origin.LIBRARY``) have no code here: the compiled kernels compute them.

exp, log and rsqrt are within 2 ulp of the exact value, the rest within 4, over the whole range of
fp32 with its special values. Subnormal arguments count in full; exp and its like give 0 where their
result would be subnormal (exponential.EXP_LOW).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from autotune.isa.functions import BinaryFn, UnaryFn
from autotune.targets.native.codegen.maths.error_function import ERROR_FUNCTIONS
from autotune.targets.native.codegen.maths.exponential import EXPONENTIALS
from autotune.targets.native.codegen.maths.logarithm import INFINITY, LOGARITHMS, power
from autotune.targets.native.codegen.maths.rounding import ROUNDINGS
from autotune.targets.native.codegen.writing.vector_builder import VectorBuilder

UnaryCode = Callable[..., str]
"""Takes lanes, a register and the parameters of the function's row."""
BinaryCode = Callable[[VectorBuilder, str, str], str]


def unary(v: VectorBuilder, fn: UnaryFn, x: str, p0: float = 0.0, p1: float = 0.0) -> str:
    """Write fn(x) with its scalars, lane by lane."""
    return UNARY[fn](v, x, *(p0, p1)[: len(fn.row.parameters)])


def binary(v: VectorBuilder, fn: BinaryFn, x: str, y: str) -> str:
    """fn(x, y), lane by lane."""
    return BINARY[fn](v, x, y)


def power_of(v: VectorBuilder, x: str, exponent: float) -> str:
    """x to the power of a known number: the same values as POW, sooner for the usual ones."""
    match exponent:
        case 0.0:
            return v.constant(1.0)
        case 1.0:
            return x
        case 2.0:
            return v.mul(x, x)
        case 3.0:
            return v.mul(v.mul(x, x), x)
        case -1.0:
            return _inverse(v, x)
        case 0.5:
            # unlike the root, the power of -0 is 0 and that of -inf is inf
            root = v.add(v.sqrt(x), v.constant(0.0))
            below = v.compare("oeq", x, v.constant(-INFINITY))
            return v.select(below, v.constant(INFINITY), root)
        case _:
            return power(v, x, v.constant(exponent))


def maximum(v: VectorBuilder, x: str, y: str) -> str:
    """max(x, y); NaN if either is."""
    return v.select(v.compare("uno", y, y), y, v.select(v.compare("olt", x, y), y, x))


def minimum(v: VectorBuilder, x: str, y: str) -> str:
    """min(x, y); NaN if either is."""
    return v.select(v.compare("uno", y, y), y, v.select(v.compare("ogt", x, y), y, x))


def _leaky(v: VectorBuilder, x: str, slope: float) -> str:
    below = v.compare("olt", x, v.constant(0.0))
    return v.select(below, v.mul(x, v.constant(slope)), x)


def _clip(v: VectorBuilder, x: str, low: float, high: float) -> str:
    return v.at_most(v.at_least(x, v.constant(low)), v.constant(high))


def _inverse(v: VectorBuilder, x: str) -> str:
    return v.div(v.constant(1.0), x)


def _truth(how: str) -> BinaryCode:
    """1 or 0: whether a comparison holds."""
    return lambda v, x, y: v.select(v.compare(how, x, y), v.constant(1.0), v.constant(0.0))


def _prelu(v: VectorBuilder, x: str, slope: str) -> str:
    return v.select(v.compare("olt", x, v.constant(0.0)), v.mul(x, slope), x)


def _keep_if(v: VectorBuilder, x: str, y: str) -> str:
    return v.select(v.compare("une", y, v.constant(0.0)), x, v.constant(-0.0))


def _keep_unless(v: VectorBuilder, x: str, y: str) -> str:
    return v.select(v.compare("oeq", y, v.constant(0.0)), x, v.constant(-0.0))


UNARY: Mapping[UnaryFn, UnaryCode] = MappingProxyType(
    {
        **EXPONENTIALS,
        **LOGARITHMS,
        **ERROR_FUNCTIONS,
        **ROUNDINGS,
        UnaryFn.COPY: lambda v, x: x,
        UnaryFn.RELU: lambda v, x: v.at_least(x, v.constant(0.0)),
        UnaryFn.LEAKY_RELU: _leaky,
        UnaryFn.CLIP: _clip,
        UnaryFn.SQRT: VectorBuilder.sqrt,
        UnaryFn.RSQRT: lambda v, x: _inverse(v, v.sqrt(x)),
        UnaryFn.RECIPROCAL: _inverse,
        UnaryFn.NEG: VectorBuilder.neg,
        UnaryFn.ABS: VectorBuilder.abs,
        UnaryFn.SQUARE: lambda v, x: v.mul(x, x),
        UnaryFn.AFFINE: lambda v, x, p0, p1: v.fma(x, v.constant(p0), v.constant(p1)),
    }
)

BINARY: Mapping[BinaryFn, BinaryCode] = MappingProxyType(
    {
        BinaryFn.ADD: VectorBuilder.add,
        BinaryFn.SUB: VectorBuilder.sub,
        BinaryFn.MUL: VectorBuilder.mul,
        BinaryFn.DIV: VectorBuilder.div,
        BinaryFn.MAXIMUM: maximum,
        BinaryFn.MINIMUM: minimum,
        BinaryFn.POW: power,
        BinaryFn.EQUAL: _truth("oeq"),
        BinaryFn.LESS: _truth("olt"),
        BinaryFn.LESS_EQUAL: _truth("ole"),
        BinaryFn.KEEP_IF: _keep_if,
        BinaryFn.KEEP_UNLESS: _keep_unless,
        BinaryFn.PRELU: _prelu,
    }
)
