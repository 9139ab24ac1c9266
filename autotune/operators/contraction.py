"""Contractions: matrix products, and direct convolutions."""

from __future__ import annotations

import math

import numpy as np

from autotune.operators.axes import inverse
from autotune.operators.axis_map import AxisMap, Footprint, full
from autotune.operators.family import (
    FamilyRow,
    Inputs,
    Intervals,
    Operands,
    Shape,
    Shapes,
    Types,
    Work,
    broadcast_region,
    broadcast_shape,
    partial_sums,
    refuse,
)
from autotune.operators.interval import Interval
from autotune.operators.op import Family, Op
from autotune.operators.tensor import Array
from autotune.operators.window import padded_windows, window_region, window_shape


def _matmul_shape(op: Op, shapes: Shapes) -> Shape:
    a, b = shapes
    if len(a) < 2 or len(b) < 2:
        raise refuse(op, shapes, "both operands must have rank ≥ 2")
    rows, inner_a = (a[-1], a[-2]) if op.int("trans_a") else (a[-2], a[-1])
    inner_b, columns = (b[-1], b[-2]) if op.int("trans_b") else (b[-2], b[-1])
    if inner_a != inner_b:
        raise refuse(op, shapes, f"the inner extents {inner_a} and {inner_b} differ")
    return (*broadcast_shape(op, shapes, a[:-2], b[:-2]), rows, columns)


def _factors(op: Op, inputs: Inputs) -> tuple[Array, Array]:
    """Return the first two inputs, integers less their zero points: float64 holds their sums."""
    a, b = inputs[:2]
    if op.zeros is None:
        return a, b
    a_zero, b_zero = op.zeros
    return np.subtract(a, a_zero, dtype=np.float64), np.subtract(b, b_zero, dtype=np.float64)


def _terms(op: Op, intervals: Intervals) -> Interval:
    """Bound the products that are added."""
    if op.zeros is None:
        return intervals[0] * intervals[1]
    a, b = (Interval(x.low - z, x.high - z) for x, z in zip(intervals, op.zeros, strict=False))
    return a * b


def _matmul_reference(op: Op, inputs: Inputs) -> Array:
    a, b = _factors(op, inputs)
    a = np.swapaxes(a, -1, -2) if op.int("trans_a") else a
    b = np.swapaxes(b, -1, -2) if op.int("trans_b") else b
    return np.asarray(np.matmul(a, b))


def _inner(op: Op, shapes: Shapes) -> int:
    """Extent of the reduction."""
    return shapes[0][-2 if op.int("trans_a") else -1]


def _matmul_interval(op: Op, intervals: Intervals, shapes: Shapes) -> Interval:
    return partial_sums(_terms(op, intervals), _inner(op, shapes))


def _matmul_region(op: Op, index: int, out: Footprint, types: Types) -> Footprint:
    shape, out_shape = types[op.inputs[index]].shape, types[op.output].shape
    is_transposed = bool(op.int("trans_a" if index == 0 else "trans_b"))
    depth = full(shape[-1] if (index == 0) != is_transposed else shape[-2])
    pair = (out[-2], depth) if index == 0 else (depth, out[-1])
    batch = broadcast_region(shape[:-2], out[:-2], out_shape[:-2])
    return (*batch, *(pair[::-1] if is_transposed else pair))


def _matmul_multiply_adds(op: Op, shapes: Shapes, result: Shape) -> int:
    return math.prod(result) * _inner(op, shapes)


def _matmul_operations(op: Op, shapes: Shapes, result: Shape) -> int:
    return 2 * _matmul_multiply_adds(op, shapes, result)


MATMUL = FamilyRow(
    Work.MATRIX,
    Operands(("a", "b"), frozenset(("b",))),
    _matmul_shape,
    _matmul_reference,
    _matmul_interval,
    _matmul_region,
    _matmul_operations,
    multiply_adds=_matmul_multiply_adds,
)


def is_depthwise(op: Op, types: Types) -> bool:
    """Return True if a convolution of numbers has one input and one output channel per group: work for
    the vector unit, which knows no narrow integers."""
    if op.zeros is not None:
        return False
    weight, axes = types[op.inputs[1]].shape, op.axes
    return weight[axes.in_channel] == 1 and weight[axes.out_channel] == op.int("group")


