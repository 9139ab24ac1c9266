"""Winograd's convolution of 3×3 windows; ``winograd.py`` has its matrices."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from autotune.operators.axis_map import AxisMap, Footprint, full
from autotune.operators.family import (
    FamilyRow,
    Inputs,
    Operands,
    Shape,
    Shapes,
    Types,
    Work,
    anything,
    checked_ints,
    refuse,
    zero_padding,
)
from autotune.operators.op import Op
from autotune.operators.tensor import Array
from autotune.operators.window import window_extent
from autotune.operators.winograd import FORMS, KERNEL, Form, Matrix, convolved

POINT = 3
"""Axis of the points in the scratch buffers (``tile_footprints``)."""


def _shape(op: Op, shapes: Shapes) -> Shape:
    x, u = shapes[0], shapes[1]
    if len(x) != 4 or len(u) != 3:
        raise refuse(op, shapes, "the input must have rank 4, the transformed weight 3")
    if u[0] not in FORMS or u[1] != x[3]:
        counts = " or ".join(map(str, FORMS))
        raise refuse(op, shapes, f"the transformed weight must begin with [{counts}, {x[3]}]")
    if len(shapes) == 3 and shapes[2] != u[2:]:
        raise refuse(op, shapes, f"the bias must have shape [{u[2]}]")
    top, left, bottom, right = checked_ints(op, shapes, "pads", 4, 0)
    rows = window_extent(x[1], KERNEL, 1, 1, top, bottom)
    columns = window_extent(x[2], KERNEL, 1, 1, left, right)
    if min(rows, columns) < 1:
        raise refuse(op, shapes, f"kernel {[KERNEL, KERNEL]} is larger than the padded input")
    return x[0], rows, columns, u[2]


def _reference(op: Op, inputs: Inputs) -> Array:
    bias = inputs[2] if len(inputs) == 3 else None
    return convolved(inputs[0], inputs[1], bias, op.ints("pads")).astype(np.float32)


def winograd_squares(op: Op, squares: Sequence[Matrix]) -> Matrix:
    """Return the sum of the squares of all that is added for each element of the result, given the inputs'
    squares: the matrices magnify what they add."""
    form = FORMS[squares[1].shape[0]]
    squared = replace(form, input=np.square(form.input), output=np.square(form.output))
    bias = squares[2] if len(squares) == 3 else None
    return convolved(squares[0], squares[1], bias, op.ints("pads"), squared)


def winograd_tile(op: Op, types: Types) -> int:
    """Return the results along a row or column of a tile."""
    return FORMS[types[op.inputs[1]].shape[0]].tile


def ragged(extent: int, tile: int) -> int:
    """Return the rows or columns that the last tile may reach beyond a result of this extent. A part of the
    result is a multiple of the tile, or all of it."""
    return tile - 1 if extent % tile else 0


def _region(op: Op, index: int, out: Footprint, types: Types) -> Footprint:
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


def tile_footprints(op: Op, out: Footprint, types: Types) -> tuple[Footprint, Footprint]:
    """Return the scratch buffers [N, tiles down, tiles across, points, channels]: the transformed input and
    the products."""
    batch, rows, columns, channels = out
    points, depth, _ = types[op.inputs[1]].shape
    tile = winograd_tile(op, types)
    tiles = (batch, _in_tiles(rows, tile), _in_tiles(columns, tile), full(points))
    return (*tiles, full(depth)), (*tiles, channels)


def _in_tiles(axis: AxisMap, tile: int) -> AxisMap:
    if axis.dim is None:
        return full(-(-axis.window // tile))
    return replace(axis, per=tile)


def padded_footprint(op: Op, out: Footprint, types: Types) -> Footprint:
    """Return the room that the result needs: whole tiles."""
    image, tile = types[op.output].shape, winograd_tile(op, types)
    return tuple(
        replace(axis, window=axis.window + ragged(image[d], tile)) if d in op.axes.spatial else axis
        for d, axis in enumerate(out)
    )


def tile_count(image: Shape, form: Form) -> int:
    """Return the tiles of a result [N, H, W, M]."""
    batch, rows, columns, _ = image
    return batch * -(-rows // form.tile) * -(-columns // form.tile)


def _multiply_adds(op: Op, shapes: Shapes, result: Shape) -> int:
    """Those that it makes, on whole tiles."""
    return tile_count(result, FORMS[shapes[1][0]]) * math.prod(shapes[1])


def _operations(op: Op, shapes: Shapes, result: Shape) -> int:
    points, channels, outputs = shapes[1]
    form = FORMS[points]
    additions = channels * form.input_additions + outputs * form.output_additions
    return 2 * _multiply_adds(op, shapes, result) + tile_count(result, form) * additions


WINOGRAD = FamilyRow(
    Work.MATRIX,
    Operands(("x", "u", "b"), frozenset(("u", "b"))),
    _shape,
    _reference,
    anything,
    _region,
    _operations,
    multiply_adds=_multiply_adds,
    padding=zero_padding,
)
