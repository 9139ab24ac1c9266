"""Reference semantics: what every operator means, in numpy float32; the oracle of every engine."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from autotune.operators.axes import inverse
from autotune.operators.op import OPERATORS, Op, OpKind
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


def _gather(op: Op, inputs: Inputs) -> Array:
    table, numbers = inputs
    rows = np.clip(np.nan_to_num(numbers, nan=0.0), 0, len(table) - 1).astype(np.int64)
    return np.asarray(table[rows])


def _elementwise(op: Op, inputs: Inputs) -> Array:
    return op.function.row.reference(*inputs, *op.scalars)


REFERENCE: dict[OpKind, Callable[[Op, Inputs], Array]] = {
    OpKind.CONV: _conv,
    OpKind.WINOGRAD_CONV: _winograd,
    OpKind.MATMUL: _matmul,
    **{kind: _elementwise for kind, row in OPERATORS.items() if row.function is not None},
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
