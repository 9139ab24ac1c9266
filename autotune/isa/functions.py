"""Codes inside of instructions: what is computed on elements, and when.

An element-wise function is one row, held by its code: C header, manual, cost tables, lowering, reference
semantics and pattern recognition read it there.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, IntEnum, auto
from typing import Any, Self

import numpy as np
import numpy.typing as npt

Values = npt.NDArray[Any]
"""Numbers of one floating-point type."""
Bounds = tuple[float, float]


class CostClass(Enum):
    """Cost of one element on the vector unit; the spec has the cycles."""

    SIMPLE = auto()
    DIVIDE = auto()
    TRANSCENDENTAL = auto()


class Origin(Enum):
    """Source of a function's machine code on CPUs."""

    EXPRESSION = auto()
    """One or a few instructions; C compilers vectorise the row's C expression."""
    POLYNOMIAL = auto()
    """A polynomial of ``targets/native/codegen/maths``, for both engines where C has no expression."""
    LIBRARY = auto()
    """A call of the C library per element: no vector code exists, and compiled kernels run it."""


ANY: Bounds = (-math.inf, math.inf)
UNIT: Bounds = (-1.0, 1.0)
SHARE: Bounds = (0.0, 1.0)
POSITIVE: Bounds = (0.0, math.inf)


@dataclass(frozen=True, slots=True)
class FunctionRow:
    """One element-wise function.

    ``formula`` is the manual's text, in x, p0 and p1, or in l and r. ``reference`` takes arrays and then
    ``parameters``, and returns their type. ``operations`` are scalar operations per element, where a
    transcendental counts 8 and a division 4. Results lie within ``bounds``, NaN aside. ``c`` is the C
    expression in x, p0 and p1, or in x and y; only a unary polynomial has none. ``cpu_cycles`` are
    measured on Zen 3 in a first-level cache, beside those of a pass: per vector of 8 floats of a
    polynomial, per element of a library's function.
    """

    formula: str
    reference: Callable[..., Values]
    operations: int
    c: str | None = None
    cost: CostClass = CostClass.SIMPLE
    origin: Origin = Origin.EXPRESSION
    cpu_cycles: float = 0.0
    bounds: Bounds = ANY
    parameters: tuple[str, ...] = ()
    """Names of p0 and p1, as operators spell them."""

    def __post_init__(self) -> None:
        assert self.cost is CostClass.TRANSCENDENTAL or self.origin is not Origin.POLYNOMIAL
        assert self.c is not None or self.origin is Origin.POLYNOMIAL

    @property
    def is_generated(self) -> bool:
        """True where the native target generates code, so that vector runs may hold the function."""
        return self.origin is not Origin.LIBRARY


def _simple(
    formula: str, reference: Callable[..., Values], c: str, operations: int = 1,
    bounds: Bounds = ANY, parameters: tuple[str, ...] = (),
) -> FunctionRow:  # fmt: skip
    return FunctionRow(formula, reference, operations, c, bounds=bounds, parameters=parameters)


def _division(
    formula: str, reference: Callable[..., Values], c: str, bounds: Bounds = ANY
) -> FunctionRow:
    return FunctionRow(formula, reference, 4, c, CostClass.DIVIDE, bounds=bounds)


def _polynomial(
    formula: str, reference: Callable[..., Values], operations: int, cpu_cycles: float,
    bounds: Bounds, c: str | None = None, parameters: tuple[str, ...] = (),
) -> FunctionRow:  # fmt: skip
    return FunctionRow(
        formula, reference, operations, c, CostClass.TRANSCENDENTAL, Origin.POLYNOMIAL, cpu_cycles,
        bounds, parameters,
    )  # fmt: skip


def _library(
    formula: str, reference: Callable[..., Values], c: str, cpu_cycles: float, bounds: Bounds = ANY
) -> FunctionRow:
    return FunctionRow(
        formula, reference, 8, c, CostClass.TRANSCENDENTAL, Origin.LIBRARY, cpu_cycles, bounds
    )


def _remainder(
    formula: str, reference: Callable[..., Values], c: str, cpu_cycles: float
) -> FunctionRow:
    return FunctionRow(formula, reference, 4, c, CostClass.DIVIDE, Origin.LIBRARY, cpu_cycles)


def _truth(formula: str, reference: Callable[..., Values], c: str) -> FunctionRow:
    """A comparison: 1 or 0 as floats."""
    number = lambda x, y: np.where(reference(x, y), x.dtype.type(1), x.dtype.type(0))  # noqa: E731
    return _simple(formula, number, f"{c} ? 1.0f : 0.0f", bounds=SHARE)


def _erf(x: Values) -> Values:
    """erf(x). Pattern recognition asks for a few float64 numbers: importing SciPy takes longer."""
    if x.dtype == np.float64:
        return np.array([math.erf(v) for v in x.ravel()]).reshape(x.shape)
    from scipy import special

    return np.asarray(special.erf(x))


def _gelu(x: Values) -> Values:
    """x · Φ(x) (Hendrycks & Gimpel 2016, arXiv:1606.08415)."""
    return np.asarray(0.5 * x * (1 + _erf(x * (1 / math.sqrt(2)))))


