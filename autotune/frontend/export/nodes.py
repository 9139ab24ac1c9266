"""Each operator kind as nodes of ONNX: a row for each that is not one node of the same attributes.

Composed functions are written out as exporters write them, so that other systems find the patterns that
they fuse.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from onnx import TensorProto

from autotune.errors import ModelError
from autotune.frontend.export.writer import DILATED_OPSET, NodeWriter
from autotune.operators.axes import Perm, inverse
from autotune.operators.op import OPERATORS, Family, Op, OpKind

Rule = Callable[[Op, NodeWriter], None]
"""Appends the nodes of an operator; the last one makes its output."""

_MAXIMAL = np.iinfo(np.int64).max


def _clip(op: Op, w: NodeWriter) -> None:
    limits = (w.number(op.float("min")), w.number(op.float("max")))
    w.node("Clip", *op.inputs, *limits, output=op.output)


def _gelu(op: Op, w: NodeWriter) -> None:
    (x,) = op.inputs
    erf = w.node("Erf", w.node("Div", x, w.number(math.sqrt(2))))
    gated = w.node("Mul", x, w.node("Add", erf, w.number(1.0)))
    w.node("Mul", gated, w.number(0.5), output=op.output)


def _gelu_tanh(op: Op, w: NodeWriter) -> None:
    (x,) = op.inputs
    cube = w.node("Mul", w.node("Pow", x, w.number(3.0)), w.number(0.044715))
    inner = w.node("Mul", w.node("Add", x, cube), w.number(math.sqrt(2 / math.pi)))
    gate = w.node("Add", w.node("Tanh", inner), w.number(1.0))
    w.node("Mul", w.node("Mul", x, w.number(0.5)), gate, output=op.output)


def _trunc(op: Op, w: NodeWriter) -> None:
    (x,) = op.inputs
    whole = w.node("Floor", w.node("Abs", x))
    w.node("Mul", w.node("Sign", x), whole, output=op.output)


def _fp16(op: Op, w: NodeWriter) -> None:
    narrow = w.node("Cast", *op.inputs, to=TensorProto.FLOAT16)
    w.node("Cast", narrow, output=op.output, to=TensorProto.FLOAT)


def _bf16(op: Op, w: NodeWriter) -> None:
    narrow = w.node("Cast", *op.inputs, to=TensorProto.BFLOAT16)
    w.node("Cast", narrow, output=op.output, to=TensorProto.FLOAT)


def _elu(op: Op, w: NodeWriter) -> None:
    alpha, scale = op.float("alpha"), op.float("scale")
    if scale == 1.0:
        w.node("Elu", *op.inputs, output=op.output, alpha=alpha)
    else:
        w.node("Selu", *op.inputs, output=op.output, alpha=alpha / scale, gamma=scale)


def _truth(kind: str) -> Rule:
    """Return the rule of a comparison, whose result is 1 or 0 as float."""

    def rule(op: Op, w: NodeWriter) -> None:
        w.node("Cast", w.node(kind, *op.inputs), output=op.output, to=TensorProto.FLOAT)

    return rule


def _mod(op: Op, w: NodeWriter) -> None:
    left, right = op.inputs
    whole = w.node("Floor", w.node("Div", left, right))
    w.node("Sub", left, w.node("Mul", right, whole), output=op.output)


def _fmod(op: Op, w: NodeWriter) -> None:
    w.node("Mod", *op.inputs, output=op.output, fmod=1)


def _kept(where: bool) -> Rule:
    """Return the rule of the left operand where the right one is (or is not) 0, else −0."""

    def rule(op: Op, w: NodeWriter) -> None:
        x, chosen = op.inputs
        condition = w.node("Cast", chosen, to=TensorProto.BOOL)
        zero = w.number(-0.0)
        w.node("Where", condition, *((x, zero) if where else (zero, x)), output=op.output)

    return rule


def _prelu(op: Op, w: NodeWriter) -> None:
    x, slope = op.inputs
    if w.shape(x) == w.shape(op.output):
        w.node("PRelu", x, slope, output=op.output)
        return
    negative = w.node("Less", x, w.number(0.0))
    w.node("Where", negative, w.node("Mul", x, slope), x, output=op.output)


def _factors(op: Op, w: NodeWriter) -> list[str]:
    """Return the first two inputs of a product; integers less their zero points."""
    if op.zeros is None:
        return list(op.inputs[:2])
    sides = zip(op.inputs, op.zeros, strict=False)
    return [w.node("Sub", x, w.number(float(zero))) if zero else x for x, zero in sides]


def _conv(op: Op, w: NodeWriter) -> None:
    bias = op.inputs[2:]
    x, weight = _factors(op, w)
    kernel = op.axes.taps(w.shape(op.inputs[1]))
    made = w.node(
        "Conv",
        _transposed(x, op.axes.image_order, w),
        _transposed(weight, op.axes.weight_order, w),
        *bias,
        output=_image_output(op),
        kernel_shape=list(kernel),
        strides=list(op.ints("strides")),
        pads=list(op.ints("pads")),
        dilations=list(op.ints("dilations")),
        group=op.int("group"),
    )
    _finish_image(op, made, w)


def _pool(kind: str) -> Rule:
    """Return the rule of a pooling."""

    def rule(op: Op, w: NodeWriter) -> None:
        attributes = {
            "kernel_shape": list(op.ints("kernel")),
            "strides": list(op.ints("strides")),
            "pads": list(op.ints("pads")),
        }
        if op.kind is OpKind.AVERAGE_POOL:
            attributes["count_include_pad"] = op.int("count_include_pad")  # type: ignore[assignment]
        if op.kind is OpKind.MAX_POOL or op.ints("dilations") != (1, 1):
            attributes["dilations"] = list(op.ints("dilations"))
            if op.kind is OpKind.AVERAGE_POOL:
                w.opset = DILATED_OPSET
        x = _transposed(op.inputs[0], op.axes.image_order, w)
        _finish_image(op, w.node(kind, x, output=_image_output(op), **attributes), w)

    return rule


def _transposed(tensor: str, perm: Perm, w: NodeWriter) -> str:
    """Return a tensor with its axes in this order; itself where they are."""
    if perm == tuple(range(len(perm))):
        return tensor
    return w.node("Transpose", tensor, perm=list(perm))


def _image_output(op: Op) -> str | None:
    """Return the operator's output where ONNX's node makes it; None where a transpose does."""
    return op.output if op.axes.image_order == (0, 1, 2, 3) else None


def _finish_image(op: Op, made: str, w: NodeWriter) -> None:
    if made != op.output:
        w.node("Transpose", made, output=op.output, perm=list(inverse(op.axes.image_order)))


def _transformed(op: Op, w: NodeWriter) -> None:
    raise ModelError(
        f"{op.name}: ONNX has no operator with transformed weights ({op.kind}); open the network with "
        "accuracy 'exact'"
    )


def _matmul(op: Op, w: NodeWriter) -> None:
    flags = bool(op.int("trans_a")), bool(op.int("trans_b"))
    ranks = [len(w.shape(x)) for x in op.inputs]
    factors = _factors(op, w)
    if any(flags) and set(ranks) == {2}:
        w.node("Gemm", *factors, output=op.output, transA=int(flags[0]), transB=int(flags[1]))
        return
    operands = [
        _transposed(x, _swapped(rank), w) if flag else x
        for x, rank, flag in zip(factors, ranks, flags, strict=True)
    ]
    w.node("MatMul", *operands, output=op.output)


def _swapped(rank: int) -> Perm:
    return (*range(rank - 2), rank - 1, rank - 2)


def _sliding_sum(op: Op, w: NodeWriter) -> None:
    (x,) = op.inputs
    axis, before, after = op.int("axis"), op.int("before"), op.int("after")
    shape = w.shape(x)
    widths = [[0] * len(shape), [0] * len(shape)]
    widths[0][axis], widths[1][axis] = before, after
    padded = w.node("Pad", x, w.wholes(*widths[0], *widths[1]), w.number(0.0))
    along = w.wholes(axis)
    terms = [
        w.node("Slice", padded, w.wholes(i), w.wholes(i + shape[axis]), along)
        for i in range(before + 1 + after)
    ]
    w.node("Sum", *terms, output=op.output)


def _reduce(op: Op, w: NodeWriter) -> None:
    (x,), axes, kind = op.inputs, op.ints("axes"), OPERATORS[op.kind].onnx
    if op.kind is OpKind.REDUCE_MEAN and axes == (2, 3) and len(w.shape(x)) == 4:
        w.node("GlobalAveragePool", x, output=op.output)
    elif op.kind is OpKind.REDUCE_SUM:
        w.node(kind, x, w.wholes(*axes), output=op.output, keepdims=1)
    else:
        w.node(kind, x, output=op.output, axes=list(axes), keepdims=1)


def _layer_norm(op: Op, w: NodeWriter) -> None:
    attributes = {"axis": op.int("axis"), "epsilon": op.float("epsilon")}
    w.node("LayerNormalization", *op.inputs, output=op.output, **attributes)


def _rms_norm(op: Op, w: NodeWriter) -> None:
    x, scale = op.inputs
    axes = list(range(op.int("axis"), len(w.shape(x))))
    mean = w.node("ReduceMean", w.node("Pow", x, w.number(2.0)), axes=axes, keepdims=1)
    root = w.node("Sqrt", w.node("Add", mean, w.number(op.float("epsilon"))))
    w.node("Mul", w.node("Div", x, root), scale, output=op.output)


def _reshape(op: Op, w: NodeWriter) -> None:
    w.node("Reshape", *op.inputs, w.wholes(*op.ints("shape")), output=op.output)


def _slice(op: Op, w: NodeWriter) -> None:
    starts, steps, sizes = (op.ints(name) for name in ("starts", "steps", "sizes"))
    shape = w.shape(op.inputs[0])
    cut = [d for d, n in enumerate(shape) if (starts[d], steps[d], sizes[d]) != (0, 1, n)] or list(
        range(len(shape))
    )[:1]
    if not cut:
        w.node("Identity", *op.inputs, output=op.output)
        return
    ends = [_end(starts[d], steps[d], sizes[d]) for d in cut]
    places = ([starts[d] for d in cut], ends, cut, [steps[d] for d in cut])
    w.node("Slice", *op.inputs, *(w.wholes(*numbers) for numbers in places), output=op.output)


def _end(start: int, step: int, size: int) -> int:
    """Return the end of a slice; one before index 0 is the least number there is."""
    end = start + size * step
    return end if end >= 0 else -_MAXIMAL


def _pad(op: Op, w: NodeWriter) -> None:
    widths = w.wholes(*op.ints("before"), *op.ints("after"))
    w.node("Pad", *op.inputs, widths, w.number(op.float("value")), output=op.output)


def _expand(op: Op, w: NodeWriter) -> None:
    w.node("Expand", *op.inputs, w.wholes(*op.ints("shape")), output=op.output)


def _gather(op: Op, w: NodeWriter) -> None:
    table, rows = op.inputs
    if rows not in w.integers:
        rows = w.node("Cast", rows, to=TensorProto.INT64)
    w.node("Gather", table, rows, output=op.output, axis=0)


def write(op: Op, w: NodeWriter) -> None:
    """Append the nodes of an operator: by its rule, or one node of the operator that its row names.

    Raises ``ModelError`` where ONNX has none.
    """
    row = OPERATORS[op.kind]
    rule = _reduce if row.family is Family.REDUCE else RULES.get(op.kind)
    if rule is not None:
        rule(op, w)
        return
    if not row.onnx:
        raise ModelError(f"{op.name}: ONNX has no operator {op.kind}")
    numbers = () if row.function is None else row.function.row.parameters
    attributes = {x: op.float(x) if x in numbers else op.attr(x) for x in row.attrs}
    w.node(row.onnx, *op.inputs, output=op.output, **attributes)


RULES: dict[OpKind, Rule] = {
    OpKind.CONV: _conv,
    OpKind.WINOGRAD_CONV: _transformed,
    OpKind.STRASSEN_MATMUL: _transformed,
    OpKind.MATMUL: _matmul,
    OpKind.CLIP: _clip,
    OpKind.GELU: _gelu,
    OpKind.GELU_TANH: _gelu_tanh,
    OpKind.TRUNC: _trunc,
    OpKind.BF16: _bf16,
    OpKind.FP16: _fp16,
    OpKind.ELU: _elu,
    OpKind.EQUAL: _truth("Equal"),
    OpKind.LESS: _truth("Less"),
    OpKind.LESS_EQUAL: _truth("LessOrEqual"),
    OpKind.MOD: _mod,
    OpKind.FMOD: _fmod,
    OpKind.KEEP_IF: _kept(True),
    OpKind.KEEP_UNLESS: _kept(False),
    OpKind.PRELU: _prelu,
    OpKind.MAX_POOL: _pool("MaxPool"),
    OpKind.AVERAGE_POOL: _pool("AveragePool"),
    OpKind.SLIDING_SUM: _sliding_sum,
    OpKind.LAYER_NORM: _layer_norm,
    OpKind.RMS_NORM: _rms_norm,
    OpKind.RESHAPE: _reshape,
    OpKind.SLICE: _slice,
    OpKind.PAD: _pad,
    OpKind.EXPAND: _expand,
    OpKind.GATHER: _gather,
}
