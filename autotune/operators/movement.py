"""Families that compute nothing: concat, reshape, transpose, slice, pad, expand, and gather of rows."""

from __future__ import annotations

import math

import numpy as np

from autotune.operators.axes import IMAGE_RANK, SIGNAL_RANK, to_channels_last
from autotune.operators.axis_map import AxisMap, Footprint, full
from autotune.operators.family import (
    ONE,
    FamilyRow,
    Inputs,
    Intervals,
    NewAttrs,
    Operands,
    Shape,
    Shapes,
    Types,
    Work,
    broadcast_region,
    checked_axis,
    checked_ints,
    moved_axis,
    moved_rows,
    no_operations,
    refuse,
    union,
)
from autotune.operators.interval import Interval
from autotune.operators.op import Op
from autotune.operators.tensor import Array


def _concat_shape(op: Op, shapes: Shapes) -> Shape:
    axis = checked_axis(op, shapes, op.int("axis"))
    first = shapes[0]
    for shape in shapes[1:]:
        if shape[:axis] != first[:axis] or shape[axis + 1 :] != first[axis + 1 :]:
            raise refuse(op, shapes, f"extents other than axis {axis} must be equal")
    return (*first[:axis], sum(shape[axis] for shape in shapes), *first[axis + 1 :])


def _concat_reference(op: Op, inputs: Inputs) -> Array:
    return np.concatenate(inputs, axis=op.int("axis"))


def _concat_region(op: Op, index: int, out: Footprint, types: Types) -> Footprint:
    axis, shape = op.int("axis"), types[op.inputs[index]].shape
    return tuple(full(n) if d == axis else out[d] for d, n in enumerate(shape))


def _concat_whole_dims(op: Op, types: Types) -> frozenset[int]:
    return frozenset((op.int("axis"),))


CONCAT = FamilyRow(
    Work.MOVE,
    Operands(()),
    _concat_shape,
    _concat_reference,
    union,
    _concat_region,
    no_operations,
    _concat_whole_dims,
    channels_last=moved_axis,
)


def _reshape_shape(op: Op, shapes: Shapes) -> Shape:
    shape = op.ints("shape")
    if any(extent < 1 for extent in shape) or math.prod(shape) != math.prod(shapes[0]):
        raise refuse(op, shapes, f"cannot be seen as {list(shape)}")
    return shape


def _reshape_reference(op: Op, inputs: Inputs) -> Array:
    return inputs[0].reshape(op.ints("shape"))


def reshape_pairs(source: Shape, result: Shape) -> tuple[tuple[int, int], ...]:
    """Return dimensions ``(in, out)`` of a reshape that stay one dimension each. Extents of 1 pair with
    nothing: they carry no coordinate."""
    ins = [d for d, n in enumerate(source) if n > 1]
    outs = [d for d, n in enumerate(result) if n > 1]
    pairs: list[tuple[int, int]] = []
    i = o = 0
    while i < len(ins) and o < len(outs):
        if source[ins[i]] == result[outs[o]]:
            pairs.append((ins[i], outs[o]))
            i, o = i + 1, o + 1
            continue
        left, right = source[ins[i]], result[outs[o]]
        i, o = i + 1, o + 1
        while left != right:
            if left < right:
                left *= source[ins[i]]
                i += 1
            else:
                right *= result[outs[o]]
                o += 1
    return tuple(pairs)


def _reshape_region(op: Op, index: int, out: Footprint, types: Types) -> Footprint:
    shape = types[op.inputs[0]].shape
    source = dict(reshape_pairs(shape, types[op.output].shape))
    return tuple(out[source[d]] if d in source else full(n) for d, n in enumerate(shape))


def _reshape_whole_dims(op: Op, types: Types) -> frozenset[int]:
    result = types[op.output].shape
    pairs = reshape_pairs(types[op.inputs[0]].shape, result)
    return frozenset(range(len(result))) - frozenset(out for _, out in pairs)


def _reshape_channels_last(op: Op, shapes: Shapes, result: Shape) -> NewAttrs:
    if not _reshapes_channels(shapes[0], result):
        return None
    return {"shape": tuple(result[axis] for axis in to_channels_last(len(result)))}


def _reshapes_channels(source: Shape, result: Shape) -> bool:
    """Return True if a reshape leaves batch, rows and columns alone."""
    signal, image = sorted((source, result), key=len)
    if len(signal) >= IMAGE_RANK:
        return (source[0], *source[-2:]) == (result[0], *result[-2:])
    return len(signal) == SIGNAL_RANK and image == (*signal[:2], 1, signal[2])


RESHAPE = FamilyRow(
    Work.MOVE,
    ONE,
    _reshape_shape,
    _reshape_reference,
    union,
    _reshape_region,
    no_operations,
    _reshape_whole_dims,
    channels_last=_reshape_channels_last,
)


def _transpose_shape(op: Op, shapes: Shapes) -> Shape:
    perm = op.ints("perm")
    if sorted(perm) != list(range(len(shapes[0]))):
        raise refuse(op, shapes, f"perm {list(perm)} is no permutation of the axes")
    return tuple(shapes[0][axis] for axis in perm)


def _transpose_reference(op: Op, inputs: Inputs) -> Array:
    return inputs[0].transpose(op.ints("perm"))


def _transpose_region(op: Op, index: int, out: Footprint, types: Types) -> Footprint:
    perm = op.ints("perm")
    return tuple(out[perm.index(d)] for d in range(len(perm)))