def _gelu_tanh(x: Values) -> Values:
    """The tanh approximation of the same paper."""
    inner = math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x)
    return np.asarray(0.5 * x * (1 + np.tanh(inner)))


def _elu(x: Values, alpha: float, scale: float) -> Values:
    """Clevert et al. 2015 (arXiv:1511.07289), with a scale as in SELU (arXiv:1706.02515)."""
    return np.where(x < 0, alpha * np.expm1(np.minimum(x, 0)), scale * x)


def _bf16(x: Values) -> Values:
    """The nearest number whose float32 form has 16 zero bits behind, ties to even; NaN stays."""
    bits = np.asarray(x, np.float32).view(np.uint32)
    rounded = (bits + ((bits >> 16) & 1) + np.uint32(0x7FFF)) & np.uint32(0xFFFF0000)
    return np.where(np.isnan(x), x, rounded.view(np.float32).astype(x.dtype))


def _fp16(x: Values) -> Values:
    """The nearest number of IEEE 754 binary16, ties to even; beyond 65,504 infinity; NaN stays."""
    with np.errstate(over="ignore"):
        near = np.asarray(x, np.float32).astype(np.float16).astype(x.dtype)
    return np.where(np.isnan(x), x, near)


def _softplus(x: Values) -> Values:
    return np.asarray(np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x))))


def _chosen(where: Values, x: Values) -> Values:
    return np.where(where, x, x.dtype.type(-0.0))


class ElementwiseFn(IntEnum):
    """A function's code, which holds its row."""

    row: FunctionRow

    def __new__(cls, code: int, row: FunctionRow | None = None) -> Self:
        """Make a member; a look-up by code never comes here."""
        assert row is not None
        member = int.__new__(cls, code)
        member._value_ = code
        member.row = row
        return member


class UnaryFn(ElementwiseFn):
    """Element-wise functions of one operand; ``p0`` and ``p1`` are the instruction's scalars."""

    COPY = 0, _simple("x", lambda x: x, "x")
    RELU = 1, _simple("max(x, 0)", lambda x: np.maximum(x, 0), "x < 0.0f ? 0.0f : x")
    LEAKY_RELU = 2, _simple(
        "x where x ≥ 0, else p0 · x", lambda x, alpha: np.where(x < 0, x * alpha, x),
        "x < 0.0f ? p0 * x : x", 2, parameters=("alpha",),
    )  # fmt: skip
    # the upper limit wins where the limits cross, as ONNX says
    CLIP = 3, _simple(
        "min(max(x, p0), p1)", lambda x, low, high: np.minimum(np.maximum(x, low), high),
        "clipped(x, p0, p1)", 2, parameters=("min", "max"),
    )  # fmt: skip
    SIGMOID = 4, _polynomial("1 / (1 + exp(−x))", lambda x: 1 / (1 + np.exp(-x)), 8, 11.0, SHARE)
    TANH = 5, _polynomial("tanh(x)", np.tanh, 8, 13.5, UNIT)
    ERF = 6, _polynomial("erf(x)", _erf, 8, 24.5, UNIT)
    GELU = 7, _polynomial("x/2 · (1 + erf(x/√2))", _gelu, 10, 29.5, ANY)
    GELU_TANH = (
        8,
        _polynomial("x/2 · (1 + tanh(√(2/π) · (x + 0.044715 x³)))", _gelu_tanh, 12, 26.0, ANY),
    )
    EXP = 9, _polynomial("exp(x)", np.exp, 8, 8.6, POSITIVE)
    LOG = 10, _polynomial("ln(x)", np.log, 8, 15.5, ANY)
    SQRT = 11, _division("√x", np.sqrt, "sqrtf(x)", POSITIVE)
    RSQRT = 12, _division("1/√x", lambda x: 1 / np.sqrt(x), "1.0f / sqrtf(x)", POSITIVE)
    RECIPROCAL = 13, _division("1/x", lambda x: 1 / x, "1.0f / x")
    NEG = 14, _simple("−x", np.negative, "-x")
    ABS = 15, _simple("absolute value of x", np.abs, "fabsf(x)", bounds=POSITIVE)
    SQUARE = 16, _simple("x²", np.square, "x * x", bounds=POSITIVE)
    AFFINE = 17, _simple(
        "p0 · x + p1", lambda x, factor, offset: factor * x + offset, "p0 * x + p1", 2,
        parameters=("factor", "offset"),
    )  # fmt: skip
    FLOOR = 18, _simple("largest whole number ≤ x", np.floor, "floorf(x)")
    CEIL = 19, _simple("smallest whole number ≥ x", np.ceil, "ceilf(x)")
    ROUND = 20, _simple("nearest whole number, ties to even", np.rint, "rintf(x)")
    TRUNC = 21, _simple("x without its fraction", np.trunc, "truncf(x)")
    SIGN = 22, _simple(
        "−1, x or 1 as x is below, at or above 0", np.sign,
        "x > 0.0f ? 1.0f : x < 0.0f ? -1.0f : x", 2, UNIT,
    )  # fmt: skip
    ELU = 23, _polynomial(
        "p1 · x where x ≥ 0, else p0 · (exp(x) − 1)", _elu, 10, 11.0, ANY,
        parameters=("alpha", "scale"),
    )  # fmt: skip
    SOFTPLUS = 24, _polynomial("ln(1 + exp(x))", _softplus, 16, 22.5, POSITIVE)
    SIN = 25, _library("sin(x)", np.sin, "sinf(x)", 9.6, UNIT)
    COS = 26, _library("cos(x)", np.cos, "cosf(x)", 9.3, UNIT)
    TAN = 27, _library("tan(x)", np.tan, "tanf(x)", 52.0)
    ASIN = 28, _library("arcsin(x)", np.arcsin, "asinf(x)", 18.0)
    ACOS = 29, _library("arccos(x)", np.arccos, "acosf(x)", 18.0)
    ATAN = 30, _library("arctan(x)", np.arctan, "atanf(x)", 19.0)
    SINH = 31, _library("sinh(x)", np.sinh, "sinhf(x)", 48.0)
    COSH = 32, _library("cosh(x)", np.cosh, "coshf(x)", 25.0)
    ASINH = 33, _library("arsinh(x)", np.arcsinh, "asinhf(x)", 43.0)
    ACOSH = 34, _library("arcosh(x)", np.arccosh, "acoshf(x)", 22.0)
    ATANH = 35, _library("artanh(x)", np.arctanh, "atanhf(x)", 36.0)
    BF16 = 36, _simple("nearest number of BF16, ties to even", _bf16, "near_bf16(x)")
    FP16 = 37, _simple("nearest number of FP16, ties to even", _fp16, "near_fp16(x)", 2)


