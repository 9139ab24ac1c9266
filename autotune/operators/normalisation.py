"""Softmax along an axis; layer and RMS normalisation over the last axes."""

from __future__ import annotations

import math

import numpy as np

from autotune.operators.axis_map import Footprint
from autotune.operators.family import (
    ONE,
    FamilyRow,
    Inputs,
    Intervals,
    Operands,
    Shape,
    Shapes,
    Types,
    Work,
    broadcast_region,
    checked_axis,
    moved_axis,
    refuse,
    same_region,
)
from autotune.operators.interval import TRUTH, Interval
from autotune.operators.op import Op, OpKind
from autotune.operators.tensor import Array

SOFTMAX_OPERATIONS, NORM_OPERATIONS = 15, 8
"""Per element: maximum, difference, exp, sum and quotient; two reductions and the affine part."""


def _softmax_shape(op: Op, shapes: Shapes) -> Shape:
    checked_axis(op, shapes, op.int("axis"))
    return shapes[0]


def _softmax_reference(op: Op, inputs: Inputs) -> Array:
    axis = op.int("axis")
    shifted = np.exp(inputs[0] - inputs[0].max(axis=axis, keepdims=True))
    return np.asarray(shifted / shifted.sum(axis=axis, keepdims=True))


def _softmax_interval(op: Op, intervals: Intervals, shapes: Shapes) -> Interval:
    return TRUTH


def _softmax_operations(op: Op, shapes: Shapes, result: Shape) -> int:
    return SOFTMAX_OPERATIONS * math.prod(shapes[0])


def _softmax_whole_dims(op: Op, types: Types) -> frozenset[int]:
    return frozenset((op.int("axis"),))


SOFTMAX = FamilyRow(
    Work.WINDOW,
    ONE,
    _softmax_shape,
    _softmax_reference,
    _softmax_interval,
    same_region,
    _softmax_operations,
    _softmax_whole_dims,
    channels_last=moved_axis,
)


def _norm_shape(op: Op, shapes: Shapes) -> Shape:
    normal = shapes[0][checked_axis(op, shapes, op.int("axis")) :]
    if any(shape != normal for shape in shapes[1:]):
        raise refuse(op, shapes, f"scale and bias must have shape {list(normal)}")
    return shapes[0]


def _norm_reference(op: Op, inputs: Inputs) -> Array:
    x = inputs[0]
    axes = tuple(range(op.int("axis"), x.ndim))
    centred = x if op.kind is OpKind.RMS_NORM else x - x.mean(axis=axes, keepdims=True)
    variance = np.square(centred).mean(axis=axes, keepdims=True)
    out = centred / np.sqrt(variance + np.float32(op.float("epsilon"))) * inputs[1]
    return np.asarray(out + inputs[2] if len(inputs) == 3 else out)


def _norm_region(op: Op, index: int, out: Footprint, types: Types) -> Footprint:
    if index == 0:
        return out
    return broadcast_region(types[op.inputs[index]].shape, out, types[op.output].shape)


def _norm_interval(op: Op, intervals: Intervals, shapes: Shapes) -> Interval:
    """Bound by √n standard deviations, beyond which none of n numbers lies; a hundredth is for rounding."""
    extreme = 1.01 * math.sqrt(math.prod(shapes[0][op.int("axis") :]))
    scaled = Interval(-extreme, extreme) * intervals[1]
    return scaled + intervals[2] if len(intervals) == 3 else scaled


def _norm_operations(op: Op, shapes: Shapes, result: Shape) -> int:
    return NORM_OPERATIONS * math.prod(shapes[0])


def _norm_whole_dims(op: Op, types: Types) -> frozenset[int]:
    return frozenset(range(op.int("axis"), len(types[op.output].shape)))


LAYER_NORM = FamilyRow(
    Work.WINDOW,
    Operands(("x", "scale", "bias"), frozenset(("scale", "bias"))),
    _norm_shape,
    _norm_reference,
    _norm_interval,
    _norm_region,
    _norm_operations,
    _norm_whole_dims,
)
