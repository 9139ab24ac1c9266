"""Region rules: which part of each input an operator needs for a part of its output.

Halos, strides and broadcasts fall out of composing the maps of a footprint (axis_map.py) from a
nest's root backwards; nothing here depends on tile sizes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import assert_never

from autotune.fusion.axis_map import AxisMap, Footprint, full
from autotune.operators.op import Family, Op
from autotune.operators.tensor import TensorType
from autotune.operators.winograd import FORMS, KERNEL

POINT = 3
"""Axis of the points in the scratch buffers of Winograd's convolution (``tile_footprints``)."""


def forced_dims(op: Op, types: Mapping[str, TensorType]) -> frozenset[int]:
    """Output dimensions that an operator can only compute whole."""
    rank = len(types[op.output].shape)
    match op.family:
        case Family.SOFTMAX | Family.CONCAT:
            return frozenset((op.int("axis"),))
        case Family.LAYER_NORM:
            return frozenset(range(op.int("axis"), rank))
        case Family.RESHAPE:
            pairs = reshape_pairs(types[op.inputs[0]].shape, types[op.output].shape)
            return frozenset(range(rank)) - frozenset(out for _, out in pairs)
        case Family.REDUCE:
            return frozenset(op.ints("axes"))
        case (
            Family.CONV
            | Family.MATMUL
            | Family.UNARY
            | Family.BINARY
            | Family.WINOGRAD
            | Family.POOL
            | Family.SLIDE
            | Family.TRANSPOSE
            | Family.SLICE
            | Family.PAD
            | Family.EXPAND
            | Family.GATHER
        ):
            return frozenset()
        case _:
            assert_never(op.family)


def channels_per_group(op: Op, types: Mapping[str, TensorType]) -> tuple[int, int] | None:
    """Input and output channels of a group of a convolution on the matrix unit; None if it has
    but one group, or is no such thing."""
    if op.family is not Family.CONV or op.int("group") == 1 or is_depthwise(op, types):
        return None
    weight, axes = types[op.inputs[1]].shape, op.axes
    return weight[axes.in_channel], weight[axes.out_channel] // op.int("group")


def is_depthwise(op: Op, types: Mapping[str, TensorType]) -> bool:
    """Whether a convolution has one input and one output channel per group."""
    weight, axes = types[op.inputs[1]].shape, op.axes
    return weight[axes.in_channel] == 1 and weight[axes.out_channel] == op.int("group")


def reshape_pairs(source: tuple[int, ...], result: tuple[int, ...]) -> tuple[tuple[int, int], ...]:
    """Dimensions ``(in, out)`` of a reshape that stay one dimension each; extents of 1 pair with
    nothing, since they carry no coordinate."""
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


def _broadcast(shape: tuple[int, ...], out: Footprint, out_shape: tuple[int, ...]) -> Footprint:
    """Right-aligned broadcasting: extents of 1 under larger ones are fixed."""
    shift = len(out_shape) - len(shape)
    return tuple(full(1) if n == 1 else out[d + shift] for d, n in enumerate(shape))


def _conv(op: Op, index: int, out: Footprint, types: Mapping[str, TensorType]) -> Footprint:
    weight, axes = types[op.inputs[1]].shape, op.axes
    channels = out[axes.channel]
    if index == 2:
        return (channels,)
    if index == 1:
        return tuple(channels if d == axes.out_channel else full(n) for d, n in enumerate(weight))
    if not is_depthwise(op, types):
        channels = _group_channels(op, channels, types)
    return axes.image(out[axes.batch], channels, _window(op, out, axes.taps(weight)))


def _group_channels(op: Op, out: AxisMap, types: Mapping[str, TensorType]) -> AxisMap:
    """The input's channels for a tile of whole groups of the output's, else all of them."""
    sizes = channels_per_group(op, types)
    if sizes is None or not out.is_identity():
        return full(types[op.inputs[0]].shape[op.axes.channel])
    common = math.gcd(*sizes)
    taken, made = sizes[0] // common, sizes[1] // common
    return AxisMap(out.dim, taken, 0, taken, made)


def winograd_tile(op: Op, types: Mapping[str, TensorType]) -> int:
    """Results along a row or column of a tile of Winograd's convolution."""
    return FORMS[types[op.inputs[1]].shape[0]].tile


def ragged(extent: int, tile: int) -> int:
    """Rows or columns that the last of Winograd's tiles may reach beyond a result of this extent: a
    part of one is a multiple of the tile, or all of it."""
    return tile - 1 if extent % tile else 0


def _winograd(op: Op, index: int, out: Footprint, types: Mapping[str, TensorType]) -> Footprint:
    batch, rows, columns, channels = out
    points, depth, _ = types[op.inputs[1]].shape
    if index == 2:
        return (channels,)
    if index == 1:
        return (full(points), full(depth), channels)
    top, left, *_ = op.ints("pads")
    image = types[op.output].shape
    tile = winograd_tile(op, types)
    down = rows.windowed(1, top, KERNEL + ragged(image[1], tile))
    return (batch, down, columns.windowed(1, left, KERNEL + ragged(image[2], tile)), full(depth))


