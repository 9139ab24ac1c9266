"""What one run of a stage that is no product makes a CPU's vector units do, by parts of ``work_kinds.py``;
``work_counts.py`` counts the runs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from autotune.cost_model.cached.work_kinds import Floats, Quantity, function_kind
from autotune.cost_model.steps.extents import Extent, product
from autotune.cost_model.steps.tiling import Tiles, Tiling
from autotune.cost_model.steps.vector_work import vector_work
from autotune.fusion.nest import Stage
from autotune.isa.functions import CostClass, UnaryFn
from autotune.operators.families import input_footprint
from autotune.operators.op import Family, OpKind
from autotune.targets.spec import HardwareSpec

Amounts = dict[str, Quantity]


def contiguous(extents: Sequence[Extent], shape: Sequence[Extent], like: Floats) -> Floats:
    """Elements of a tile that lie side by side both in it and in its row-major tensor of ``shape``: a
    dimension that it has whole, and no padding of, joins the one outside. The shape of ``like``."""
    run, whole = np.ones_like(like), np.ones(like.shape, dtype=bool)
    for extent, size in zip(reversed(extents), reversed(shape), strict=True):
        run = np.where(whole, run * extent, run)
        whole = whole & (np.asarray(extent) == size)
    return run


@dataclass(frozen=True, slots=True)
class TileRows:
    """Extents of a tile, its elements, rows of contiguous memory, and vectors along them [c, n]."""

    extents: list[Extent]
    elements: Floats
    rows: Floats
    vectors: Floats

    @classmethod
    def of(
        cls, extents: list[Extent], shape: tuple[int, ...], lanes: int, like: Floats
    ) -> TileRows:
        """A tile of a row-major tensor of ``shape``; dimensions that it has whole join the one
        outside of them. Arrays take the shape of ``like``."""
        elements = like * product(extents)
        # one that reaches beyond the tensor is not read there: it lies by itself
        held = [np.maximum(extent, size) for extent, size in zip(extents, shape, strict=True)]
        run = contiguous(extents, held, like)
        rows: Floats = elements / run
        return cls(extents, elements, rows, rows * np.ceil(run / lanes))

    def along(self, axis: int, lanes: int) -> Floats:
        """Vectors along one dimension alone."""
        extent = self.extents[axis]
        vectors: Floats = self.elements / extent * -(-extent // lanes)
        return vectors


def count_vector_work(
    tiling: Tiling, stage: Stage, tiles: Tiles, spec: HardwareSpec, turned: bool
) -> Amounts:
    """Count one run on a tile of ``tiles``; ``turned`` says that an operand has another order in memory.

    A family is counted by the kernels that are generated for it, or else by what lowering emits.
    """
    lanes = spec.vector.lanes
    like = np.ones(tiles.count.shape)
    out: list[Extent] = [tiling.axis_size(axis, tiles.sizes) for axis in stage.footprint]
    tile = TileRows.of(out, tiling.nest.types[stage.output].shape, lanes, like)
    strided = tile.elements * turned
    op = stage.op
    match op.family:
        case Family.UNARY | Family.BINARY:
            return _run(stage, tile) | {"strided": strided}
        case Family.CONV:
            return _depthwise(tiling, stage, tile, lanes, turned)
        case Family.POOL | Family.SLIDE:
            return _window(stage, tile, lanes)
        case Family.REDUCE:
            return _reduction(tiling, stage, tiles, tile, lanes, turned)
        case Family.SOFTMAX:
            return _softmax(stage, tile, lanes) | {"strided": strided}
        case Family.LAYER_NORM:
            return _layer_norm(stage, tile) | {"strided": strided}
        case Family.CONCAT:
            parts: Amounts = {"calls": float(len(op.inputs)), "rows": tile.rows * len(op.inputs)}
            return parts | {"passes": 2 * tile.vectors, "strided": strided}
        case (
            Family.RESHAPE
            | Family.SLICE
            | Family.PAD
            | Family.EXPAND
            | Family.TRANSPOSE
            | Family.GATHER
        ):
            return {"calls": 1.0, "copied": tile.elements}
        case _:
            return emitted_work(tiling, stage, tiles, spec) | {"strided": strided}


def emitted_work(tiling: Tiling, stage: Stage, tiles: Tiles, spec: HardwareSpec) -> Amounts:
    """Calls, passes and functions of the vector instructions that lowering emits."""
    calls = passes = divisions = slow = np.zeros(tiles.count.shape)
    for work in vector_work(tiling, stage, tiles, spec):
        repeats = np.asarray(work.repeats, dtype=np.float64)
        vectors = repeats * np.ceil(np.asarray(work.elements) / spec.vector.lanes)
        written = repeats * np.ceil(np.asarray(work.written) / spec.vector.lanes)
        calls = calls + repeats
        passes = passes + vectors * work.operands + written
        divisions = divisions + vectors * work.classes.count(CostClass.DIVIDE)
        slow = slow + vectors * work.classes.count(CostClass.TRANSCENDENTAL)
    exponentials = function_kind(UnaryFn.EXP)
    return {"calls": calls, "passes": passes, "divisions": divisions, exponentials: slow}


def _run(stage: Stage, tile: TileRows) -> Amounts:
    functions = [op.function for op in (stage.op, *(link.op for link in stage.links))]
    inlined = [fn.row for fn in functions if fn.row.is_generated]
    costly: Amounts = {}
    for fn in functions:
        if fn.row.cpu_cycles:
            each = tile.vectors if fn.row.is_generated else tile.elements
            costly[function_kind(fn)] = costly.get(function_kind(fn), 0.0) + each
    reads = 1 + len({*stage.op.inputs[1:], *(side.tensor for side in stage.sides)})
    found: Amounts = {
        "calls": 1.0,
        "passes": tile.vectors * (reads + 1),
        "rows": tile.rows,
        "divisions": tile.vectors * sum(row.cost is CostClass.DIVIDE for row in inlined),
    }
    return found | costly


def _depthwise(tiling: Tiling, stage: Stage, tile: TileRows, lanes: int, turned: bool) -> Amounts:
    axes = stage.op.axes
    taps = math.prod(axes.taps(tiling.nest.types[stage.op.inputs[1]].shape))
    vectors = tile.along(axes.channel, lanes)
    return {
        "calls": 1.0,
        "taps": vectors * taps,
        "rows": tile.elements / tile.extents[axes.channel],
        "strided": tile.elements * taps * turned,
    }


def _window(stage: Stage, tile: TileRows, lanes: int) -> Amounts:
    op = stage.op
    if op.family is Family.SLIDE:
        reach = op.int("before") + 1 + op.int("after")
        return {"calls": 1.0, "window": tile.vectors * reach}
    channel = op.axes.channel
    return {
        "calls": tile.extents[op.axes.batch],
        "window": tile.along(channel, lanes) * math.prod(op.ints("kernel")),
        "rows": tile.elements / tile.extents[channel],
    }


def _reduction(
    tiling: Tiling, stage: Stage, tiles: Tiles, tile: TileRows, lanes: int, turned: bool
) -> Amounts:
    need = input_footprint(stage.op, 0, stage.footprint, tiling.nest.types)
    extents: list[Extent] = [tiling.axis_size(axis, tiles.sizes) for axis in need]
    shape = tiling.nest.types[stage.op.inputs[0]].shape
    read = TileRows.of(extents, shape, lanes, np.ones_like(tile.elements))
    last = len(extents) - 1
    return {
        "calls": 1.0 + (stage.op.kind is OpKind.REDUCE_MEAN),
        "reduced": read.along(last, lanes),
        "folds": tile.elements * (last in stage.op.ints("axes")),
        "strided": read.elements * turned,
    }


def _softmax(stage: Stage, tile: TileRows, lanes: int) -> Amounts:
    axis = stage.op.int("axis")
    rows = tile.elements / tile.extents[axis]
    return {
        "calls": 5.0,
        "reduced": 2 * tile.vectors,
        "passes": 4 * tile.vectors,
        function_kind(UnaryFn.EXP): tile.vectors,
        "divisions": rows / lanes,
        "folds": 2 * rows * (axis == len(tile.extents) - 1),
        "rows": 2 * rows,
    }


def _layer_norm(stage: Stage, tile: TileRows) -> Amounts:
    width: Extent = math.prod(tile.extents[stage.op.int("axis") :])
    rows = tile.elements / width
    if stage.op.kind is OpKind.RMS_NORM:
        return {
            "calls": 4.0,
            "reduced": tile.vectors,
            "passes": 5 * tile.vectors,
            "folds": rows,
            "rows": 2 * rows,
            "divisions": rows,
        }
    return {
        "calls": 7.0,
        "reduced": 2 * tile.vectors,
        "passes": 8 * tile.vectors,
        "folds": 2 * rows,
        "rows": 3 * rows,
        "divisions": rows,
    }
