"""Which kernel variant computes a product's tile on the matrix unit, given the views of its operands."""

from __future__ import annotations

from collections.abc import Mapping

from autotune.fusion.footprint import channels_per_group
from autotune.isa.tile import TileWriter, View
from autotune.kernels.emit import contraction, winograd
from autotune.lowering.functions import UNARY_FNS, scalars
from autotune.operators.axes import CHANNELS_LAST
from autotune.operators.op import Family, Op
from autotune.operators.tensor import TensorType


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
    if all(n == 1 for n in b.sizes[:-2]):
        result, a, epilogue = _with_joint_rows(result, a, epilogue, types[op.output].shape)
        b = View(b.storage, b.offset, b.terms, b.sizes[-2:], b.strides[-2:])
    contraction.matmul(writer, result, a, b, reduction, epilogue)


def _with_joint_rows(
    result: View, a: View, epilogue: dict[str, object], shape: tuple[int, ...]
) -> tuple[View, View, dict[str, object]]:
    """Join the innermost batch axes to the rows, of a product by one matrix for all of them.

    Rows of a tile that cuts the result's ``shape`` are evenly spaced in the scratchpad alone, so
    they stay apart: a machine that works in place reads them where the tensor lies.
    """
    residual = epilogue.get("residual")
    added = [residual.broadcast(result.sizes)] if isinstance(residual, View) else []
    views = [result, a.broadcast((*result.sizes[:-2], *a.sizes[-2:])), *added]
    whole = result.sizes[-2] == shape[-2]
    for axis in reversed(range(result.rank - 2)):
        batch, rows = views[0].sizes[axis : axis + 2]
        if min(batch, rows) > 1 and not (whole and all(view.joins(axis) for view in views)):
            break
        views = [view.join(axis) for view in views]
        whole = whole and batch == shape[axis]
    return views[0], views[1], {**epilogue, "residual": views[2]} if added else epilogue


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
