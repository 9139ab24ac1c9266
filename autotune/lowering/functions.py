"""Functions of the vector unit that operators are: what lowering writes into their instructions."""

from __future__ import annotations

from autotune.isa.functions import BinaryFn, ReduceFn, UnaryFn
from autotune.operators.op import Op, OpKind

UNARY_FNS: dict[OpKind, UnaryFn] = {
    OpKind.RELU: UnaryFn.RELU,
    OpKind.LEAKY_RELU: UnaryFn.LEAKY_RELU,
    OpKind.CLIP: UnaryFn.CLIP,
    OpKind.SIGMOID: UnaryFn.SIGMOID,
    OpKind.TANH: UnaryFn.TANH,
    OpKind.ERF: UnaryFn.ERF,
    OpKind.GELU: UnaryFn.GELU,
    OpKind.GELU_TANH: UnaryFn.GELU_TANH,
    OpKind.EXP: UnaryFn.EXP,
    OpKind.LOG: UnaryFn.LOG,
    OpKind.SQRT: UnaryFn.SQRT,
    OpKind.RECIPROCAL: UnaryFn.RECIPROCAL,
    OpKind.NEG: UnaryFn.NEG,
    OpKind.ABS: UnaryFn.ABS,
    OpKind.FLOOR: UnaryFn.FLOOR,
    OpKind.CEIL: UnaryFn.CEIL,
    OpKind.ROUND: UnaryFn.ROUND,
    OpKind.TRUNC: UnaryFn.TRUNC,
    OpKind.SIGN: UnaryFn.SIGN,
    OpKind.ELU: UnaryFn.ELU,
    OpKind.SOFTPLUS: UnaryFn.SOFTPLUS,
    OpKind.SIN: UnaryFn.SIN,
    OpKind.COS: UnaryFn.COS,
    OpKind.TAN: UnaryFn.TAN,
    OpKind.ASIN: UnaryFn.ASIN,
    OpKind.ACOS: UnaryFn.ACOS,
    OpKind.ATAN: UnaryFn.ATAN,
    OpKind.SINH: UnaryFn.SINH,
    OpKind.COSH: UnaryFn.COSH,
    OpKind.ASINH: UnaryFn.ASINH,
    OpKind.ACOSH: UnaryFn.ACOSH,
    OpKind.ATANH: UnaryFn.ATANH,
}
BINARY_FNS: dict[OpKind, BinaryFn] = {
    OpKind.ADD: BinaryFn.ADD,
    OpKind.SUB: BinaryFn.SUB,
    OpKind.MUL: BinaryFn.MUL,
    OpKind.DIV: BinaryFn.DIV,
    OpKind.MAXIMUM: BinaryFn.MAXIMUM,
    OpKind.MINIMUM: BinaryFn.MINIMUM,
    OpKind.POW: BinaryFn.POW,
    OpKind.EQUAL: BinaryFn.EQUAL,
    OpKind.LESS: BinaryFn.LESS,
    OpKind.LESS_EQUAL: BinaryFn.LESS_EQUAL,
    OpKind.MOD: BinaryFn.MOD,
    OpKind.FMOD: BinaryFn.FMOD,
    OpKind.KEEP_IF: BinaryFn.KEEP_IF,
    OpKind.KEEP_UNLESS: BinaryFn.KEEP_UNLESS,
}
REDUCE_FNS: dict[OpKind, ReduceFn] = {
    OpKind.MAX_POOL: ReduceFn.MAX,
    OpKind.AVERAGE_POOL: ReduceFn.SUM,
    OpKind.SLIDING_SUM: ReduceFn.SUM,
    OpKind.REDUCE_MAX: ReduceFn.MAX,
    OpKind.REDUCE_MIN: ReduceFn.MIN,
    OpKind.REDUCE_PROD: ReduceFn.PROD,
    OpKind.REDUCE_SUM: ReduceFn.SUM,
    OpKind.REDUCE_MEAN: ReduceFn.SUM,
}


def scalars(op: Op) -> tuple[float, float]:
    """The two scalars of an element-wise operator's function."""
    match op.kind:
        case OpKind.LEAKY_RELU:
            return op.float("alpha"), 0.0
        case OpKind.CLIP:
            return op.float("min"), op.float("max")
        case OpKind.ELU:
            return op.float("alpha"), op.float("scale")
        case _:
            return 0.0, 0.0
