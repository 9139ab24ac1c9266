"""The vector instructions of a stage, counted from what lowering emits for it."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import assert_never

import numpy as np

from autotune.cost_model.steps.counting_writer import (
    CountingWriter,
    Temporary,
    VectorWork,
)
from autotune.cost_model.steps.extents import Extent, Extents, dense_strides
from autotune.cost_model.steps.operand_strides import pitches, strided_pitches
from autotune.cost_model.steps.tiling import Tiles, Tiling
from autotune.fusion.nest import Stage
from autotune.isa.functions import CostClass
from autotune.kernels.emit import movement
from autotune.lowering.vector_operators import compute, compute_chain
from autotune.operators.axis_map import AxisMap, Footprint
from autotune.operators.families import input_footprint
from autotune.operators.op import Family
from autotune.schedule.table import Ints
from autotune.targets.spec import HardwareSpec, VectorSpec


def pass_cycles(kind: CostClass, vector: VectorSpec) -> int:
    """Return the cycles of one pass over all lanes."""
    match kind:
        case CostClass.SIMPLE:
            return 1
        case CostClass.DIVIDE:
            return vector.divide_cycles
        case CostClass.TRANSCENDENTAL:
            return vector.transcendental_cycles
        case _:
            assert_never(kind)


def vector_work(tiling: Tiling, stage: Stage, tiles: Tiles, spec: HardwareSpec) -> list[VectorWork]:
    """Count the vector instructions of one run of a stage on each kind of tile."""
    if stage.view:
        return []
    result = _extents(tiling, stage.footprint, tiles)
    writer = CountingWriter(spec)
    if stage.op.family is Family.SOFTMAX:
        online = _online_work(tiling, stage, tiles, result)
        if online is not None:
            whole, work = online
            writer.weight = whole
            _emit(writer, tiling, stage, tiles, result)
            return [*work, *writer.work]
    _emit(writer, tiling, stage, tiles, result)
    return writer.work


def mask_work(tiling: Tiling, stage: Stage, tiles: Tiles, spec: HardwareSpec) -> list[VectorWork]:
    """Count the pass that puts padding around a result which a window operator reads."""
    writer = CountingWriter(spec)
    movement.mask(writer, _extents(tiling, stage.footprint, tiles), (), (), 0.0)
    return writer.work


def _emit(
    writer: CountingWriter, tiling: Tiling, stage: Stage, tiles: Tiles, result: Extents
) -> None:
    """Let lowering emit one run of a stage."""
    op = stage.op
    if stage.links:
        operands = {x: Extents(result.sizes) for x in op.inputs}
        operands |= {side.tensor: Extents(result.sizes) for side in stage.sides}
        operands |= _strided(tiling, stage, tiles, result)
        links = [
            (link.op, None if link.side is None else (link.side.tensor, operands[link.side.tensor]))
            for link in stage.links
        ]
        compute_chain(writer, op, links, result, [operands[x] for x in op.inputs])
        return
    sizes = dict(zip(stage.footprint, result.sizes, strict=True))
    temps = [
        Temporary(_extents(tiling, tiling.nest.buffers[index].footprint, tiles, sizes))
        for index in stage.temps
    ]
    if op.family is Family.POOL and temps:
        ones = temps[0].view.sizes
        temps[0] = Temporary(Extents(ones, dense_strides(ones)))
    operands_ = _operands(tiling, stage, tiles, result)
    compute(writer, op, tiling.nest.types, result, operands_, temps)


def _operands(tiling: Tiling, stage: Stage, tiles: Tiles, result: Extents) -> list[Extents]:
    """Return the operands' extents: of the regions that the operator reads, unless the result's stand for
    them, or reading them conflicts in banks, which strides tell."""
    op = stage.op
    match op.family:
        case Family.UNARY | Family.BINARY:
            strided = _strided(tiling, stage, tiles, result)
            return [strided.get(x, result) for x in op.inputs]
        case Family.SOFTMAX | Family.LAYER_NORM:
            return [result] * len(op.inputs)
        case Family.RESHAPE | Family.SLICE | Family.PAD | Family.EXPAND:
            return [result]
        case Family.CONV:
            weight = Extents(tiling.nest.types[op.inputs[1]].shape)
            image = Extents(result.sizes, tuple(pitches(tiling, stage, tiles)))
            bias = [Extents((result.sizes[op.axes.channel],))] if len(op.inputs) == 3 else []
            return [image, weight, *bias]
        case Family.TRANSPOSE:
            perm, strides = op.ints("perm"), tuple(pitches(tiling, stage, tiles))
            source = dict(zip(perm, result.sizes, strict=True))
            return [Extents(tuple(source[d] for d in range(len(perm))), strides)]
        case Family.POOL | Family.SLIDE:
            return [Extents(result.sizes, tuple(pitches(tiling, stage, tiles)))]
        case _:
            return [_input(tiling, stage, tiles, index) for index in range(len(op.inputs))]


def _strided(tiling: Tiling, stage: Stage, tiles: Tiles, result: Extents) -> dict[str, Extents]:
    """Return the operands of an element-wise stage that do not lie as dense as its result, with strides."""
    found = {}
    for index, x in enumerate(stage.op.inputs):
        strides = strided_pitches(tiling, stage, tiles, index)
        if strides is not None:
            found[x] = Extents(result.sizes, strides)
    return found


def _online_work(
    tiling: Tiling, stage: Stage, tiles: Tiles, result: Extents
) -> tuple[Ints, list[VectorWork]] | None:
    """Count an online softmax, where a schedule cuts the rows of its scores: None where none may,
    else 1 for schedules with whole rows and 0 for others [n], and the work of those others.

    Two passes over the scores, one over the product's sums; and once in all parts of a row, the
    sums filled and divided.
    """
    product = next((s for s in tiling.nest.stages if s.reduced), None)
    if product is None or product.op.inputs[0] != stage.output:
        return None
    assert tiling.nest.reduced is not None
    parts = tiling.parts[tiling.nest.reduced]
    cut = np.where(parts > 1, 1, 0)
    elements = result.elements
    rows = elements // result.sizes[stage.op.int("axis")]
    sums = _extents(tiling, product.footprint, tiles).elements
    return np.where(parts > 1, 0, 1), [
        VectorWork(cut, elements, 1, elements, (CostClass.TRANSCENDENTAL,)),
        VectorWork(cut, elements, 1, rows),
        VectorWork(cut, sums, 2, sums),
        VectorWork(cut, -(-2 * sums // parts), 2, sums),
        VectorWork(cut, -(-rows // parts), 1, rows, (CostClass.DIVIDE,)),
    ]


def _extents(
    tiling: Tiling,
    footprint: Footprint,
    tiles: Tiles,
    sizes: Mapping[AxisMap, Extent] = MappingProxyType({}),
) -> Extents:
    """Return the extents of a footprint; ``sizes`` are those of axes that are known already."""
    return Extents(
        tuple(
            [
                sizes[axis] if axis in sizes else tiling.axis_size(axis, tiles.sizes)
                for axis in footprint
            ]
        )
    )


def _input(tiling: Tiling, stage: Stage, tiles: Tiles, index: int) -> Extents:
    need = input_footprint(stage.op, index, stage.footprint, tiling.nest.types)
    return _extents(tiling, need, tiles)
