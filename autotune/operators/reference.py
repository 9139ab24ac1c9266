"""Reference semantics: what every operator means, in numpy float32; the oracle of every engine."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from scipy import special

from autotune.operators.axes import inverse
from autotune.operators.op import Op, OpKind
from autotune.operators.tensor import Array
from autotune.operators.winograd import convolved

Inputs = Sequence[Array]


def evaluate_op(op: Op, inputs: Inputs) -> Array:
    """The output of one operator; inputs float32 in the operator's order."""
    with np.errstate(all="ignore"):
        return np.asarray(REFERENCE[op.kind](op, inputs), dtype=np.float32)


def _windows(op: Op, x: Array, kernel: tuple[int, ...], fill: float) -> Array:
    """View of shape [N, C, OH, OW, KH, KW] over the padded input."""
    top, left, bottom, right = op.ints("pads")
    (sh, sw), (dh, dw) = op.ints("strides"), op.ints("dilations")
    padded = np.pad(
        x, ((0, 0), (0, 0), (top, bottom), (left, right)), constant_values=np.float32(fill)
    )
    span = (dh * (kernel[0] - 1) + 1, dw * (kernel[1] - 1) + 1)
    view = sliding_window_view(padded, span, axis=(2, 3))
    return view[:, :, ::sh, ::sw, ::dh, ::dw]