def channels_per_group(op: Op, types: Types) -> tuple[int, int] | None:
    """Return input and output channels of a group of a convolution on the matrix unit; None for one group
    alone, and for any other operator."""
    if op.family is not Family.CONV or op.int("group") == 1 or is_depthwise(op, types):
        return None
    weight, axes = types[op.inputs[1]].shape, op.axes
    return weight[axes.in_channel], weight[axes.out_channel] // op.int("group")


def _conv_shape(op: Op, shapes: Shapes) -> Shape:
    x, w, axes = shapes[0], shapes[1], op.axes
    if len(x) != 4 or len(w) != 4:
        raise refuse(op, shapes, "input and weight must have rank 4")
    group = op.int("group")
    out = w[axes.out_channel]
    if group < 1 or x[axes.channel] != w[axes.in_channel] * group or out % group:
        raise refuse(op, shapes, f"channels do not fit group={group}")
    if len(shapes) == 3 and shapes[2] != (out,):
        raise refuse(op, shapes, f"the bias must have shape [{out}]")
    return axes.image(x[axes.batch], out, window_shape(op, shapes, axes.taps(w)))


def _conv_reference(op: Op, inputs: Inputs) -> Array:
    x, w = _factors(op, inputs)
    x, w = x.transpose(op.axes.image_order), w.transpose(op.axes.weight_order)
    group = op.int("group")
    view = padded_windows(op, x, w.shape[2:], 0.0)
    batch, _, rows, columns = view.shape[:4]
    patches = view.transpose(0, 1, 4, 5, 2, 3).reshape(batch, group, -1, rows * columns)
    weights = w.reshape(group, w.shape[0] // group, -1)
    out = np.matmul(weights, patches).reshape(batch, w.shape[0], rows, columns)
    if len(inputs) == 3:
        out = out + inputs[2].reshape(1, -1, 1, 1)
    return np.asarray(out.transpose(inverse(op.axes.image_order)))


def _depth(op: Op, shapes: Shapes) -> int:
    """Products of one element of a convolution's result."""
    return math.prod(shapes[1]) // shapes[1][op.axes.out_channel]


def _conv_interval(op: Op, intervals: Intervals, shapes: Shapes) -> Interval:
    total = partial_sums(_terms(op, intervals), _depth(op, shapes))
    return total + intervals[2] if len(intervals) == 3 else total


def _conv_region(op: Op, index: int, out: Footprint, types: Types) -> Footprint:
    weight, axes = types[op.inputs[1]].shape, op.axes
    channels = out[axes.channel]
    if index == 2:
        return (channels,)
    if index == 1:
        return tuple(channels if d == axes.out_channel else full(n) for d, n in enumerate(weight))
    if not is_depthwise(op, types):
        channels = _group_channels(op, channels, types)
    return axes.image(out[axes.batch], channels, window_region(op, out, axes.taps(weight)))


def _group_channels(op: Op, out: AxisMap, types: Types) -> AxisMap:
    """The input's channels for a tile of whole groups of the output's, else all of them."""
    sizes = channels_per_group(op, types)
    if sizes is None or not out.is_identity():
        return full(types[op.inputs[0]].shape[op.axes.channel])
    common = math.gcd(*sizes)
    taken, made = sizes[0] // common, sizes[1] // common
    return AxisMap(out.dim, taken, 0, taken, made)


def _conv_multiply_adds(op: Op, shapes: Shapes, result: Shape) -> int:
    return math.prod(result) * _depth(op, shapes)


def _conv_operations(op: Op, shapes: Shapes, result: Shape) -> int:
    bias = math.prod(result) if len(shapes) == 3 else 0
    return 2 * _conv_multiply_adds(op, shapes, result) + bias


def _conv_padding(op: Op) -> float:
    return 0.0 if op.zeros is None else float(op.zeros[0])


CONV = FamilyRow(
    Work.MATRIX,
    Operands(("x", "w", "b"), frozenset(("w", "b"))),
    _conv_shape,
    _conv_reference,
    _conv_interval,
    _conv_region,
    _conv_operations,
    multiply_adds=_conv_multiply_adds,
    padding=_conv_padding,
)
