"""Scratchpad strides that a stage reads its operands with."""

from __future__ import annotations

from autotune.cost_model.steps.extents import Extent
from autotune.cost_model.steps.tiling import Tiles, Tiling
from autotune.fusion.nest import Stage
from autotune.operators.axis_map import Footprint
from autotune.operators.families import input_footprint
from autotune.operators.op import Family


def _view_of(tiling: Tiling, tensor: str) -> Stage | None:
    """The transpose that makes ``tensor`` by renaming its operand, if one does."""
    stages = (s for s in tiling.nest.stages if s.output == tensor)
    return next((s for s in stages if s.view and s.op.family is Family.TRANSPOSE), None)


def strided_pitches(
    tiling: Tiling, stage: Stage, tiles: Tiles, index: int
) -> tuple[Extent, ...] | None:
    """Return the strides of an element-wise stage's operand, or None if it lies as dense as the result.

    It does not where it is a transposed view, or part of a larger tile that stays for several trips.
    """
    x = stage.op.inputs[index]
    shape = tiling.nest.types[x].shape
    if len(shape) != len(stage.footprint):
        return None
    if _view_of(tiling, x) is None:
        held = zip(_held_footprint(tiling, stage, index), stage.footprint, shape, strict=True)
        if all(axis == own or n == 1 for axis, own, n in list(held)[1:]):
            return None
    steps = pitches(tiling, stage, tiles, index)
    return tuple([pitch if n > 1 else 0 for pitch, n in zip(steps, shape, strict=True)])


def pitches(tiling: Tiling, stage: Stage, tiles: Tiles, index: int = 0) -> list[Extent]:
    """Scratchpad strides of an operand of a stage: dense in the buffer that holds it."""
    view = _view_of(tiling, stage.op.inputs[index])
    if stage.operands[index] is None and view is not None:
        source = pitches(tiling, view, tiles)
        return [source[d] for d in view.op.ints("perm")]
    dense: list[Extent] = [1]
    for axis in reversed(_held_footprint(tiling, stage, index)[1:]):
        dense.append(dense[-1] * tiling.axis_size(axis, tiles.sizes))
    return dense[::-1]


def _held_footprint(tiling: Tiling, stage: Stage, index: int) -> Footprint:
    """Return the footprint of the tile that holds an operand."""
    held = stage.operands[index]
    if held is not None:
        return tiling.nest.buffers[held].footprint
    made = (s.footprint for s in tiling.nest.stages if s.output == stage.op.inputs[index])
    return next(made, input_footprint(stage.op, index, stage.footprint, tiling.nest.types))
