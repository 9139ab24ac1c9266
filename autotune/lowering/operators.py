"""Which kernel variant computes an operator's tile, given the views of its operands."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import assert_never

from autotune.fusion.footprint import channels_per_group
from autotune.graph.axes import CHANNELS_LAST
from autotune.graph.op import Family, Op, OpKind
from autotune.graph.tensor import TensorType
from autotune.isa.table import BinaryFn, StageKind, UnaryFn
from autotune.isa.tile import TileWriter, View, row_major
from autotune.kernels import contraction, elementwise, movement, winograd
from autotune.lowering.functions import BINARY_FNS, REDUCE_FNS, UNARY_FNS, scalars
from autotune.lowering.tiles import Tile


def activation(op: Op) -> dict[str, int | float]:
    """Epilogue fields of an activation merged into a contraction."""
    p0, p1 = scalars(op)
    return {"fn": int(UNARY_FNS[op.kind]), "p0": p0, "p1": p1}


def compute_contraction(
    writer: TileWriter,
    op: Op,
    types: Mapping[str, TensorType],
    result: View,
    operands: list[View],
    reduction: dict[str, int],
    epilogue: dict[str, object],
) -> None:
    """Emit one piece of a contraction on the matrix unit."""
    left, right = operands
    if op.family is Family.CONV:
        _conv(writer, op, types, result, left, right, reduction, epilogue)
        return
    a = _swap_last(left) if op.int("trans_a") else left
    b = _swap_last(right) if op.int("trans_b") else right
    contraction.matmul(writer, result, a, b, reduction, epilogue)


def winograd_back(
    writer: TileWriter, result: View, products: View, epilogue: dict[str, object]
) -> None:
    """Emit the way back from the products of Winograd's convolution, with the epilogue."""
    residual = epilogue.get("residual")
    if isinstance(residual, View):
        epilogue = {**epilogue, "residual": residual.broadcast(result.sizes)}
    winograd.back(writer, result, products, epilogue)


def _conv(
    writer: TileWriter,
    op: Op,
    types: Mapping[str, TensorType],
    result: View,
    x: View,
    w: View,
    reduction: dict[str, int],
    epilogue: dict[str, object],
) -> None:
    """The emitter sees every layout as [N, C, H, W]: strides say where the channels are."""
    axes = op.axes
    residual = epilogue.get("residual")
    if isinstance(residual, View):
        turned = residual.broadcast(result.sizes).permute(axes.image_order)
        epilogue = {**epilogue, "residual": turned}
    if x.rank > result.rank:
        y, w = result.permute(axes.image_order), w.permute(axes.weight_order)
        contraction.conv_of_patches(writer, y, x, w, reduction, epilogue)
        return
    contraction.conv(
        writer,
        result.permute(axes.image_order),
        x.permute(axes.image_order),
        w.permute(axes.weight_order),
        op.ints("strides"),
        op.ints("dilations"),
        _groups(op, types, result),
        _whole_rows(op, types, result),
        reduction,
        epilogue,
    )


def _groups(op: Op, types: Mapping[str, TensorType], result: View) -> int:
    """Groups of channels in a tile: it is made of whole ones."""
    sizes = channels_per_group(op, types)
    return 1 if sizes is None else result.sizes[op.axes.channel] // sizes[1]


def _whole_rows(op: Op, types: Mapping[str, TensorType], result: View) -> bool:
    """Whether a channels-last tile is of whole rows, so that its pixels lie one behind the other
    in memory too, not only in the scratchpad."""
    across = op.axes.spatial[1]
    whole = result.sizes[across] == types[op.output].shape[across]
    return whole and op.axes == CHANNELS_LAST


def _swap_last(view: View) -> View:
    return view.permute((*range(view.rank - 2), view.rank - 1, view.rank - 2))