def tile_footprints(
    op: Op, out: Footprint, types: Mapping[str, TensorType]
) -> tuple[Footprint, Footprint]:
    """The scratch buffers of Winograd's convolution, [N, tiles down, tiles across, points, channels]:
    the transformed input and the products."""
    batch, rows, columns, channels = out
    points, depth, _ = types[op.inputs[1]].shape
    tile = winograd_tile(op, types)
    tiles = (batch, _in_tiles(rows, tile), _in_tiles(columns, tile), full(points))
    return (*tiles, full(depth)), (*tiles, channels)


def _in_tiles(axis: AxisMap, tile: int) -> AxisMap:
    if axis.dim is None:
        return full(-(-axis.window // tile))
    return replace(axis, per=tile)


def padded_footprint(op: Op, out: Footprint, types: Mapping[str, TensorType]) -> Footprint:
    """What the result of Winograd's convolution needs room for: whole tiles."""
    image, tile = types[op.output].shape, winograd_tile(op, types)
    return tuple(
        replace(axis, window=axis.window + ragged(image[d], tile)) if d in op.axes.spatial else axis
        for d, axis in enumerate(out)
    )


def _pool(op: Op, out: Footprint) -> Footprint:
    axes = op.axes
    return axes.image(out[axes.batch], out[axes.channel], _window(op, out, op.ints("kernel")))


def _window(op: Op, out: Footprint, kernel: tuple[int, ...]) -> Footprint:
    """Rows and columns of the input."""
    strides, pads, dilations = op.ints("strides"), op.ints("pads"), op.ints("dilations")
    return tuple(
        axis.windowed(strides[d], pads[d], (kernel[d] - 1) * dilations[d] + 1)
        for d, axis in enumerate(op.axes.sizes(out))
    )


def _matmul(op: Op, index: int, out: Footprint, types: Mapping[str, TensorType]) -> Footprint:
    shape = types[op.inputs[index]].shape
    out_shape = types[op.output].shape
    k = (
        shape[-1]
        if (index == 0) != bool(op.int("trans_a" if index == 0 else "trans_b"))
        else shape[-2]
    )
    batch = _broadcast(shape[:-2], out[:-2], out_shape[:-2])
    kept = out[-2] if index == 0 else out[-1]
    pair = (kept, full(k)) if index == 0 else (full(k), kept)
    if op.int("trans_a" if index == 0 else "trans_b"):
        pair = (pair[1], pair[0])
    return (*batch, *pair)


def input_footprint(
    op: Op, index: int, out: Footprint, types: Mapping[str, TensorType]
) -> Footprint:
    """The part of input ``index`` that ``op`` needs to make the part ``out`` of its output."""
    shape = types[op.inputs[index]].shape
    out_shape = types[op.output].shape
    match op.family:
        case Family.CONV:
            return _conv(op, index, out, types)
        case Family.WINOGRAD:
            return _winograd(op, index, out, types)
        case Family.MATMUL:
            return _matmul(op, index, out, types)
        case Family.UNARY | Family.SOFTMAX:
            return out
        case Family.BINARY:
            return _broadcast(shape, out, out_shape)
        case Family.POOL:
            return _pool(op, out)
        case Family.SLIDE:
            before, reach = op.int("before"), op.int("before") + 1 + op.int("after")
            near = out[op.int("axis")].windowed(1, before, reach)
            return tuple(near if d == op.int("axis") else a for d, a in enumerate(out))
        case Family.REDUCE:
            axes = op.ints("axes")
            return tuple(full(n) if d in axes else out[d] for d, n in enumerate(shape))
        case Family.LAYER_NORM:
            return out if index == 0 else _broadcast(shape, out, out_shape)
        case Family.CONCAT:
            axis = op.int("axis")
            return tuple(full(n) if d == axis else out[d] for d, n in enumerate(shape))
        case Family.RESHAPE:
            source = dict(reshape_pairs(shape, out_shape))
            return tuple(out[source[d]] if d in source else full(n) for d, n in enumerate(shape))
        case Family.TRANSPOSE:
            perm = op.ints("perm")
            return tuple(out[perm.index(d)] for d in range(len(shape)))
        case Family.SLICE:
            return tuple(_sampled(op, d, axis, shape[d]) for d, axis in enumerate(out))
        case Family.PAD:
            return tuple(
                axis.windowed(1, before, 1)
                for axis, before in zip(out, op.ints("before"), strict=True)
            )
        case Family.EXPAND:
            return _broadcast(shape, out, out_shape)
        case Family.GATHER:
            return (out[0],) if index == 1 else (full(shape[0]), out[1])
        case _:
            assert_never(op.family)


def _sampled(op: Op, d: int, axis: AxisMap, extent: int) -> AxisMap:
    """What a slice reads along dimension ``d``; backwards, tiles begin where they end: all of it."""
    step = op.ints("steps")[d]
    return full(extent) if step < 0 else axis.windowed(step, -op.ints("starts")[d], 1)
