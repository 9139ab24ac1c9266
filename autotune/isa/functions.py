"""Codes inside of instructions: what is computed on elements, and when."""

from __future__ import annotations

from enum import IntEnum


class UnaryFn(IntEnum):
    """Element-wise functions of one operand; ``p0`` and ``p1`` are the instruction's scalars."""

    COPY = 0
    RELU = 1
    LEAKY_RELU = 2  # slope p0
    CLIP = 3  # to [p0, p1]
    SIGMOID = 4
    TANH = 5
    ERF = 6
    GELU = 7  # x/2 · (1 + erf(x/√2))
    GELU_TANH = 8
    EXP = 9
    LOG = 10
    SQRT = 11
    RSQRT = 12
    RECIPROCAL = 13
    NEG = 14
    ABS = 15
    SQUARE = 16
    AFFINE = 17  # p0 · x + p1
    FLOOR = 18
    CEIL = 19
    ROUND = 20  # ties to even
    TRUNC = 21
    SIGN = 22
    ELU = 23  # p1 · x where x ≥ 0, else p0 · (exp(x) − 1)
    SOFTPLUS = 24  # ln(1 + exp(x))
    SIN = 25
    COS = 26
    TAN = 27
    ASIN = 28
    ACOS = 29
    ATAN = 30
    SINH = 31
    COSH = 32
    ASINH = 33
    ACOSH = 34
    ATANH = 35


class BinaryFn(IntEnum):
    """Element-wise functions of two operands."""

    ADD = 0
    SUB = 1
    MUL = 2
    DIV = 3
    MAXIMUM = 4
    MINIMUM = 5
    POW = 6
    EQUAL = 7  # comparisons give 1 or 0; with a NaN 0
    LESS = 8
    LESS_EQUAL = 9
    MOD = 10  # the remainder with the divisor's sign
    FMOD = 11  # the remainder with the dividend's sign
    KEEP_IF = 12  # l where r ≠ 0, else −0
    KEEP_UNLESS = 13  # l where r = 0, else −0: with KEEP_IF's added, a choice between two operands


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