Link = tuple[Op, tuple[str, View] | None]
"""An operator behind another one, with the name and tile of what else it reads."""
_KINDS = ((StageKind.FROM0, StageKind.FROM1), (StageKind.WITH0, StageKind.WITH1))
"""By the position of the side operand among an operator's inputs, then by its number."""


def compute_chain(
    writer: TileWriter, op: Op, links: list[Link], result: View, operands: list[View]
) -> None:
    """Emit a run of element-wise operators as one pass over ``operands[0]``."""
    if not result.rank:
        result, operands = _scalar(result), [_scalar(x) for x in operands]
    sides: list[View] = []
    first = (1, operands[1]) if op.family is Family.BINARY else None
    stages = [_chain_stage(op, first, sides)]
    for user, side in links:
        where = side and (user.inputs.index(side[0]), side[1] if side[1].rank else _scalar(side[1]))
        stages.append(_chain_stage(user, where, sides))
    elementwise.chain(writer, result, operands[0], stages, sides)


def _chain_stage(
    op: Op, side: tuple[int, View] | None, sides: list[View]
) -> tuple[StageKind, int, float, float]:
    """Kind, function and scalars of one stage; its side operand joins ``sides`` if it is new."""
    if side is None:
        return (StageKind.UNARY, int(UNARY_FNS[op.kind]), *scalars(op))
    position, view = side
    if view not in sides:
        sides.append(view)
    return (_KINDS[position][sides.index(view)], int(BINARY_FNS[op.kind]), 0.0, 0.0)


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
        result = _scalar(result)
        operands = [_scalar(x) if not x.rank else x for x in operands]
    match op.family:
        case Family.UNARY:
            elementwise.unary(writer, UNARY_FNS[op.kind], result, operands[0], *scalars(op))
        case Family.BINARY:
            elementwise.binary(writer, BINARY_FNS[op.kind], result, operands[0], operands[1])
        case Family.CONV:
            bias = operands[2] if len(operands) == 3 else None
            contraction.depthwise(
                writer,
                result,
                operands[0],
                operands[1].permute(op.axes.weight_order),
                bias,
                op.axes.channel,
                op.axes.spatial,
                op.ints("strides"),
                op.ints("dilations"),
            )
        case Family.POOL:
            _pool(writer, op, types, result, operands[0], temps)
        case Family.SLIDE:
            movement.slide(
                writer,
                REDUCE_FNS[op.kind],
                result,
                operands[0],
                op.int("axis"),
                op.int("before") + 1 + op.int("after"),
            )
        case Family.REDUCE:
            elementwise.reduce(writer, REDUCE_FNS[op.kind], result, operands[0])
            if op.kind is OpKind.REDUCE_MEAN:
                count = math.prod(operands[0].sizes) // math.prod(result.sizes)
                elementwise.unary(writer, UnaryFn.AFFINE, result, result, 1.0 / count, 0.0)
        case Family.SOFTMAX:
            rows = temps[0].view
            elementwise.softmax(writer, result, operands[0], rows.slice(op.int("axis"), 0, 1))
        case Family.LAYER_NORM if op.kind is OpKind.RMS_NORM:
            rows, epsilon = temps[0].view, op.float("epsilon")
            elementwise.rms_norm(writer, result, operands[0], operands[1], rows, epsilon)
        case Family.LAYER_NORM:
            bias = operands[2] if len(operands) == 3 else None
            elementwise.layer_norm(
                writer,
                result,
                operands[0],
                operands[1],
                bias,
                temps[0].view,
                op.float("epsilon"),
            )
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


def rearranged(op: Op, source: View, sizes: tuple[int, ...]) -> View:
    """The operand of an operator that strides can express, seen as its result of these sizes. DMA
    has taken the steps of a slice already where the operand has its sizes."""
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


def _copy_reshaped(writer: TileWriter, op: Op, result: View, source: View) -> None:
    """Gather a strided operand into a dense result of another shape: the result is written
    through the operand's shape, which is dense there too."""
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
    movement.pool(writer, REDUCE_FNS[op.kind], result, x, *window)
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