def _conv(op: Op, inputs: Inputs) -> Array:
    x = inputs[0].transpose(op.axes.image_order)
    w = inputs[1].transpose(op.axes.weight_order)
    group = op.int("group")
    view = _windows(op, x, w.shape[2:], 0.0)
    batch, _, rows, columns = view.shape[:4]
    patches = view.transpose(0, 1, 4, 5, 2, 3).reshape(batch, group, -1, rows * columns)
    weights = w.reshape(group, w.shape[0] // group, -1)
    out = np.matmul(weights, patches).reshape(batch, w.shape[0], rows, columns)
    if len(inputs) == 3:
        out = out + inputs[2].reshape(1, -1, 1, 1)
    return np.asarray(out.transpose(inverse(op.axes.image_order)))


def _winograd(op: Op, inputs: Inputs) -> Array:
    bias = inputs[2] if len(inputs) == 3 else None
    return convolved(inputs[0], inputs[1], bias, op.ints("pads")).astype(np.float32)


def _matmul(op: Op, inputs: Inputs) -> Array:
    a, b = inputs
    a = np.swapaxes(a, -1, -2) if op.int("trans_a") else a
    b = np.swapaxes(b, -1, -2) if op.int("trans_b") else b
    return np.asarray(np.matmul(a, b))


def _max_pool(op: Op, inputs: Inputs) -> Array:
    axes = op.axes
    view = _windows(op, inputs[0].transpose(axes.image_order), op.ints("kernel"), -np.inf)
    return np.asarray(view.max(axis=(4, 5)).transpose(inverse(axes.image_order)))


def _average_pool(op: Op, inputs: Inputs) -> Array:
    order = op.axes.image_order
    x = inputs[0].transpose(order)
    kernel = op.ints("kernel")
    total = _windows(op, x, kernel, 0.0).sum(axis=(4, 5))
    if op.int("count_include_pad"):
        return np.asarray((total / np.float32(math.prod(kernel))).transpose(inverse(order)))
    ones = np.ones((1, 1, *x.shape[2:]), dtype=np.float32)
    counts = _windows(op, ones, kernel, 0.0).sum(axis=(4, 5))
    return np.asarray((total / counts).transpose(inverse(order)))


def _sliding_sum(op: Op, inputs: Inputs) -> Array:
    x, axis = inputs[0], op.int("axis")
    before, after = op.int("before"), op.int("after")
    around = [(before, after) if d == axis else (0, 0) for d in range(x.ndim)]
    view = sliding_window_view(np.pad(x, around), before + 1 + after, axis=axis)
    return np.asarray(view.sum(axis=-1))


def _softmax(op: Op, inputs: Inputs) -> Array:
    axis = op.int("axis")
    shifted = np.exp(inputs[0] - inputs[0].max(axis=axis, keepdims=True))
    return np.asarray(shifted / shifted.sum(axis=axis, keepdims=True))


def _rms_norm(op: Op, inputs: Inputs) -> Array:
    x = inputs[0]
    axes = tuple(range(op.int("axis"), x.ndim))
    square = np.square(x).mean(axis=axes, keepdims=True)
    return np.asarray(x / np.sqrt(square + np.float32(op.float("epsilon"))) * inputs[1])


def _layer_norm(op: Op, inputs: Inputs) -> Array:
    x = inputs[0]
    axes = tuple(range(op.int("axis"), x.ndim))
    centred = x - x.mean(axis=axes, keepdims=True)
    variance = np.square(centred).mean(axis=axes, keepdims=True)
    out = centred / np.sqrt(variance + np.float32(op.float("epsilon"))) * inputs[1]
    return np.asarray(out + inputs[2] if len(inputs) == 3 else out)


def _gelu(op: Op, inputs: Inputs) -> Array:
    """x · Φ(x) (Hendrycks & Gimpel 2016, arXiv:1606.08415)."""
    x = inputs[0]
    return np.asarray(np.float32(0.5) * x * (1 + special.erf(x * np.float32(1 / math.sqrt(2)))))


def _gelu_tanh(op: Op, inputs: Inputs) -> Array:
    """The tanh approximation from the same paper."""
    x = inputs[0]
    inner = np.float32(math.sqrt(2 / math.pi)) * (x + np.float32(0.044715) * x * x * x)
    return np.asarray(np.float32(0.5) * x * (1 + np.tanh(inner)))


def _leaky_relu(op: Op, inputs: Inputs) -> Array:
    x = inputs[0]
    return np.where(x < 0, x * np.float32(op.float("alpha")), x)


def _clip(op: Op, inputs: Inputs) -> Array:
    """min(max(x, low), high): the upper limit wins when the limits cross, as ONNX says."""
    low, high = np.float32(op.float("min")), np.float32(op.float("max"))
    return np.asarray(np.minimum(np.maximum(inputs[0], low), high))


def _slice(op: Op, inputs: Inputs) -> Array:
    """Every element by its own index, so that no rule about ends of negative steps is needed."""
    starts, steps, sizes = (op.ints(name) for name in ("starts", "steps", "sizes"))
    picked = [
        start + step * np.arange(size)
        for start, step, size in zip(starts, steps, sizes, strict=True)
    ]
    return np.asarray(inputs[0][np.ix_(*picked)] if picked else inputs[0])


def _pad(op: Op, inputs: Inputs) -> Array:
    widths = tuple(zip(op.ints("before"), op.ints("after"), strict=True))
    return np.pad(inputs[0], widths, constant_values=np.float32(op.float("value")))


def _elu(op: Op, inputs: Inputs) -> Array:
    """Clevert et al. 2015 (arXiv:1511.07289), with a scale as in SELU (arXiv:1706.02515)."""
    x = inputs[0]
    below = np.float32(op.float("alpha")) * np.expm1(np.minimum(x, 0))
    return np.where(x < 0, below, np.float32(op.float("scale")) * x)


def _softplus(op: Op, inputs: Inputs) -> Array:
    x = inputs[0]
    return np.asarray(np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x))))


def _keep_if(op: Op, inputs: Inputs) -> Array:
    return np.where(inputs[1] != 0, inputs[0], np.float32(-0.0))


def _keep_unless(op: Op, inputs: Inputs) -> Array:
    return np.where(inputs[1] != 0, np.float32(-0.0), inputs[0])


def _gather(op: Op, inputs: Inputs) -> Array:
    table, numbers = inputs
    rows = np.clip(np.nan_to_num(numbers, nan=0.0), 0, len(table) - 1).astype(np.int64)
    return np.asarray(table[rows])


