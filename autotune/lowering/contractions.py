"""Emits contractions on the matrix unit, piece by piece of their reduction, over resident tiles.

A product of 8-bit integers (``Op.zeros``) becomes, for each tile of its result:

- LOADs of its factors in the format of their tensors, padded with the zero point; a bias as INT32. A
  factor that the group makes is FP32 words, which a CONVERT copies into a narrow buffer.
- MATMULs with ``a_format``, ``b_format``, ``a_zero`` and ``b_zero`` into INT32 words. Of a
  convolution ``a`` is the weight, as for float32.
- One CONVERT of the words from INT32 to FP32, in place and unscaled. The scale is an operator of
  the group behind it, as are activation, rounding and clamping: CHAINs on FP32 words.
- A STORE of FP32 words to a tensor of INT8 or UINT8, which narrows them.

A product of numbers that BF16 holds (``Op.is_bf16``) has factors of that format in the same way, and
FP32 sums with the epilogue of any product.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from autotune.fusion.nest import Epilogue, Stage, k_axis
from autotune.isa.formats import Format
from autotune.isa.functions import When
from autotune.isa.tile import TileWriter, View
from autotune.kernels.emit import contraction, winograd
from autotune.lowering import strassen
from autotune.lowering.conversion import convert
from autotune.lowering.joint_rows import joint_rows
from autotune.lowering.resident_tiles import Piece, ResidentTiles
from autotune.lowering.tiles import Origin
from autotune.lowering.vector_operators import scalars
from autotune.operators.axes import CHANNELS_LAST
from autotune.operators.contraction import channels_per_group
from autotune.operators.op import Family, Op
from autotune.operators.strassen import FACTORS, Factor, halved_axis
from autotune.operators.tensor import TensorType
from autotune.operators.winograd_conv import POINT


def contract(writer: TileWriter, resident: ResidentTiles, stage: Stage, result: View) -> None:
    """Emit the contraction of ``stage`` into ``result``; for Winograd its products and the way
    back. Sums of integers become float32 numbers in place."""
    if stage.op.family is Family.STRASSEN:
        _strassen(writer, resident, stage, result)
        return
    _pieces(writer, resident, stage, result)
    if stage.op.zeros is not None:
        convert(writer, result, result, Format.FP32, Format.INT32)
    if stage.op.family is Family.WINOGRAD:
        products = resident.temp(stage.temps[1]).view
        winograd_back(writer, result, products, _epilogue(resident, stage, When.ALWAYS))


def prepare(writer: TileWriter, resident: ResidentTiles, stage: Stage) -> None:
    """Emit the set-up of a contraction: the transform of Winograd's input, the sums of Strassen's, the made
    factors of a product of integers in their own format.

    It runs once for all tiles of the result that it serves.
    """
    for index, temp in stage.narrowed.items():
        narrow = resident.temp(temp).view
        wide = resident.operand(stage, index)
        convert(writer, narrow, wide, narrow.format, Format.FP32)
    if stage.op.family is Family.STRASSEN:
        strassen.add_inputs(writer, _quarters(resident, stage))
    if stage.op.family is Family.WINOGRAD:
        there = resident.temp(stage.temps[0]).view
        winograd.there(writer, there, resident.operand(stage, 0))


def _pieces(writer: TileWriter, resident: ResidentTiles, stage: Stage, result: View) -> None:
    """Accumulate over pieces of the reduction: full pieces in a loop, the rest peeled."""
    assert stage.contraction is not None
    nonzero = resident.nonzero.pieces(stage.contraction, resident.segments)
    if nonzero is not None:
        _nonzero_pieces(writer, resident, stage, result, nonzero)
        return
    extent = resident.nest.contractions[stage.contraction].k_extent
    size = resident.schedule.k_tile[stage.contraction]
    trips, rest = divmod(extent, size)
    if trips > 1:
        inner, level = writer.inner(), writer.depth
        by_level = {"accumulate": int(When.BY_LEVEL), "k_level": level}
        when = When.NEVER if rest else When.BY_LEVEL
        piece = Origin(0, ((level, size),)), size
        _piece(inner, resident, stage, result, piece, by_level, when)
        writer.close(inner, trips)
    else:
        never = {"accumulate": int(When.NEVER)}
        when = When.NEVER if rest else When.ALWAYS
        _piece(writer, resident, stage, result, (Origin(0, ()), size), never, when)
    if rest:
        always = {"accumulate": int(When.ALWAYS)}
        piece = Origin(trips * size, ()), rest
        _piece(writer, resident, stage, result, piece, always, When.ALWAYS)


def _nonzero_pieces(
    writer: TileWriter,
    resident: ResidentTiles,
    stage: Stage,
    result: View,
    nonzero: Sequence[tuple[int, int]],
) -> None:
    """Accumulate over the pieces that are not all zero, one by one: no two tiles need the same ones."""
    for first, size in nonzero:
        reduction = {"accumulate": int(When.NEVER if first == nonzero[0][0] else When.ALWAYS)}
        when = When.ALWAYS if first == nonzero[-1][0] else When.NEVER
        _piece(writer, resident, stage, result, (Origin(first, ()), size), reduction, when)


def _piece(
    writer: TileWriter,
    resident: ResidentTiles,
    stage: Stage,
    result: View,
    piece: Piece,
    reduction: dict[str, int],
    when: When,
) -> None:
    if stage.op.family is Family.WINOGRAD:
        _points(writer, resident, stage, piece)
        return
    views = [_factor(writer, resident, stage, index, piece) for index in range(2)]
    epilogue = _epilogue(resident, stage, when)
    reduction |= _formats(stage.op, views)
    compute_contraction(writer, stage.op, resident.types, result, views, reduction, epilogue)


def _formats(op: Op, factors: Sequence[View]) -> dict[str, int]:
    """Return formats and zero points of a product's operands; of a convolution the weight comes first."""
    if op.is_bf16:
        return {"a_format": int(Format.BF16), "b_format": int(Format.BF16)}
    if op.zeros is None:
        return {}
    sides = zip(factors, op.zeros, strict=True)
    a, b = sides if op.family is Family.MATMUL else reversed([*sides])
    return {
        "a_format": int(a[0].format),
        "b_format": int(b[0].format),
        "a_zero": a[1],
        "b_zero": b[1],
    }


