"""Reductions over axes, which stay with extent 1."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from autotune.operators.axes import to_channels_last
from autotune.operators.axis_map import Footprint, full
from autotune.operators.elementwise import raised
from autotune.operators.family import (
    ONE,
    FamilyRow,
    Inputs,
    Intervals,
    NewAttrs,
    Shape,
    Shapes,
    Types,
    Work,
    checked_axis,
    partial_sums,
    refuse,
)
from autotune.operators.interval import Interval
from autotune.operators.op import Op, OpKind
from autotune.operators.tensor import Array


def _shape(op: Op, shapes: Shapes) -> Shape:
    axes = op.ints("axes")
    if not axes or list(axes) != sorted(set(axes)):
        raise refuse(op, shapes, f"axes must be sorted and distinct, got {list(axes)}")
    dropped = {checked_axis(op, shapes, axis) for axis in axes}
    return tuple(1 if i in dropped else extent for i, extent in enumerate(shapes[0]))


def _product(x: Interval, count: int) -> Interval:
    extreme = raised(max(1.0, x.extreme), count)
    return Interval(0.0 if x.low >= 0 else -extreme, extreme)


KINDS: dict[OpKind, tuple[Callable[..., Array], Callable[[Interval, int], Interval]]] = {
    OpKind.REDUCE_MEAN: (np.mean, lambda x, count: x),
    OpKind.REDUCE_SUM: (np.sum, partial_sums),
    OpKind.REDUCE_MAX: (np.max, lambda x, count: x),
    OpKind.REDUCE_MIN: (np.min, lambda x, count: x),
    OpKind.REDUCE_PROD: (np.prod, _product),
}
"""Each kind in numpy, and its interval from that of ``count`` elements."""


def _reference(op: Op, inputs: Inputs) -> Array:
    reduce, _ = KINDS[op.kind]
    return np.asarray(reduce(inputs[0], axis=op.ints("axes"), keepdims=True))


def _interval(op: Op, intervals: Intervals, shapes: Shapes) -> Interval:
    _, bound = KINDS[op.kind]
    return bound(intervals[0], math.prod(shapes[0][axis] for axis in op.ints("axes")))


def _region(op: Op, index: int, out: Footprint, types: Types) -> Footprint:
    axes, shape = op.ints("axes"), types[op.inputs[0]].shape
    return tuple(full(n) if d in axes else out[d] for d, n in enumerate(shape))


def _operations(op: Op, shapes: Shapes, result: Shape) -> int:
    return math.prod(shapes[0])


def _whole_dims(op: Op, types: Types) -> frozenset[int]:
    return frozenset(op.ints("axes"))


def _channels_last(op: Op, shapes: Shapes, result: Shape) -> NewAttrs:
    order = to_channels_last(len(result))
    return {"axes": tuple(sorted(order.index(axis) for axis in op.ints("axes")))}


REDUCE = FamilyRow(
    Work.WINDOW,
    ONE,
    _shape,
    _reference,
    _interval,
    _region,
    _operations,
    _whole_dims,
    channels_last=_channels_last,
)
