"""Kernel variants of operators on the vector unit, given the views of their operands."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import assert_never

from autotune.fusion.nest import MAX_SIDES
from autotune.isa.functions import BinaryFn, StageKind, UnaryFn
from autotune.isa.tile import TileWriter, View, row_major
from autotune.kernels.emit import contraction, elementwise, movement
from autotune.lowering.tiles import Tile
from autotune.operators.op import Family, Op, OpKind
from autotune.operators.tensor import TensorType

Link = tuple[Op, tuple[str, View] | None]
"""An operator behind another one, with name and tile of its other operand."""
_KINDS = ((StageKind.FROM0, StageKind.FROM1), (StageKind.WITH0, StageKind.WITH1))
"""Stage kinds by the side operand's position among an operator's inputs, then by its number."""


def compute_chain(
    writer: TileWriter, op: Op, links: list[Link], result: View, operands: list[View]
) -> None:
    """Emit a run of element-wise operators as one pass over ``operands[0]``."""
    result, operands = _ranked(result), [_ranked(x) for x in operands]
    sides: list[View] = []
    first = (1, operands[1]) if op.family is Family.BINARY else None
    stages = [_chain_stage(op, first, sides)]
    for user, side in links:
        where = None if side is None else (user.inputs.index(side[0]), _ranked(side[1]))
        stages.append(_chain_stage(user, where, sides))
    elementwise.chain(writer, result, operands[0], stages, sides)


def _chain_stage(
    op: Op, side: tuple[int, View] | None, sides: list[View]
) -> tuple[StageKind, int, float, float]:
    """Return kind, function and scalars of one stage; a new side operand joins ``sides``."""
    if side is None:
        return (StageKind.UNARY, int(op.function), *scalars(op))
    position, view = side
    if view not in sides:
        assert len(sides) < MAX_SIDES, f"{op.name}: more side operands than a chain has"
        sides.append(view)
    return (_KINDS[position][sides.index(view)], int(op.function), 0.0, 0.0)


def scalars(op: Op) -> tuple[float, float]:
    """Return p0 and p1 of a unary operator's instruction, 0 where its function has none."""
    p0, p1 = (*op.scalars, 0.0, 0.0)[:2]
    return p0, p1


def compute(
    writer: TileWriter,
    op: Op,
    types: Mapping[str, TensorType],
    result: View,
    operands: list[View],
    temps: list[Tile],
) -> None:
    """Emit one stage that runs on the vector unit."""
    if not result.rank:
        result, operands = _scalar(result), [_ranked(x) for x in operands]
    match op.family:
        case Family.UNARY:
            elementwise.unary(writer, op.function, result, operands[0], *scalars(op))
        case Family.BINARY:
            elementwise.binary(writer, op.function, result, operands[0], operands[1])
        case Family.CONV:
            _depthwise(writer, op, result, operands)
        case Family.POOL:
            _pool(writer, op, types, result, operands[0], temps)
        case Family.SLIDE | Family.REDUCE:
            _reduce(writer, op, result, operands[0])
        case Family.SOFTMAX | Family.LAYER_NORM:
            _normalise(writer, op, result, operands, temps[0].view)
        case Family.CONCAT:
            movement.concat(writer, result, operands, op.int("axis"))
        case Family.TRANSPOSE | Family.SLICE | Family.PAD | Family.EXPAND:
            source = rearranged(op, operands[0], result.sizes)
            elementwise.unary(writer, UnaryFn.COPY, result, source)
        case Family.RESHAPE:
            _copy_reshaped(writer, op, result, operands[0])
        case Family.MATMUL | Family.WINOGRAD | Family.GATHER:
            raise AssertionError("it runs on another unit")
        case _:
            assert_never(op.family)


