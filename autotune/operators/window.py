"""Sliding windows: pooling over images, sums along one axis, and what convolutions share with them."""

from __future__ import annotations

import math

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from autotune.isa.functions import ReduceFn
from autotune.operators.axes import inverse
from autotune.operators.axis_map import Footprint
from autotune.operators.family import (
    ONE,
    FamilyRow,
    Inputs,
    Intervals,
    Shape,
    Shapes,
    Types,
    Work,
    checked_axis,
    checked_ints,
    moved_axis,
    partial_sums,
    refuse,
    zero_padding,
)
from autotune.operators.interval import Interval
from autotune.operators.op import Op
from autotune.operators.tensor import Array

MAX_SLIDING_RANK = 4
"""The window is one more dimension, and an instruction holds five."""


def window_extent(
    size: int, kernel: int, stride: int, dilation: int, before: int, after: int
) -> int:
    """Return a window's positions along one axis: floor((size + pads − span) / stride) + 1."""
    span = dilation * (kernel - 1) + 1
    return (size + before + after - span) // stride + 1


def window_shape(op: Op, shapes: Shapes, kernel: Shape) -> Shape:
    """Return the two spatial extents of a convolution's or pooling's result."""
    strides = checked_ints(op, shapes, "strides", 2, 1)
    dilations = checked_ints(op, shapes, "dilations", 2, 1)
    top, left, bottom, right = checked_ints(op, shapes, "pads", 4, 0)
    before, after = (top, left), (bottom, right)
    extents = tuple(
        window_extent(size, kernel[i], strides[i], dilations[i], before[i], after[i])
        for i, size in enumerate(op.axes.sizes(shapes[0]))
    )
    if min(extents) < 1:
        raise refuse(op, shapes, f"kernel {list(kernel)} is larger than the padded input")
    return extents


def padded_windows(op: Op, x: Array, kernel: Shape, fill: float) -> Array:
    """View a padded image [N, C, H, W] as its windows [N, C, OH, OW, KH, KW]."""
    top, left, bottom, right = op.ints("pads")
    (sh, sw), (dh, dw) = op.ints("strides"), op.ints("dilations")
    around = ((0, 0), (0, 0), (top, bottom), (left, right))
    padded = np.pad(x, around, constant_values=np.float32(fill))
    span = (dh * (kernel[0] - 1) + 1, dw * (kernel[1] - 1) + 1)
    view = sliding_window_view(padded, span, axis=(2, 3))
    return view[:, :, ::sh, ::sw, ::dh, ::dw]


def window_region(op: Op, out: Footprint, kernel: Shape) -> Footprint:
    """Return the image's rows and columns that a part of the result needs."""
    strides, pads, dilations = op.ints("strides"), op.ints("pads"), op.ints("dilations")
    return tuple(
        axis.windowed(strides[d], pads[d], (kernel[d] - 1) * dilations[d] + 1)
        for d, axis in enumerate(op.axes.sizes(out))
    )


def _pool_shape(op: Op, shapes: Shapes) -> Shape:
    x, axes = shapes[0], op.axes
    if len(x) != 4:
        raise refuse(op, shapes, "the input must have rank 4")
    kernel = checked_ints(op, shapes, "kernel", 2, 1)
    extents = window_shape(op, shapes, kernel)
    if not all(_taps_reach_input(op, i, n, extents[i]) for i, n in enumerate(axes.sizes(x))):
        pads = list(op.ints("pads"))
        raise refuse(op, shapes, f"pads {pads} leave a window that holds only padding")
    return axes.image(x[axes.batch], x[axes.channel], extents)


def _taps_reach_input(op: Op, axis: int, size: int, positions: int) -> bool:
    """Return True if along one axis every window has a tap inside the input, not only in padding."""
    kernel, stride, dilation = (op.ints(name)[axis] for name in ("kernel", "strides", "dilations"))
    starts = (position * stride - op.ints("pads")[axis] for position in range(positions))
    return all(any(0 <= start + tap * dilation < size for tap in range(kernel)) for start in starts)


def _pool_reference(op: Op, inputs: Inputs) -> Array:
    order = op.axes.image_order
    x = inputs[0].transpose(order)
    pooled = _largest(op, x) if op.reduction is ReduceFn.MAX else _mean(op, x)
    return np.asarray(pooled.transpose(inverse(order)))


def _largest(op: Op, x: Array) -> Array:
    return np.asarray(padded_windows(op, x, op.ints("kernel"), -np.inf).max(axis=(4, 5)))


def _mean(op: Op, x: Array) -> Array:
    kernel = op.ints("kernel")
    total = padded_windows(op, x, kernel, 0.0).sum(axis=(4, 5))
    if op.int("count_include_pad"):
        return np.asarray(total / np.float32(math.prod(kernel)))
    ones = np.ones((1, 1, *x.shape[2:]), dtype=np.float32)
    return np.asarray(total / padded_windows(op, ones, kernel, 0.0).sum(axis=(4, 5)))


def _pool_interval(op: Op, intervals: Intervals, shapes: Shapes) -> Interval:
    """Padding adds zeros to a mean, and nothing to a maximum."""
    return intervals[0] if op.reduction is ReduceFn.MAX else intervals[0] | Interval(0.0, 0.0)


def _pool_region(op: Op, index: int, out: Footprint, types: Types) -> Footprint:
    axes = op.axes
    rows_columns = window_region(op, out, op.ints("kernel"))
    return axes.image(out[axes.batch], out[axes.channel], rows_columns)


def _pool_padding(op: Op) -> float:
    return -math.inf if op.reduction is ReduceFn.MAX else 0.0


def _pool_operations(op: Op, shapes: Shapes, result: Shape) -> int:
    return math.prod(result) * math.prod(op.ints("kernel"))


POOL = FamilyRow(
    Work.WINDOW,
    ONE,
    _pool_shape,
    _pool_reference,
    _pool_interval,
    _pool_region,
    _pool_operations,
    padding=_pool_padding,
)


def _reach(op: Op) -> int:
    """Terms of a sliding sum."""
    return op.int("before") + 1 + op.int("after")


def _slide_shape(op: Op, shapes: Shapes) -> Shape:
    checked_axis(op, shapes, op.int("axis"))
    if min(op.int("before"), op.int("after")) < 0:
        raise refuse(op, shapes, "before and after must be ≥ 0")
    if len(shapes[0]) > MAX_SLIDING_RANK:
        raise refuse(op, shapes, f"the rank is more than {MAX_SLIDING_RANK}")
    return shapes[0]


def _slide_reference(op: Op, inputs: Inputs) -> Array:
    x, axis = inputs[0], op.int("axis")
    around = [(op.int("before"), op.int("after")) if d == axis else (0, 0) for d in range(x.ndim)]
    return np.asarray(sliding_window_view(np.pad(x, around), _reach(op), axis=axis).sum(axis=-1))


def _slide_interval(op: Op, intervals: Intervals, shapes: Shapes) -> Interval:
    return partial_sums(intervals[0], _reach(op))


def _slide_region(op: Op, index: int, out: Footprint, types: Types) -> Footprint:
    near = out[op.int("axis")].windowed(1, op.int("before"), _reach(op))
    return tuple(near if d == op.int("axis") else axis for d, axis in enumerate(out))


def _slide_operations(op: Op, shapes: Shapes, result: Shape) -> int:
    return math.prod(result) * (_reach(op) - 1)


SLIDE = FamilyRow(
    Work.WINDOW,
    ONE,
    _slide_shape,
    _slide_reference,
    _slide_interval,
    _slide_region,
    _slide_operations,
    padding=zero_padding,
    channels_last=moved_axis,
)
