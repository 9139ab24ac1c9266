"""Kernel variants of operators on the vector unit, given the views of their operands."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Protocol, TypeVar, assert_never

from autotune.fusion.nest import MAX_SIDES
from autotune.isa.functions import BinaryFn, StageKind, UnaryFn
from autotune.isa.tile import Operand, Writer
from autotune.kernels.emit import contraction, elementwise, movement
from autotune.lowering.tiles import Origin
from autotune.operators.op import Family, Op, OpKind
from autotune.operators.tensor import TensorType

Link = tuple[Op, tuple[str, Operand] | None]
"""An operator behind another one, with name and tile of its other operand."""
Some = TypeVar("Some", bound=Operand)


class Temporary(Protocol):
    """The tile of a temporary, and the coordinates it begins at."""

    @property
    def view(self) -> Operand: ...
    @property
    def origin(self) -> tuple[Origin, ...]: ...


_KINDS = ((StageKind.FROM0, StageKind.FROM1), (StageKind.WITH0, StageKind.WITH1))
"""Stage kinds by the side operand's position among an operator's inputs, then by its number."""


def compute_chain(
    writer: Writer, op: Op, links: Sequence[Link], result: Operand, operands: Sequence[Operand]
) -> None:
    """Emit a run of element-wise operators as one pass over ``operands[0]``."""
    result, operands = _ranked(result), [_ranked(x) for x in operands]
    sides: list[Operand] = []
    first = (1, operands[1]) if op.family is Family.BINARY else None
    stages = [_chain_stage(op, first, sides)]
    for user, side in links:
        where = None if side is None else (user.inputs.index(side[0]), _ranked(side[1]))
        stages.append(_chain_stage(user, where, sides))
    elementwise.chain(writer, result, operands[0], stages, sides)


def _chain_stage(
    op: Op, side: tuple[int, Operand] | None, sides: list[Operand]
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
    writer: Writer,
    op: Op,
    types: Mapping[str, TensorType],
    result: Operand,
    operands: Sequence[Operand],
    temps: Sequence[Temporary],
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
            _reduce(writer, op, types, result, operands[0])
        case Family.SOFTMAX | Family.LAYER_NORM:
            _normalise(writer, op, types, result, operands, temps[0].view)
        case Family.CONCAT:
            movement.concat(writer, result, operands, op.int("axis"))
        case Family.TRANSPOSE | Family.SLICE | Family.PAD | Family.EXPAND:
            source = rearranged(op, operands[0], result.sizes)
            elementwise.unary(writer, UnaryFn.COPY, result, source)
        case Family.RESHAPE:
            _copy_reshaped(writer, op, result, operands[0])
        case Family.MATMUL | Family.WINOGRAD | Family.STRASSEN | Family.GATHER:
            raise AssertionError("it runs on another unit")
        case _:
            assert_never(op.family)


def _depthwise(writer: Writer, op: Op, result: Operand, operands: Sequence[Operand]) -> None:
    x, w = operands[0], operands[1].permute(op.axes.weight_order)
    bias = operands[2] if len(operands) == 3 else None
    axes, strides, dilations = op.axes, op.ints("strides"), op.ints("dilations")
    contraction.depthwise(
        writer, result, x, w, bias, axes.channel, axes.spatial, strides, dilations
    )


def _reduce(
    writer: Writer, op: Op, types: Mapping[str, TensorType], result: Operand, x: Operand
) -> None:
    """Emit a reduction over axes, or over a window that slides along one."""
    fn = op.reduction
    if op.family is Family.SLIDE:
        window = op.int("before") + 1 + op.int("after")
        movement.slide(writer, fn, result, x, op.int("axis"), window)
        return
    elementwise.reduce(writer, fn, result, x)
    if op.kind is OpKind.REDUCE_MEAN:
        count = types[op.inputs[0]].elements // types[op.output].elements
        elementwise.unary(writer, UnaryFn.AFFINE, result, result, 1.0 / count, 0.0)


def _normalise(
    writer: Writer,
    op: Op,
    types: Mapping[str, TensorType],
    result: Operand,
    operands: Sequence[Operand],
    rows: Operand,
) -> None:
    """Emit a row-wise normalisation; ``rows`` holds the statistics of every row."""
    x, axis = operands[0], op.int("axis")
    if op.kind is OpKind.SOFTMAX:
        elementwise.softmax(writer, result, x, rows.slice(axis, 0, 1))
        return
    count, scale = math.prod(types[op.inputs[0]].shape[axis:]), operands[1]
    epsilon = op.float("epsilon")
    if op.kind is OpKind.RMS_NORM:
        elementwise.rms_norm(writer, result, x, scale, rows, count, epsilon)
        return
    bias = operands[2] if len(operands) == 3 else None
    elementwise.layer_norm(writer, result, x, scale, bias, rows, count, epsilon)


def rearranged(op: Op, source: Some, sizes: tuple[int, ...]) -> Some:
    """Return an operand seen as the result, of these sizes, of a rearranging operator.

    DMA has already taken the steps of a slice if the operand has the result's sizes.
    """
    match op.family:
        case Family.TRANSPOSE:
            return source.permute(op.ints("perm"))
        case Family.SLICE:
            if source.fills(sizes):
                return source
            for d, (size, step) in enumerate(zip(sizes, op.ints("steps"), strict=True)):
                source = source.slice(d, 0, size, step)
            return source
        case Family.EXPAND:
            return source.broadcast(sizes)
        case _:
            return source


def _scalar(view: Operand) -> Operand:
    return view.reshaped((1,), (1,))


def _ranked(view: Operand) -> Operand:
    """Return the view with at least one dimension, so that equal operands are equal views."""
    return view if view.rank else _scalar(view)


def _copy_reshaped(writer: Writer, op: Op, result: Operand, source: Operand) -> None:
    """Copy a strided operand into a dense result of another shape.

    The result is written through the operand's shape, which is dense there too.
    """
    elementwise.unary(writer, UnaryFn.COPY, result.dense(source.sizes), source)


def _pool(
    writer: Writer,
    op: Op,
    types: Mapping[str, TensorType],
    result: Operand,
    x: Operand,
    temps: Sequence[Temporary],
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
