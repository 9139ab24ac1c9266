"""Operator kinds, as one table, and the operator node itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from autotune.errors import ModelError
from autotune.isa.formats import Format
from autotune.isa.functions import BinaryFn, ElementwiseFn, ReduceFn, UnaryFn
from autotune.operators.axes import CHANNELS_FIRST, CHANNELS_LAST, Axes

AttrValue = int | float | tuple[int, ...]
Attrs = tuple[tuple[str, AttrValue], ...]


class Family(StrEnum):
    """Families of operators: kinds of one family share its rules and its tile emitter."""

    CONV = "conv"
    WINOGRAD = "winograd"
    MATMUL = "matmul"
    STRASSEN = "strassen"
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
    STRASSEN_MATMUL = "strassen_matmul"
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
    BF16 = "bf16"
    FP16 = "fp16"
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
    PRELU = "prelu"
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
    """Signature of one operator kind: family, number of inputs (min, max) and required attributes.

    ``flags`` are 0 or 1 and left out where they are 0. ``function`` is computed on elements,
    ``reduction`` along axes or windows. ``onnx`` names ONNX's operator of the same operands and
    attributes, but that of a reduction may have other ones; '' where it has none."""

    kind: OpKind
    family: Family
    arity: tuple[int, int]
    attrs: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()
    function: ElementwiseFn | None = None
    reduction: ReduceFn | None = None
    onnx: str = ""


def _unary(kind: OpKind, function: UnaryFn, onnx: str = "") -> OpRow:
    return OpRow(kind, Family.UNARY, (1, 1), function.row.parameters, function=function, onnx=onnx)


def _binary(kind: OpKind, function: BinaryFn, onnx: str = "") -> OpRow:
    return OpRow(kind, Family.BINARY, (2, 2), function=function, onnx=onnx)


_WINDOW = ("kernel", "strides", "pads", "dilations")
_LAID_OUT = ("channels_last",)
_PRODUCT = ("zero_blocks", "a_zero", "b_zero", "bf16")
"""Optional attributes of contractions. ``zero_blocks`` are the all-zero blocks of a constant weight
(operators/block_sparsity.py). ``a_zero`` and ``b_zero`` are the zero points of the first two inputs, which are then
integers of 8 bits: Σ (a − a_zero) · (b − b_zero), exact in int32, padding at a_zero. ``bf16`` is 1 where both are numbers
that BF16 holds, and multiplied as such."""


def _pool(kind: OpKind, reduction: ReduceFn, *attrs: str) -> OpRow:
    attrs = (*_WINDOW, *attrs)
    return OpRow(kind, Family.POOL, (1, 1), attrs, _LAID_OUT, reduction=reduction)


def _reduce(kind: OpKind, reduction: ReduceFn, onnx: str) -> OpRow:
    return OpRow(kind, Family.REDUCE, (1, 1), ("axes",), reduction=reduction, onnx=onnx)


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
            optional=_PRODUCT,
        ),
        # x [N,H,W,C], u [36 or 16,C,M], optional b [M] -> [N,OH,OW,M]: 3x3, stride 1, by F(4x4) or F(2x2)
        OpRow(OpKind.WINOGRAD_CONV, Family.WINOGRAD, (2, 3), ("pads",)),
        # numpy.matmul over the last two axes after the optional transposes; batch axes broadcast
        OpRow(OpKind.MATMUL, Family.MATMUL, (2, 2), ("trans_a", "trans_b"), optional=_PRODUCT),
        # x [..,M,K], u [7,K/2,N/2] -> [..,M,N]: products of halves; N is in blocks of two halves of `block` columns
        OpRow(OpKind.STRASSEN_MATMUL, Family.STRASSEN, (2, 2), ("block",)),
        # element by element, as the rows of isa/functions.py say
        _unary(OpKind.RELU, UnaryFn.RELU, "Relu"),
        _unary(OpKind.LEAKY_RELU, UnaryFn.LEAKY_RELU, "LeakyRelu"),
        _unary(OpKind.CLIP, UnaryFn.CLIP),
        _unary(OpKind.SIGMOID, UnaryFn.SIGMOID, "Sigmoid"),
        _unary(OpKind.TANH, UnaryFn.TANH, "Tanh"),
        _unary(OpKind.ERF, UnaryFn.ERF, "Erf"),
        _unary(OpKind.GELU, UnaryFn.GELU),
        _unary(OpKind.GELU_TANH, UnaryFn.GELU_TANH),
        _unary(OpKind.EXP, UnaryFn.EXP, "Exp"),
        _unary(OpKind.LOG, UnaryFn.LOG, "Log"),
        _unary(OpKind.SQRT, UnaryFn.SQRT, "Sqrt"),
        _unary(OpKind.RECIPROCAL, UnaryFn.RECIPROCAL, "Reciprocal"),
        _unary(OpKind.NEG, UnaryFn.NEG, "Neg"),
        _unary(OpKind.ABS, UnaryFn.ABS, "Abs"),
        _unary(OpKind.FLOOR, UnaryFn.FLOOR, "Floor"),
        _unary(OpKind.CEIL, UnaryFn.CEIL, "Ceil"),
        _unary(OpKind.ROUND, UnaryFn.ROUND, "Round"),
        _unary(OpKind.TRUNC, UnaryFn.TRUNC),
        _unary(OpKind.BF16, UnaryFn.BF16),
        _unary(OpKind.FP16, UnaryFn.FP16),
        _unary(OpKind.SIGN, UnaryFn.SIGN, "Sign"),
        _unary(OpKind.ELU, UnaryFn.ELU),
        _unary(OpKind.SOFTPLUS, UnaryFn.SOFTPLUS, "Softplus"),
        _unary(OpKind.SIN, UnaryFn.SIN, "Sin"),
        _unary(OpKind.COS, UnaryFn.COS, "Cos"),
        _unary(OpKind.TAN, UnaryFn.TAN, "Tan"),
        _unary(OpKind.ASIN, UnaryFn.ASIN, "Asin"),
        _unary(OpKind.ACOS, UnaryFn.ACOS, "Acos"),
        _unary(OpKind.ATAN, UnaryFn.ATAN, "Atan"),
        _unary(OpKind.SINH, UnaryFn.SINH, "Sinh"),
        _unary(OpKind.COSH, UnaryFn.COSH, "Cosh"),
        _unary(OpKind.ASINH, UnaryFn.ASINH, "Asinh"),
        _unary(OpKind.ACOSH, UnaryFn.ACOSH, "Acosh"),
        _unary(OpKind.ATANH, UnaryFn.ATANH, "Atanh"),
        _binary(OpKind.ADD, BinaryFn.ADD, "Add"),
        _binary(OpKind.SUB, BinaryFn.SUB, "Sub"),
        _binary(OpKind.MUL, BinaryFn.MUL, "Mul"),
        _binary(OpKind.DIV, BinaryFn.DIV, "Div"),
        _binary(OpKind.MAXIMUM, BinaryFn.MAXIMUM, "Max"),
        _binary(OpKind.MINIMUM, BinaryFn.MINIMUM, "Min"),
        _binary(OpKind.POW, BinaryFn.POW, "Pow"),
        _binary(OpKind.EQUAL, BinaryFn.EQUAL),
        _binary(OpKind.LESS, BinaryFn.LESS),
        _binary(OpKind.LESS_EQUAL, BinaryFn.LESS_EQUAL),
        _binary(OpKind.MOD, BinaryFn.MOD),
        _binary(OpKind.FMOD, BinaryFn.FMOD),
        _binary(OpKind.KEEP_IF, BinaryFn.KEEP_IF),
        _binary(OpKind.KEEP_UNLESS, BinaryFn.KEEP_UNLESS),
        _binary(OpKind.PRELU, BinaryFn.PRELU),
        # x [N,C,H,W], channels_last [N,H,W,C]; count_include_pad 0/1 for the average
        _pool(OpKind.MAX_POOL, ReduceFn.MAX),
        _pool(OpKind.AVERAGE_POOL, ReduceFn.SUM, "count_include_pad"),
        # y[i] = x[i - before] + ... + x[i + after] along a non-negative axis, zeros outside
        OpRow(
            OpKind.SLIDING_SUM,
            Family.SLIDE,
            (1, 1),
            ("axis", "before", "after"),
            reduction=ReduceFn.SUM,
        ),
        # axes sorted, non-negative; the reduced axes stay with extent 1
        _reduce(OpKind.REDUCE_MEAN, ReduceFn.SUM, "ReduceMean"),
        _reduce(OpKind.REDUCE_SUM, ReduceFn.SUM, "ReduceSum"),
        _reduce(OpKind.REDUCE_MAX, ReduceFn.MAX, "ReduceMax"),
        _reduce(OpKind.REDUCE_MIN, ReduceFn.MIN, "ReduceMin"),
        _reduce(OpKind.REDUCE_PROD, ReduceFn.PROD, "ReduceProd"),
        # axis non-negative
        OpRow(OpKind.SOFTMAX, Family.SOFTMAX, (1, 1), ("axis",), onnx="Softmax"),
        # normalises axes axis..rank-1; x, scale, optional bias
        OpRow(OpKind.LAYER_NORM, Family.LAYER_NORM, (2, 3), ("axis", "epsilon")),
        # the same without the mean: x / √(mean(x²) + epsilon) · scale
        OpRow(OpKind.RMS_NORM, Family.LAYER_NORM, (2, 2), ("axis", "epsilon")),
        OpRow(OpKind.CONCAT, Family.CONCAT, (1, 64), ("axis",), onnx="Concat"),
        OpRow(OpKind.RESHAPE, Family.RESHAPE, (1, 1), ("shape",)),
        OpRow(OpKind.TRANSPOSE, Family.TRANSPOSE, (1, 1), ("perm",), onnx="Transpose"),
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
    def function(self) -> ElementwiseFn:
        """The function of an element-wise operator."""
        function = OPERATORS[self.kind].function
        assert function is not None
        return function

    @property
    def reduction(self) -> ReduceFn:
        """The reduction of an operator over axes or windows."""
        reduction = OPERATORS[self.kind].reduction
        assert reduction is not None
        return reduction

    @property
    def scalars(self) -> tuple[float, ...]:
        """The parameters of an element-wise operator's function, in its order."""
        return tuple(self.float(name) for name in self.function.row.parameters)

    @property
    def zeros(self) -> tuple[int, int] | None:
        """Zero points of a product of 8-bit integers; None for a product of numbers."""
        if self.family not in (Family.CONV, Family.MATMUL):
            return None
        held = dict(self.attrs)
        a_zero, b_zero = held.get("a_zero"), held.get("b_zero")
        return (a_zero, b_zero) if isinstance(a_zero, int) and isinstance(b_zero, int) else None

    @property
    def is_bf16(self) -> bool:
        """True for a product of numbers that BF16 holds, which is multiplied in that format."""
        return ("bf16", 1) in self.attrs

    @property
    def multiplied(self) -> Format:
        """Format of what a contraction multiplies; INT8 stands for UINT8 too."""
        if self.is_bf16:
            return Format.BF16
        return Format.FP32 if self.zeros is None else Format.INT8

    @property
    def axes(self) -> Axes:
        """Axis numbers of this window operator's images and weight."""
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
