"""Operator kinds, as one table, and the operator node itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from autotune.errors import ModelError
from autotune.operators.axes import CHANNELS_FIRST, CHANNELS_LAST, Axes

AttrValue = int | float | tuple[int, ...]
Attrs = tuple[tuple[str, AttrValue], ...]


class Family(StrEnum):
    """What region rule and tile emitter an operator kind follows."""

    CONV = "conv"
    WINOGRAD = "winograd"
    MATMUL = "matmul"
    UNARY = "unary"
    BINARY = "binary"
    POOL = "pool"
    SLIDE = "slide"
    REDUCE = "reduce"
    SOFTMAX = "softmax"
    LAYER_NORM = "layer_norm"
    CONCAT = "concat"
    RESHAPE = "reshape"
    TRANSPOSE = "transpose"
    SLICE = "slice"
    PAD = "pad"
    EXPAND = "expand"
    GATHER = "gather"


class OpKind(StrEnum):
    """The operators the system knows after import; ONNX spellings are mapped onto these."""

    CONV = "conv"
    WINOGRAD_CONV = "winograd_conv"
    MATMUL = "matmul"
    RELU = "relu"
    LEAKY_RELU = "leaky_relu"
    CLIP = "clip"
    SIGMOID = "sigmoid"
    TANH = "tanh"
    ERF = "erf"
    GELU = "gelu"
    GELU_TANH = "gelu_tanh"
    EXP = "exp"
    LOG = "log"
    SQRT = "sqrt"
    RECIPROCAL = "reciprocal"
    NEG = "neg"
    ABS = "abs"
    FLOOR = "floor"
    CEIL = "ceil"
    ROUND = "round"
    TRUNC = "trunc"
    SIGN = "sign"
    ELU = "elu"
    SOFTPLUS = "softplus"
    SIN = "sin"
    COS = "cos"
    TAN = "tan"
    ASIN = "asin"
    ACOS = "acos"
    ATAN = "atan"
    SINH = "sinh"
    COSH = "cosh"
    ASINH = "asinh"
    ACOSH = "acosh"
    ATANH = "atanh"
    ADD = "add"
    SUB = "sub"
    MUL = "mul"
    DIV = "div"
    MAXIMUM = "maximum"
    MINIMUM = "minimum"
    POW = "pow"
    EQUAL = "equal"
    LESS = "less"
    LESS_EQUAL = "less_equal"
    MOD = "mod"
    FMOD = "fmod"
    KEEP_IF = "keep_if"
    KEEP_UNLESS = "keep_unless"
    MAX_POOL = "max_pool"
    AVERAGE_POOL = "average_pool"
    SLIDING_SUM = "sliding_sum"
    REDUCE_MEAN = "reduce_mean"
    REDUCE_SUM = "reduce_sum"
    REDUCE_MAX = "reduce_max"
    REDUCE_MIN = "reduce_min"
    REDUCE_PROD = "reduce_prod"
    SOFTMAX = "softmax"
    LAYER_NORM = "layer_norm"
    RMS_NORM = "rms_norm"
    CONCAT = "concat"
    RESHAPE = "reshape"
    TRANSPOSE = "transpose"
    SLICE = "slice"
    PAD = "pad"
    EXPAND = "expand"
    GATHER = "gather"


@dataclass(frozen=True, slots=True)
class OpRow:
    """One operator kind: its family, number of inputs (min, max) and attributes: the required ones,
    flags (0 or 1) that are left out where they are 0, and ``optional`` ones."""

    kind: OpKind
    family: Family
    arity: tuple[int, int]
    attrs: tuple[str, ...] = ()
    flops_per_element: int = 0
    """Scalar operations per output element, for element-wise kinds (transcendentals count 8)."""
    flags: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()


def _unary(kind: OpKind, flops: int, *attrs: str) -> OpRow:
    return OpRow(kind, Family.UNARY, (1, 1), attrs, flops)


def _binary(kind: OpKind, flops: int = 1) -> OpRow:
    return OpRow(kind, Family.BINARY, (2, 2), (), flops)


_WINDOW = ("kernel", "strides", "pads", "dilations")
_LAID_OUT = ("channels_last",)
_SKIPPED = ("zero_blocks",)
"""What of a constant weight is all zero (operators/block_sparsity.py)."""


def _window(kind: OpKind, family: Family, arity: tuple[int, int], *attrs: str) -> OpRow:
    return OpRow(kind, family, arity, attrs, flags=_LAID_OUT)


OPERATORS: dict[OpKind, OpRow] = {
    row.kind: row
    for row in (
        # x [N,C,H,W], w [M,C/group,KH,KW], optional b [M] -> [N,M,OH,OW]; pads top,left,bottom,right
        # channels_last: x [N,H,W,C], w [KH,KW,C/group,M] -> [N,OH,OW,M]
        OpRow(
            OpKind.CONV,
            Family.CONV,
            (2, 3),
            ("strides", "pads", "dilations", "group"),
            flags=_LAID_OUT,
            optional=_SKIPPED,
        ),
        # x [N,H,W,C], u [36 or 16,C,M], optional b [M] -> [N,OH,OW,M]: 3x3, stride 1, by F(4x4) or F(2x2)
        OpRow(OpKind.WINOGRAD_CONV, Family.WINOGRAD, (2, 3), ("pads",)),
        # numpy.matmul over the last two axes after the optional transposes; batch axes broadcast
        OpRow(OpKind.MATMUL, Family.MATMUL, (2, 2), ("trans_a", "trans_b"), optional=_SKIPPED),
        _unary(OpKind.RELU, 1),
        _unary(OpKind.LEAKY_RELU, 2, "alpha"),
        _unary(OpKind.CLIP, 2, "min", "max"),
        _unary(OpKind.SIGMOID, 8),
        _unary(OpKind.TANH, 8),
        _unary(OpKind.ERF, 8),
        _unary(OpKind.GELU, 10),
        _unary(OpKind.GELU_TANH, 12),
        _unary(OpKind.EXP, 8),
        _unary(OpKind.LOG, 8),
        _unary(OpKind.SQRT, 4),
        _unary(OpKind.RECIPROCAL, 4),
        _unary(OpKind.NEG, 1),
        _unary(OpKind.ABS, 1),
        _unary(OpKind.FLOOR, 1),
        _unary(OpKind.CEIL, 1),
        _unary(OpKind.ROUND, 1),
        _unary(OpKind.TRUNC, 1),
        _unary(OpKind.SIGN, 2),
        # scale * x where x >= 0, else alpha * (exp(x) - 1)
        _unary(OpKind.ELU, 10, "alpha", "scale"),
        _unary(OpKind.SOFTPLUS, 16),
        _unary(OpKind.SIN, 8),
        _unary(OpKind.COS, 8),
        _unary(OpKind.TAN, 8),
        _unary(OpKind.ASIN, 8),
        _unary(OpKind.ACOS, 8),
        _unary(OpKind.ATAN, 8),
        _unary(OpKind.SINH, 8),
        _unary(OpKind.COSH, 8),
        _unary(OpKind.ASINH, 8),
        _unary(OpKind.ACOSH, 8),
        _unary(OpKind.ATANH, 8),
        _binary(OpKind.ADD),
        _binary(OpKind.SUB),
        _binary(OpKind.MUL),
        _binary(OpKind.DIV, 4),
        _binary(OpKind.MAXIMUM),
        _binary(OpKind.MINIMUM),
        _binary(OpKind.POW, 16),
        # comparisons give 1 or 0; with a NaN 0
        _binary(OpKind.EQUAL),
        _binary(OpKind.LESS),
        _binary(OpKind.LESS_EQUAL),
        # the remainder with the sign of the divisor, of the dividend
        _binary(OpKind.MOD, 4),
        _binary(OpKind.FMOD, 4),
        # x where y is not 0 (is 0), elsewhere -0: two of them added choose between two tensors
        _binary(OpKind.KEEP_IF),
        _binary(OpKind.KEEP_UNLESS),
        # x [N,C,H,W], channels_last [N,H,W,C]; count_include_pad 0/1 for the average
        _window(OpKind.MAX_POOL, Family.POOL, (1, 1), *_WINDOW),
        _window(OpKind.AVERAGE_POOL, Family.POOL, (1, 1), *_WINDOW, "count_include_pad"),
        # y[i] = x[i - before] + ... + x[i + after] along a non-negative axis, zeros outside
        OpRow(OpKind.SLIDING_SUM, Family.SLIDE, (1, 1), ("axis", "before", "after")),
        # axes sorted, non-negative; the reduced axes stay with extent 1
        OpRow(OpKind.REDUCE_MEAN, Family.REDUCE, (1, 1), ("axes",)),
        OpRow(OpKind.REDUCE_SUM, Family.REDUCE, (1, 1), ("axes",)),
        OpRow(OpKind.REDUCE_MAX, Family.REDUCE, (1, 1), ("axes",)),
        OpRow(OpKind.REDUCE_MIN, Family.REDUCE, (1, 1), ("axes",)),
        OpRow(OpKind.REDUCE_PROD, Family.REDUCE, (1, 1), ("axes",)),
        # axis non-negative
        OpRow(OpKind.SOFTMAX, Family.SOFTMAX, (1, 1), ("axis",)),
        # normalises axes axis..rank-1; x, scale, optional bias
        OpRow(OpKind.LAYER_NORM, Family.LAYER_NORM, (2, 3), ("axis", "epsilon")),
        # the same without the mean: x / √(mean(x²) + epsilon) · scale
        OpRow(OpKind.RMS_NORM, Family.LAYER_NORM, (2, 2), ("axis", "epsilon")),
        OpRow(OpKind.CONCAT, Family.CONCAT, (1, 64), ("axis",)),
        OpRow(OpKind.RESHAPE, Family.RESHAPE, (1, 1), ("shape",)),
        OpRow(OpKind.TRANSPOSE, Family.TRANSPOSE, (1, 1), ("perm",)),
        # y[i] = x[starts + i · steps], one of each per axis; a step may be negative, never 0
        OpRow(OpKind.SLICE, Family.SLICE, (1, 1), ("starts", "steps", "sizes")),
        # before and after: one per axis, ≥ 0; what is added holds value
        OpRow(OpKind.PAD, Family.PAD, (1, 1), ("before", "after", "value")),
        # axes of extent 1 stretched to shape, which has the operand's rank
        OpRow(OpKind.EXPAND, Family.EXPAND, (1, 1), ("shape",)),
        # table [V,D], numbers [n] -> [n,D]: numbers towards zero, clamped to the table; NaN is row 0
        OpRow(OpKind.GATHER, Family.GATHER, (2, 2)),
    )
}


@dataclass(frozen=True, slots=True)
class Op:
    """One operator: kind, tensor names in order, attributes sorted by name. Always one output."""

    name: str
    kind: OpKind
    inputs: tuple[str, ...]
    output: str
    attrs: Attrs = ()

    def __post_init__(self) -> None:
        row = OPERATORS[self.kind]
        low, high = row.arity
        if not low <= len(self.inputs) <= high:
            raise ModelError(
                f"{self.name}: {self.kind} takes {low} to {high} inputs, got {len(self.inputs)}"
            )
        held = (item for item in self.attrs if item[0] not in row.optional)
        names = tuple(name for name, value in held if name not in row.flags or value != 1)
        if names != tuple(sorted(row.attrs)):
            raise ModelError(
                f"{self.name}: {self.kind} needs attributes {sorted(row.attrs)}, got {list(names)}"
            )

    @classmethod
    def make(
        cls,
        name: str,
        kind: OpKind,
        inputs: tuple[str, ...],
        output: str,
        attrs: Mapping[str, AttrValue] | None = None,
    ) -> Op:
        """Build an operator from an attribute mapping in any order, flags of 0 among them."""
        flags = OPERATORS[kind].flags
        held = sorted((k, v) for k, v in (attrs or {}).items() if k not in flags or v != 0)
        return cls(name, kind, inputs, output, tuple(held))

    @property
    def family(self) -> Family:
        """The family of this operator's kind."""
        return OPERATORS[self.kind].family

    @property
    def axes(self) -> Axes:
        """What the axes of this window operator's images and weight are."""
        last = self.family is Family.WINOGRAD or ("channels_last", 1) in self.attrs
        return CHANNELS_LAST if last else CHANNELS_FIRST

    def attr(self, name: str) -> AttrValue:
        """The value of one attribute; the constructor has proved that it exists."""
        for held, value in self.attrs:
            if held == name:
                return value
        raise KeyError(name)

    def ints(self, name: str) -> tuple[int, ...]:
        """An attribute that holds a tuple of integers."""
        value = self.attr(name)
        assert isinstance(value, tuple)
        return value

    def int(self, name: str) -> int:
        """An attribute that holds one integer."""
        value = self.attr(name)
        assert isinstance(value, int)
        return value

    def float(self, name: str) -> float:
        """An attribute that holds one number."""
        value = self.attr(name)
        assert isinstance(value, (int, float))
        return float(value)