def _strassen(writer: TileWriter, resident: ResidentTiles, stage: Stage, result: View) -> None:
    """Emit Strassen's product into ``result``, the factors of its weight piece by piece."""
    op, shape = stage.op, resident.types[stage.op.output].shape
    accumulators = resident.temp(stage.temps[1]).view
    epilogue = _epilogue(resident, stage, When.ALWAYS)
    blocks = strassen.blocks_of(result, accumulators, halved_axis(shape), op.int("block"), epilogue)
    products = strassen.Products(writer, _quarters(resident, stage), blocks, shape)
    assert stage.contraction is not None
    size = resident.schedule.k_tile[stage.contraction]
    for first in range(0, FACTORS, size):
        piece = Origin(first, ()), min(size, FACTORS - first)
        weight = _factor(writer, resident, stage, 1, piece)
        for factor in range(first, first + piece[1]):
            products.emit(Factor(factor), weight.slice(0, factor - first, 1).drop(0))


def _quarters(resident: ResidentTiles, stage: Stage) -> strassen.Halves:
    axis = halved_axis(resident.types[stage.op.output].shape)
    return strassen.quarters(resident.operand(stage, 0), resident.temp(stage.temps[0]).view, axis)


def _points(writer: TileWriter, resident: ResidentTiles, stage: Stage, piece: Piece) -> None:
    """Emit the products of some points of Winograd's convolution."""
    weight = _factor(writer, resident, stage, 1, piece)
    there, products = (_along(resident.temp(i).view, POINT, piece) for i in stage.temps)
    winograd.products(writer, products, weight, there)


def _factor(
    writer: TileWriter, resident: ResidentTiles, stage: Stage, index: int, piece: Piece
) -> View:
    """Return a piece of a factor along its reduction axis; load it unless it is resident."""
    buffer = stage.operands[index]
    if buffer is not None and resident.in_pieces(buffer):
        return resident.load_piece(writer, buffer, piece)
    if buffer is not None and resident.patches(buffer) is not None:
        return resident.loaded[buffer].view
    view = resident.factor(stage, index)
    if stage.op.family is Family.CONV and stage.op.int("group") > 1:
        return view
    axis = k_axis(stage.op, index, resident.types[stage.op.inputs[index]].shape)
    assert axis is not None
    return _along(view, axis, piece)


def _along(view: View, axis: int, piece: Piece) -> View:
    """Return the piece of a view along ``axis``."""
    origin, size = piece
    terms = tuple((level, step * view.strides[axis]) for level, step in origin.terms)
    return view.slice(axis, origin.first, size).moved(0, terms)


def _epilogue(resident: ResidentTiles, stage: Stage, when: When) -> dict[str, object]:
    bias, residual, fn = stage.epilogue.bias, stage.epilogue.residual, stage.epilogue.fn
    if when is When.NEVER or stage.epilogue == Epilogue():
        return {}
    fields: dict[str, object] = {"epilogue": int(when)}
    if bias is not None:
        fields["view"] = resident.loaded[bias].view
        by_rows = stage.op.family in (Family.MATMUL, Family.STRASSEN)
        fields["bias_axis"] = 2 if by_rows else 1
    if residual is not None:
        fields["residual"] = resident.side(residual)
    if fn is not None:
        fields.update(activation(fn))
    return fields


def activation(op: Op) -> dict[str, int | float]:
    """Return the epilogue fields of an activation merged into a contraction."""
    p0, p1 = scalars(op)
    return {"fn": int(op.function), "p0": p0, "p1": p1}


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
        result, a, epilogue = joint_rows(result, a, epilogue, types[op.output].shape)
        b = View(b.storage, b.offset, b.terms, b.sizes[-2:], b.strides[-2:])
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
    """Emit a convolution; strides express any layout as [N, C, H, W]."""
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
    """Return the groups of channels in a tile, which holds whole groups."""
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