REFERENCE: dict[OpKind, Callable[[Op, Inputs], Array]] = {
    OpKind.CONV: _conv,
    OpKind.WINOGRAD_CONV: _winograd,
    OpKind.MATMUL: _matmul,
    OpKind.RELU: lambda op, i: np.maximum(i[0], np.float32(0)),
    OpKind.LEAKY_RELU: _leaky_relu,
    OpKind.CLIP: _clip,
    OpKind.SIGMOID: lambda op, i: special.expit(i[0]),
    OpKind.TANH: lambda op, i: np.tanh(i[0]),
    OpKind.ERF: lambda op, i: special.erf(i[0]),
    OpKind.GELU: _gelu,
    OpKind.GELU_TANH: _gelu_tanh,
    OpKind.EXP: lambda op, i: np.exp(i[0]),
    OpKind.LOG: lambda op, i: np.log(i[0]),
    OpKind.SQRT: lambda op, i: np.sqrt(i[0]),
    OpKind.RECIPROCAL: lambda op, i: np.float32(1) / i[0],
    OpKind.NEG: lambda op, i: -i[0],
    OpKind.ABS: lambda op, i: np.abs(i[0]),
    OpKind.FLOOR: lambda op, i: np.floor(i[0]),
    OpKind.CEIL: lambda op, i: np.ceil(i[0]),
    OpKind.ROUND: lambda op, i: np.rint(i[0]),
    OpKind.TRUNC: lambda op, i: np.trunc(i[0]),
    OpKind.SIGN: lambda op, i: np.sign(i[0]),
    OpKind.ELU: _elu,
    OpKind.SOFTPLUS: _softplus,
    OpKind.SIN: lambda op, i: np.sin(i[0]),
    OpKind.COS: lambda op, i: np.cos(i[0]),
    OpKind.TAN: lambda op, i: np.tan(i[0]),
    OpKind.ASIN: lambda op, i: np.arcsin(i[0]),
    OpKind.ACOS: lambda op, i: np.arccos(i[0]),
    OpKind.ATAN: lambda op, i: np.arctan(i[0]),
    OpKind.SINH: lambda op, i: np.sinh(i[0]),
    OpKind.COSH: lambda op, i: np.cosh(i[0]),
    OpKind.ASINH: lambda op, i: np.arcsinh(i[0]),
    OpKind.ACOSH: lambda op, i: np.arccosh(i[0]),
    OpKind.ATANH: lambda op, i: np.arctanh(i[0]),
    OpKind.ADD: lambda op, i: i[0] + i[1],
    OpKind.SUB: lambda op, i: i[0] - i[1],
    OpKind.MUL: lambda op, i: i[0] * i[1],
    OpKind.DIV: lambda op, i: i[0] / i[1],
    OpKind.MAXIMUM: lambda op, i: np.maximum(i[0], i[1]),
    OpKind.MINIMUM: lambda op, i: np.minimum(i[0], i[1]),
    OpKind.POW: lambda op, i: np.power(i[0], i[1]),
    OpKind.EQUAL: lambda op, i: np.float32(1) * (i[0] == i[1]),
    OpKind.LESS: lambda op, i: np.float32(1) * (i[0] < i[1]),
    OpKind.LESS_EQUAL: lambda op, i: np.float32(1) * (i[0] <= i[1]),
    OpKind.MOD: lambda op, i: np.mod(i[0], i[1]),
    OpKind.FMOD: lambda op, i: np.fmod(i[0], i[1]),
    OpKind.KEEP_IF: _keep_if,
    OpKind.KEEP_UNLESS: _keep_unless,
    OpKind.MAX_POOL: _max_pool,
    OpKind.AVERAGE_POOL: _average_pool,
    OpKind.SLIDING_SUM: _sliding_sum,
    OpKind.REDUCE_MEAN: lambda op, i: i[0].mean(axis=op.ints("axes"), keepdims=True),
    OpKind.REDUCE_SUM: lambda op, i: i[0].sum(axis=op.ints("axes"), keepdims=True),
    OpKind.REDUCE_MAX: lambda op, i: i[0].max(axis=op.ints("axes"), keepdims=True),
    OpKind.REDUCE_MIN: lambda op, i: i[0].min(axis=op.ints("axes"), keepdims=True),
    OpKind.REDUCE_PROD: lambda op, i: i[0].prod(axis=op.ints("axes"), keepdims=True),
    OpKind.SOFTMAX: _softmax,
    OpKind.LAYER_NORM: _layer_norm,
    OpKind.RMS_NORM: _rms_norm,
    OpKind.CONCAT: lambda op, i: np.concatenate(i, axis=op.int("axis")),
    OpKind.RESHAPE: lambda op, i: i[0].reshape(op.ints("shape")),
    OpKind.TRANSPOSE: lambda op, i: i[0].transpose(op.ints("perm")),
    OpKind.SLICE: _slice,
    OpKind.PAD: _pad,
    OpKind.EXPAND: lambda op, i: np.broadcast_to(i[0], op.ints("shape")).copy(),
    OpKind.GATHER: _gather,
}