def _transpose_channels_last(op: Op, shapes: Shapes, result: Shape) -> NewAttrs:
    """A transpose of channels alone."""
    perm, rank = op.ints("perm"), len(result)
    if rank == SIGNAL_RANK or (perm[0], *perm[-2:]) != (0, rank - 2, rank - 1):
        return None
    order = to_channels_last(rank)
    return {"perm": tuple(order.index(perm[axis]) for axis in order)}


TRANSPOSE = FamilyRow(
    Work.MOVE,
    ONE,
    _transpose_shape,
    _transpose_reference,
    union,
    _transpose_region,
    no_operations,
    channels_last=_transpose_channels_last,
)


def _slice_shape(op: Op, shapes: Shapes) -> Shape:
    x = shapes[0]
    starts, steps, sizes = (op.ints(name) for name in ("starts", "steps", "sizes"))
    if not len(starts) == len(steps) == len(sizes) == len(x):
        raise refuse(op, shapes, f"starts, steps and sizes must be {len(x)} integers each")
    for axis, (extent, start, step, size) in enumerate(zip(x, starts, steps, sizes, strict=True)):
        last = start + (size - 1) * step
        if step == 0 or size < 1 or not (0 <= start < extent and 0 <= last < extent):
            reason = f"{size} elements from {start} on in steps of {step} are not in axis {axis}"
            raise refuse(op, shapes, reason)
    return sizes


def _slice_reference(op: Op, inputs: Inputs) -> Array:
    """Every element by its own index, so that no rule about ends of negative steps is needed."""
    starts, steps, sizes = (op.ints(name) for name in ("starts", "steps", "sizes"))
    picked = [
        start + step * np.arange(size)
        for start, step, size in zip(starts, steps, sizes, strict=True)
    ]
    return np.asarray(inputs[0][np.ix_(*picked)] if picked else inputs[0])


def _slice_region(op: Op, index: int, out: Footprint, types: Types) -> Footprint:
    shape = types[op.inputs[0]].shape
    return tuple(_sampled(op, d, axis, shape[d]) for d, axis in enumerate(out))


def _sampled(op: Op, d: int, axis: AxisMap, extent: int) -> AxisMap:
    """What a slice reads along dimension ``d``; backwards, tiles begin where they end: all of it."""
    step = op.ints("steps")[d]
    return full(extent) if step < 0 else axis.windowed(step, -op.ints("starts")[d], 1)


SLICE = FamilyRow(
    Work.MOVE,
    ONE,
    _slice_shape,
    _slice_reference,
    union,
    _slice_region,
    no_operations,
    channels_last=moved_rows,
)


def _pad_shape(op: Op, shapes: Shapes) -> Shape:
    rank = len(shapes[0])
    if not rank:
        raise refuse(op, shapes, "a scalar has no axis to pad")
    before = checked_ints(op, shapes, "before", rank, 0)
    after = checked_ints(op, shapes, "after", rank, 0)
    return tuple(n + b + a for n, b, a in zip(shapes[0], before, after, strict=True))


def _pad_reference(op: Op, inputs: Inputs) -> Array:
    widths = tuple(zip(op.ints("before"), op.ints("after"), strict=True))
    return np.pad(inputs[0], widths, constant_values=np.float32(op.float("value")))


def _pad_interval(op: Op, intervals: Intervals, shapes: Shapes) -> Interval:
    value = op.float("value")
    return Interval(min(intervals[0].low, value), max(intervals[0].high, value))


def _pad_region(op: Op, index: int, out: Footprint, types: Types) -> Footprint:
    before = op.ints("before")
    return tuple(axis.windowed(1, width, 1) for axis, width in zip(out, before, strict=True))


def _pad_padding(op: Op) -> float:
    return op.float("value")


PAD = FamilyRow(
    Work.MOVE,
    ONE,
    _pad_shape,
    _pad_reference,
    _pad_interval,
    _pad_region,
    no_operations,
    padding=_pad_padding,
    channels_last=moved_rows,
)


def _expand_shape(op: Op, shapes: Shapes) -> Shape:
    x, shape = shapes[0], op.ints("shape")
    if len(shape) != len(x) or any(n not in (1, m) for n, m in zip(x, shape, strict=True)):
        raise refuse(op, shapes, f"does not stretch to {list(shape)}")
    return shape


def _expand_reference(op: Op, inputs: Inputs) -> Array:
    return np.broadcast_to(inputs[0], op.ints("shape")).copy()


def _expand_region(op: Op, index: int, out: Footprint, types: Types) -> Footprint:
    return broadcast_region(types[op.inputs[0]].shape, out, types[op.output].shape)


EXPAND = FamilyRow(
    Work.MOVE,
    ONE,
    _expand_shape,
    _expand_reference,
    union,
    _expand_region,
    no_operations,
    channels_last=moved_rows,
)


def _gather_shape(op: Op, shapes: Shapes) -> Shape:
    table, numbers = shapes
    if len(table) != 2 or len(numbers) != 1:
        raise refuse(op, shapes, "the table must have rank 2, the numbers rank 1")
    return numbers[0], table[1]


def _gather_reference(op: Op, inputs: Inputs) -> Array:
    table, numbers = inputs
    rows = np.clip(np.nan_to_num(numbers, nan=0.0), 0, len(table) - 1).astype(np.int64)
    return np.asarray(table[rows])


def _gather_interval(op: Op, intervals: Intervals, shapes: Shapes) -> Interval:
    return intervals[0]


def _gather_region(op: Op, index: int, out: Footprint, types: Types) -> Footprint:
    return (out[0],) if index == 1 else (full(types[op.inputs[0]].shape[0]), out[1])


GATHER = FamilyRow(
    Work.MOVE,
    Operands(("table", "numbers"), frozenset(("table",))),
    _gather_shape,
    _gather_reference,
    _gather_interval,
    _gather_region,
    no_operations,
)