def _depthwise(writer: TileWriter, op: Op, result: View, operands: list[View]) -> None:
    x, w = operands[0], operands[1].permute(op.axes.weight_order)
    bias = operands[2] if len(operands) == 3 else None
    axes, strides, dilations = op.axes, op.ints("strides"), op.ints("dilations")
    contraction.depthwise(
        writer, result, x, w, bias, axes.channel, axes.spatial, strides, dilations
    )


def _reduce(writer: TileWriter, op: Op, result: View, x: View) -> None:
    """Emit a reduction over axes, or over a window that slides along one."""
    fn = op.reduction
    if op.family is Family.SLIDE:
        window = op.int("before") + 1 + op.int("after")
        movement.slide(writer, fn, result, x, op.int("axis"), window)
        return
    elementwise.reduce(writer, fn, result, x)
    if op.kind is OpKind.REDUCE_MEAN:
        count = math.prod(x.sizes) // math.prod(result.sizes)
        elementwise.unary(writer, UnaryFn.AFFINE, result, result, 1.0 / count, 0.0)


def _normalise(writer: TileWriter, op: Op, result: View, operands: list[View], rows: View) -> None:
    """Emit a normalisation; ``rows`` is the view of a temporary with numbers per row."""
    x = operands[0]
    if op.kind is OpKind.SOFTMAX:
        elementwise.softmax(writer, result, x, rows.slice(op.int("axis"), 0, 1))
    elif op.kind is OpKind.RMS_NORM:
        elementwise.rms_norm(writer, result, x, operands[1], rows, op.float("epsilon"))
    else:
        bias = operands[2] if len(operands) == 3 else None
        scale, epsilon = operands[1], op.float("epsilon")
        elementwise.layer_norm(writer, result, x, scale, bias, rows, epsilon)


def rearranged(op: Op, source: View, sizes: tuple[int, ...]) -> View:
    """Return an operand seen as the result, of these sizes, of a rearranging operator.

    DMA has already taken the steps of a slice if the operand has the result's sizes.
    """
    match op.family:
        case Family.TRANSPOSE:
            return source.permute(op.ints("perm"))
        case Family.SLICE:
            if source.sizes == sizes:
                return source
            for d, (size, step) in enumerate(zip(sizes, op.ints("steps"), strict=True)):
                source = source.slice(d, 0, size, step)
            return source
        case Family.EXPAND:
            return source.broadcast(sizes)
        case _:
            return source


def _scalar(view: View) -> View:
    return View(view.storage, view.offset, view.terms, (1,), (1,))


def _ranked(view: View) -> View:
    """Return the view with at least one dimension, so that equal operands are equal views."""
    return view if view.rank else _scalar(view)


def _copy_reshaped(writer: TileWriter, op: Op, result: View, source: View) -> None:
    """Copy a strided operand into a dense result of another shape.

    The result is written through the operand's shape, which is dense there too.
    """
    target = View(
        result.storage, result.offset, result.terms, source.sizes, row_major(source.sizes)
    )
    elementwise.unary(writer, UnaryFn.COPY, target, source)


def _pool(
    writer: TileWriter,
    op: Op,
    types: Mapping[str, TensorType],
    result: View,
    x: View,
    temps: list[Tile],
) -> None:
    axes = op.axes
    window = axes.spatial, op.ints("kernel"), op.ints("strides"), op.ints("dilations")
    movement.pool(writer, op.reduction, result, x, *window)
    if op.kind is OpKind.MAX_POOL:
        return
    if not temps:
        scale = 1.0 / math.prod(op.ints("kernel"))
        elementwise.unary(writer, UnaryFn.AFFINE, result, result, scale, 0.0)
        return
    ones, counts = temps
    shape = types[op.inputs[0]].shape
    at = [(o.first, *(o.terms[0] if o.terms else (0, 0))) for o in ones.origin]
    inside = axes.image(1, 1, axes.sizes(shape))
    movement.window_counts(writer, counts.view, ones.view, at, inside, *window)
    elementwise.binary(writer, BinaryFn.MUL, result, result, counts.view)