class BinaryFn(ElementwiseFn):
    """Element-wise functions of two operands."""

    ADD = 0, _simple("l + r", np.add, "x + y")
    SUB = 1, _simple("l − r", np.subtract, "x - y")
    MUL = 2, _simple("l · r", np.multiply, "x * y")
    DIV = 3, _division("l / r", np.divide, "x / y")
    MAXIMUM = 4, _simple("max(l, r)", np.maximum, "larger(x, y)")
    MINIMUM = 5, _simple("min(l, r)", np.minimum, "smaller(x, y)")
    POW = 6, _polynomial("l to the power of r", np.power, 16, 56.5, ANY, "powf(x, y)")
    EQUAL = 7, _truth("1 where l = r, else 0; with a NaN 0", np.equal, "x == y")
    LESS = 8, _truth("1 where l < r, else 0", np.less, "x < y")
    LESS_EQUAL = 9, _truth("1 where l ≤ r, else 0", np.less_equal, "x <= y")
    MOD = 10, _remainder("l − r · ⌊l / r⌋, with r's sign", np.mod, "modulo(x, y)", 12.7)
    FMOD = 11, _remainder("l − r · trunc(l / r), with l's sign", np.fmod, "fmodf(x, y)", 11.6)
    # two that are added up choose between operands: -0 changes nothing, not even another -0
    KEEP_IF = (
        12,
        _simple("l where r ≠ 0, else −0", lambda x, y: _chosen(y != 0, x), "y != 0.0f ? x : -0.0f"),
    )
    KEEP_UNLESS = 13, _simple(
        "l where r = 0, else −0; with KEEP_IF's added, a choice of two",
        lambda x, y: _chosen(y == 0, x), "y != 0.0f ? -0.0f : x",
    )  # fmt: skip
    PRELU = (
        14,
        _simple(
            "l where l ≥ 0, else r · l",
            lambda x, y: np.where(x < 0, x * y, x),
            "x < 0.0f ? x * y : x",
            2,
        ),
    )


class ReduceFn(IntEnum):
    """Reductions; dimensions whose destination stride is 0 are reduced over."""

    SUM = 0
    MAX = 1
    MIN = 2
    PROD = 3


class StageKind(IntEnum):
    """What a stage of a CHAIN does with the value x that runs through it."""

    NONE = 0  # x
    UNARY = 1  # fn(x), a UnaryFn
    WITH0 = 2  # fn(x, side0), a BinaryFn
    WITH1 = 3  # fn(x, side1)
    FROM0 = 4  # fn(side0, x)
    FROM1 = 5  # fn(side1, x)


class Transform(IntEnum):
    """Matrices of Winograd's convolutions F(4×4, 3×3) and F(2×2, 3×3) (Lavin and Gray,
    arXiv:1509.09308)."""

    F4_INPUT = 0  # 6×6
    F4_OUTPUT = 1  # 4×6
    F2_INPUT = 2  # 4×4
    F2_OUTPUT = 3  # 2×4


NEAR, FAR = 0.75, 1.5
"""The finite points of F(4×4, 3×3) besides 0, with both signs: operators/winograd.py says why, and has the weights'
matrix of the same points."""


class When(IntEnum):
    """When an optional part of a MATMUL or ONLINE applies."""

    NEVER = 0
    ALWAYS = 1
    BY_LEVEL = 2  # accumulate: index[k_level] != 0; epilogue: last trip of k_level
