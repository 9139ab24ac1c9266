"""Emits the contraction of a stage, piece by piece of its reduction, over what is resident."""

from __future__ import annotations

from collections.abc import Sequence

from autotune.fusion.footprint import POINT
from autotune.fusion.nest import Epilogue, Stage, k_axis
from autotune.isa.functions import When
from autotune.isa.tile import TileWriter, View
from autotune.kernels.emit import winograd
from autotune.lowering.products import activation, compute_contraction, winograd_back
from autotune.lowering.resident import Piece, Resident
from autotune.lowering.tiles import Origin
from autotune.operators.op import Family


def contract(writer: TileWriter, resident: Resident, stage: Stage, result: View) -> None:
    """Emit the contraction of ``stage`` into ``result``; of Winograd's the products, and the way back."""
    _pieces(writer, resident, stage, result)
    if stage.op.family is Family.WINOGRAD:
        products = resident.temp(stage.temps[1]).view
        winograd_back(writer, result, products, _epilogue(resident, stage, When.ALWAYS))


def prepare(writer: TileWriter, resident: Resident, stage: Stage) -> None:
    """Emit what a contraction is made of besides its operands, the transform of Winograd's input: once
    for all tiles of the result that it serves."""
    if stage.op.family is Family.WINOGRAD:
        there = resident.temp(stage.temps[0]).view
        winograd.there(writer, there, resident.operand(stage, 0))


def _pieces(writer: TileWriter, resident: Resident, stage: Stage, result: View) -> None:
    """Accumulate over pieces of the reduction: full pieces in a loop, the rest peeled."""
    assert stage.contraction is not None
    kept = resident.kept.pieces(stage.contraction, resident.segments)
    if kept is not None:
        _kept_pieces(writer, resident, stage, result, kept)
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


def _kept_pieces(
    writer: TileWriter,
    resident: Resident,
    stage: Stage,
    result: View,
    kept: Sequence[tuple[int, int]],
) -> None:
    """Accumulate over the pieces that are not all zero, one by one: no two tiles need the same ones."""
    for first, size in kept:
        reduction = {"accumulate": int(When.NEVER if first == kept[0][0] else When.ALWAYS)}
        when = When.ALWAYS if first == kept[-1][0] else When.NEVER
        _piece(writer, resident, stage, result, (Origin(first, ()), size), reduction, when)


def _piece(
    writer: TileWriter,
    resident: Resident,
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
    compute_contraction(writer, stage.op, resident.types, result, views, reduction, epilogue)


def _points(writer: TileWriter, resident: Resident, stage: Stage, piece: Piece) -> None:
    """The products of some points of Winograd's convolution."""
    weight = _factor(writer, resident, stage, 1, piece)
    there, products = (_along(resident.temp(i).view, POINT, piece) for i in stage.temps)
    winograd.products(writer, products, weight, there)


def _factor(writer: TileWriter, resident: Resident, stage: Stage, index: int, piece: Piece) -> View:
    """A piece of a factor along its reduction axis: loaded now, or of what is resident."""
    buffer = stage.operands[index]
    if buffer is not None and resident.in_pieces(buffer):
        return resident.load_piece(writer, buffer, piece)
    if buffer is not None and resident.patches(buffer) is not None:
        return resident.loaded[buffer].view
    view = resident.operand(stage, index)
    if stage.op.family is Family.CONV and stage.op.int("group") > 1:
        return view
    axis = k_axis(stage.op, index, resident.types[stage.op.inputs[index]].shape)
    assert axis is not None
    return _along(view, axis, piece)


def _along(view: View, axis: int, piece: Piece) -> View:
    """The piece of a view along ``axis``."""
    origin, size = piece
    terms = tuple((level, step * view.strides[axis]) for level, step in origin.terms)
    return view.slice(axis, origin.first, size).moved(0, terms)


def _epilogue(resident: Resident, stage: Stage, when: When) -> dict[str, object]:
    bias, residual, fn = stage.epilogue.bias, stage.epilogue.residual, stage.epilogue.fn
    if when is When.NEVER or stage.epilogue == Epilogue():
        return {}
    fields: dict[str, object] = {"epilogue": int(when)}
    if bias is not None:
        fields["view"] = resident.loaded[bias].view
        fields["bias_axis"] = 2 if stage.op.family is Family.MATMUL else 1
    if residual is not None:
        fields["residual"] = resident.side(residual)
    if fn is not None:
        fields.update(activation(fn))
    return fields
