"""Scratchpad strides that a stage reads its operands with, and the bank conflicts they cost."""

from __future__ import annotations

import numpy as np

from autotune.cost_model.steps.bank_conflicts import Extent, pass_conflict
from autotune.cost_model.steps.tiling import Tiles, Tiling
from autotune.fusion.nest import Stage
from autotune.operators.families import input_footprint
from autotune.operators.op import Family, Op
from autotune.targets.spec import HardwareSpec


def strided(op: Op, dense: list[Extent]) -> list[Extent]:
    """Scratchpad strides from one window's image elements to those of the next."""
    steps: tuple[Extent, ...] = op.axes.image(1, 1, op.ints("strides"))
    return [pitch * step for pitch, step in zip(dense, steps, strict=True)]


def _view_of(tiling: Tiling, tensor: str) -> Stage | None:
    """The transpose that makes ``tensor`` by renaming its operand, if one does."""
    stages = (s for s in tiling.nest.stages if s.output == tensor)
    return next((s for s in stages if s.view and s.op.family is Family.TRANSPOSE), None)


def turned_conflict(
    tiling: Tiling, stage: Stage, tiles: Tiles, out: list[Extent], spec: HardwareSpec
) -> Extent:
    """Cycles per pass of an element-wise stage for its operands that are transposed views."""
    worst: Extent = 1
    for index, x in enumerate(stage.op.inputs):
        if _view_of(tiling, x) is not None and len(tiling.nest.types[x].shape) == len(out):
            steps = pitches(tiling, stage, tiles, index)
            shape = tiling.nest.types[x].shape
            steps = [pitch if n > 1 else 0 for pitch, n in zip(steps, shape, strict=True)]
            worst = np.maximum(worst, conflict_of(out, steps, spec))
    return worst


def pitches(tiling: Tiling, stage: Stage, tiles: Tiles, index: int = 0) -> list[Extent]:
    """Scratchpad strides of an operand of a stage: dense in the buffer that holds it."""
    held = stage.operands[index]
    if held is not None:
        footprint = tiling.nest.buffers[held].footprint
    else:
        x = stage.op.inputs[index]
        view = _view_of(tiling, x)
        if view is not None:
            source = pitches(tiling, view, tiles)
            return [source[d] for d in view.op.ints("perm")]
        made = (s.footprint for s in tiling.nest.stages if s.output == x)
        need = input_footprint(stage.op, index, stage.footprint, tiling.nest.types)
        footprint = next(made, need)
    dense: list[Extent] = [1]
    for axis in reversed(footprint[1:]):
        dense.append(dense[-1] * tiling.axis_size(axis, tiles.sizes))
    return dense[::-1]


def conflict_of(sizes: list[Extent], strides: list[Extent], spec: HardwareSpec) -> Extent:
    """Cycles per pass of an operand with these strides, outer to inner."""
    return pass_conflict(sizes, strides, spec.vector.lanes, spec.scratchpad.banks)
