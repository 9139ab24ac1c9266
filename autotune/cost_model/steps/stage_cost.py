"""What a stage costs its unit: matrix folds and vector passes of one tile, from shapes alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from autotune.cost_model.steps.counting_writer import VectorWork
from autotune.cost_model.steps.extents import Extent, product
from autotune.cost_model.steps.product_rows import product_rows
from autotune.cost_model.steps.tiling import Floats, Tiles, Tiling, as_floats
from autotune.cost_model.steps.vector_work import mask_work, pass_cycles, vector_work
from autotune.fusion.nest import Stage
from autotune.isa.formats import ELEMENT_BYTES, Format
from autotune.operators.axis_map import Footprint
from autotune.operators.contraction import channels_per_group
from autotune.operators.op import Family
from autotune.targets.spec import HardwareSpec, MatrixSpec


@dataclass(frozen=True, slots=True)
class StageCost:
    """Cost of one run of a stage: busy cycles, instructions, multiply-adds, vector elements times their
    cycles per pass, scratchpad words read and written, and the cycles ``behind`` the last read of an image."""

    cycles: Floats | float
    instructions: Extent
    multiply_adds: Floats | float
    lane_elements: Floats | float
    touched: Floats | float
    behind: Floats | None = None


def matrix_cycles(
    m: Extent, n: Extent, k: Extent, matrix: MatrixSpec, format: Format = Format.FP32
) -> Extent:
    """One MATMUL: every fold streams what is not held past the array, skewed by rows + cols − 2;
    an operand that is held is shifted in first (Samajdar et al. 2018, SCALE-Sim,
    arXiv:1811.02883, eq. 1). A cell takes several neighbours of the summed dimension at once where
    the format allows it."""
    rows, cols = matrix.rows, matrix.cols
    k = -(-k // max(1, matrix.macs_per_cell(format)))
    match matrix.dataflow:
        case "ws":
            folds, streamed = -(-k // rows) * -(-n // cols), m + rows
        case "is":
            folds, streamed = -(-k // rows) * -(-m // cols), n + rows
        case _:
            folds, streamed = -(-m // rows) * -(-n // cols), k
    return matrix.setup_cycles + folds * (streamed + rows + cols - 2)


def stage_cost(tiling: Tiling, stage: Stage, tiles: Tiles, spec: HardwareSpec) -> StageCost:
    """One run of a stage on a tile of the tiles's extents (and reduction piece)."""
    if stage.contraction is not None:
        return _contraction(tiling, stage, tiles, spec)
    counted = vector_work(tiling, stage, tiles, spec)
    cost = _vector_cost(counted, tiles, spec)
    if stage.op.family is not Family.CONV or len(stage.op.inputs) < 3:
        return cost
    bias = _vector_cost(counted[-1:], tiles, spec).cycles
    return replace(cost, behind=np.zeros(tiles.count.shape) + bias)


def mask_cost(tiling: Tiling, stage: Stage, tiles: Tiles, spec: HardwareSpec) -> StageCost:
    """Return the cost of the pass that puts padding around a result."""
    return _vector_cost(mask_work(tiling, stage, tiles, spec), tiles, spec)


def conversion_cost(
    footprint: Footprint, tiling: Tiling, stage: Stage, tiles: Tiles, spec: HardwareSpec
) -> StageCost:
    """Return the cost of the pass that converts a tile between number formats."""
    elements = product(tiling.axis_size(axis, tiles.sizes) for axis in footprint)
    return _vector_cost([VectorWork(1, elements, 1, elements)], tiles, spec)


def _vector_cost(counted: Sequence[VectorWork], tiles: Tiles, spec: HardwareSpec) -> StageCost:
    """Sum the cost of vector instructions, for each kind of tile [c, n]."""
    cycles, lane_elements, touched = (np.zeros(tiles.count.shape) for _ in range(3))
    instructions: Extent = 0
    for work in counted:
        stages = [pass_cycles(cost, spec.vector) for cost in work.classes]
        passes = -(-work.elements // spec.vector.lanes) * max(stages) * work.conflict
        cycles += work.repeats * (spec.vector.setup_cycles + len(stages) - 1 + passes)
        instructions = instructions + work.repeats
        lane_elements += work.repeats * work.elements * sum(stages)
        touched += work.repeats * (work.elements * work.operands + work.written)
    return StageCost(cycles, instructions, 0.0, lane_elements, touched)


def _contraction(tiling: Tiling, stage: Stage, tiles: Tiles, spec: HardwareSpec) -> StageCost:
    assert stage.contraction is not None
    op, types = stage.op, tiling.nest.types
    out = [tiling.axis_size(axis, tiles.sizes) for axis in stage.footprint]
    piece = tiles.sizes[tiling.k_dim(stage.contraction)]
    if op.family is Family.CONV:
        axes, sizes = op.axes, channels_per_group(op, types)
        taps = math.prod(axes.taps(types[op.inputs[1]].shape))
        m = out[axes.channel] if sizes is None else sizes[1]
        n = product([*axes.sizes(out)])
        k, repeats = piece * taps, out[axes.batch] * (out[axes.channel] // m)
        if _may_take_patches(tiling, stage):
            joined = tiling.table.im2col == 1
            n = np.where(joined, n * out[axes.batch], n)
            repeats = np.where(joined, 1, repeats)
    else:
        m, repeats = product_rows(op, types, out)
        n, k = out[-1], piece
    cycles = repeats * matrix_cycles(m, n, k, spec.matrix, op.multiplied)
    macs = as_floats(repeats * m * n * k)
    streamed = k * (-(-n // spec.matrix.cols) * m + -(-m // spec.matrix.rows) * n)
    streamed = streamed * (op.multiplied.bytes / ELEMENT_BYTES)
    # every piece writes its results, all but the first read them to add to
    again = 2.0 - 1.0 / tiling.parts[tiling.k_dim(stage.contraction)]
    if stage.epilogue.residual is not None:
        again = again + 1.0 / tiling.parts[tiling.k_dim(stage.contraction)]
    touched = as_floats(repeats * (streamed + again * m * n))
    return StageCost(as_floats(cycles), repeats, macs, 0.0, touched)


def _may_take_patches(tiling: Tiling, stage: Stage) -> bool:
    image = stage.operands[0]
    return image is not None and tiling.nest.buffers[image].patches is not None
