"""What the vector unit runs for a stage of a tile, from shapes alone; work.py prices it.

Mirrors what the kernel variants in ``kernels/`` emit for an operator, instruction by instruction.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import assert_never

import numpy as np

from autotune.cost_model.steps.operand_strides import (
    conflict_of,
    pitches,
    strided,
    turned_conflict,
)
from autotune.cost_model.steps.tiling import Tiles, Tiling
from autotune.fusion.nest import Stage
from autotune.isa.functions import CostClass
from autotune.operators.axis_map import Footprint
from autotune.operators.contraction import is_depthwise
from autotune.operators.families import input_footprint
from autotune.operators.op import Family, OpKind
from autotune.schedule.table import Ints
from autotune.targets.spec import HardwareSpec, VectorSpec

Extent = Ints | int


_ONE, _TWO = (CostClass.SIMPLE,), (CostClass.SIMPLE, CostClass.SIMPLE)


@dataclass(frozen=True, slots=True)
class VectorWork:
    """``repeats`` equal vector instructions over ``elements`` each, which read ``operands``
    elements per element and write ``written`` in all."""

    repeats: Extent
    elements: Extent
    operands: int
    written: Extent
    kinds: tuple[CostClass, ...] = (CostClass.SIMPLE,)
    """Of the stages that a pass runs through."""
    conflict: Extent = 1
    """Cycles that reading one pass takes for its banks."""


def pass_cycles(kind: CostClass, vector: VectorSpec) -> int:
    """Cycles of one pass over all lanes."""
    match kind:
        case CostClass.SIMPLE:
            return 1
        case CostClass.DIVIDE:
            return vector.divide_cycles
        case CostClass.TRANSCENDENTAL:
            return vector.transcendental_cycles
        case _:
            assert_never(kind)


def vector_work(
    tiling: Tiling, stage: Stage, tiles: Tiles, spec: HardwareSpec
) -> Iterator[VectorWork]:
    """What the vector unit runs for a stage."""
    op = stage.op
    out = [tiling.axis_size(axis, tiles.sizes) for axis in stage.footprint]
    elements = product(out)
    if stage.view:
        return
    match op.family:
        case Family.UNARY | Family.BINARY:
            run = (op, *(link.op for link in stage.links))
            kinds = tuple(x.function.row.cost for x in run)
            reads = 1 + len({*op.inputs[1:], *(side.tensor for side in stage.sides)})
            conflict = turned_conflict(tiling, stage, tiles, out, spec)
            yield VectorWork(1, elements, reads, elements, kinds, conflict)
        case Family.TRANSPOSE:
            dense = pitches(tiling, stage, tiles)
            turned = [dense[d] for d in op.ints("perm")]
            conflict = conflict_of(out, turned, spec)
            yield VectorWork(1, elements, 1, elements, conflict=conflict)
        case Family.RESHAPE | Family.SLICE | Family.PAD | Family.EXPAND:
            yield VectorWork(1, elements, 1, elements)
        case Family.CONV:
            yield from _depthwise(tiling, stage, tiles, out, spec)
        case Family.POOL:
            yield from _pool(tiling, stage, tiles, out, spec)
        case Family.SLIDE:
            yield _slide(tiling, stage, tiles, out, spec)
        case Family.REDUCE:
            yield VectorWork(1, _input_elements(tiling, stage, tiles, 0), 1, elements)
            if op.kind is OpKind.REDUCE_MEAN:
                yield VectorWork(1, elements, 1, elements)
        case Family.SOFTMAX:
            yield from _softmax(tiling, stage, tiles, elements, elements // out[op.int("axis")])
        case Family.LAYER_NORM:
            yield from _layer_norm(stage, elements, elements // product(out[op.int("axis") :]))
        case Family.CONCAT:
            for index in range(len(op.inputs)):
                part = _input_elements(tiling, stage, tiles, index)
                yield VectorWork(1, part, 1, part)
        case Family.MATMUL | Family.WINOGRAD | Family.GATHER:
            raise AssertionError("it runs on another unit")
        case _:
            assert_never(op.family)


def _depthwise(
    tiling: Tiling, stage: Stage, tiles: Tiles, out: list[Extent], spec: HardwareSpec
) -> Iterator[VectorWork]:
    op, types = stage.op, tiling.nest.types
    assert is_depthwise(op, types)
    taps = math.prod(op.axes.taps(types[op.inputs[1]].shape))
    elements = product(out)
    stepped = strided(op, pitches(tiling, stage, tiles))
    conflict = conflict_of(out, stepped, spec)
    yield VectorWork(1, elements, 2, elements, conflict=conflict)
    yield VectorWork(taps - 1, elements, 3, elements, conflict=conflict)
    if len(op.inputs) == 3:
        yield VectorWork(1, elements, 2, elements)


def _softmax(
    tiling: Tiling, stage: Stage, tiles: Tiles, elements: Extent, rows: Extent
) -> Iterator[VectorWork]:
    """Of whole rows, or, where a schedule cuts those of an online softmax, of a tile of them."""
    whole: Extent = 1
    after = next((s for s in tiling.nest.stages if s.reduced), None)
    if after is not None and after.op.inputs[0] == stage.output:
        assert tiling.nest.reduced is not None
        parts = tiling.parts[tiling.nest.reduced]
        whole = np.where(parts > 1, 0, 1)
        yield from _online(tiling, after, tiles, elements, rows, parts)
    yield VectorWork(2 * whole, elements, 1, rows)
    yield VectorWork(whole, elements, 2, elements, (CostClass.SIMPLE, CostClass.TRANSCENDENTAL))
    yield VectorWork(whole, elements, 2, elements)
    yield VectorWork(whole, rows, 1, rows, (CostClass.DIVIDE,))


def _online(
    tiling: Tiling, stage: Stage, tiles: Tiles, elements: Extent, rows: Extent, parts: Ints
) -> Iterator[VectorWork]:
    """Two passes over the scores, one over the product's sums; and once in ``parts``, for all tiles,
    the sums filled and divided."""
    cut = np.where(parts > 1, 1, 0)
    sums = product([tiling.axis_size(axis, tiles.sizes) for axis in stage.footprint])
    yield VectorWork(cut, elements, 1, elements, (CostClass.TRANSCENDENTAL,))
    yield VectorWork(cut, elements, 1, rows)
    yield VectorWork(cut, sums, 2, sums)
    yield VectorWork(cut, -(-2 * sums // parts), 2, sums)
    yield VectorWork(cut, -(-rows // parts), 1, rows, (CostClass.DIVIDE,))


def _layer_norm(stage: Stage, elements: Extent, rows: Extent) -> Iterator[VectorWork]:
    if stage.op.kind is OpKind.RMS_NORM:
        yield VectorWork(1, elements, 1, elements)
        yield VectorWork(1, elements, 1, rows)
        yield VectorWork(1, rows, 1, rows, (CostClass.SIMPLE, CostClass.DIVIDE))
        yield VectorWork(1, elements, 3, elements, _TWO)
        return
    yield VectorWork(2, elements, 1, rows)
    yield VectorWork(1, rows, 1, rows)
    yield VectorWork(1, elements, 2, elements, _TWO)
    yield VectorWork(1, rows, 1, rows, (CostClass.SIMPLE, CostClass.DIVIDE))
    yield VectorWork(1, elements, 3, elements, _TWO)
    has_bias = len(stage.op.inputs) == 3
    yield VectorWork(1, elements, 3 if has_bias else 2, elements, _TWO if has_bias else _ONE)


def _pool(
    tiling: Tiling, stage: Stage, tiles: Tiles, out: list[Extent], spec: HardwareSpec
) -> Iterator[VectorWork]:
    op = stage.op
    kernel, dilations = op.ints("kernel"), op.ints("dilations")
    window, pixels = math.prod(kernel), product([*op.axes.sizes(out)])
    image = out[op.axes.channel] * pixels
    dense = pitches(tiling, stage, tiles)
    down, across = op.axes.sizes(dense)
    steps = [*strided(op, dense)[1:], down * dilations[0], across * dilations[1]]
    conflict = conflict_of([*out[1:], *kernel], steps, spec)
    yield VectorWork(out[op.axes.batch], image * window, 1, image, conflict=conflict)
    if op.kind is OpKind.MAX_POOL:
        return
    yield VectorWork(1, product(out), 2 if stage.temps else 1, product(out))
    if stage.temps:
        yield from _window_counts(tiling, stage, tiles, [*op.axes.sizes(out)], spec)


def _window_counts(
    tiling: Tiling, stage: Stage, tiles: Tiles, pixels: list[Extent], spec: HardwareSpec
) -> Iterator[VectorWork]:
    """How many elements of each window lie inside the tensor, for one image of one channel."""
    kernel, strides, dilations = (stage.op.ints(n) for n in ("kernel", "strides", "dilations"))
    footprint = tiling.nest.buffers[stage.temps[0]].footprint
    ones = [tiling.axis_size(axis, tiles.sizes) for axis in stage.op.axes.sizes(footprint)]
    yield VectorWork(2, product(ones), 0, product(ones))
    steps = [ones[1] * strides[0], strides[1], ones[1] * dilations[0], dilations[1]]
    conflict = conflict_of([*pixels, *kernel], steps, spec)
    counted, window = product(pixels), math.prod(kernel)
    yield VectorWork(1, counted * window, 1, counted, conflict=conflict)
    yield VectorWork(1, counted, 1, counted, (CostClass.DIVIDE,))


def _slide(
    tiling: Tiling, stage: Stage, tiles: Tiles, out: list[Extent], spec: HardwareSpec
) -> VectorWork:
    op = stage.op
    window = op.int("before") + 1 + op.int("after")
    dense = pitches(tiling, stage, tiles)
    conflict = conflict_of([*out, window], [*dense, dense[op.int("axis")]], spec)
    elements = product(out)
    return VectorWork(1, elements * window, 1, elements, conflict=conflict)


def _input_elements(tiling: Tiling, stage: Stage, tiles: Tiles, index: int) -> Extent:
    need: Footprint = input_footprint(stage.op, index, stage.footprint, tiling.nest.types)
    return product([tiling.axis_size(axis, tiles.sizes) for axis in need])


def product(extents: list[Extent]) -> Extent:
    """Of extents, any of which may be arrays."""
    total: Extent = 1
    for extent in extents:
        total = total * extent
    return total
