"""Scratchpad strides that a stage reads its operands with."""

from __future__ import annotations

from autotune.cost_model.steps.extents import Extent
from autotune.cost_model.steps.tiling import Tiles, Tiling
from autotune.fusion.nest import Stage
from autotune.operators.families import input_footprint
from autotune.operators.op import Family


def _view_of(tiling: Tiling, tensor: str) -> Stage | None:
    """The transpose that makes ``tensor`` by renaming its operand, if one does."""
    stages = (s for s in tiling.nest.stages if s.output == tensor)
    return next((s for s in stages if s.view and s.op.family is Family.TRANSPOSE), None)


def transposed_pitches(
    tiling: Tiling, stage: Stage, tiles: Tiles, index: int
) -> tuple[Extent, ...] | None:
    """Return the strides of an element-wise stage's operand if it is a transposed view, else None."""
    x = stage.op.inputs[index]
    shape = tiling.nest.types[x].shape
    if _view_of(tiling, x) is None or len(shape) != len(stage.footprint):
        return None
    steps = pitches(tiling, stage, tiles, index)
    return tuple([pitch if n > 1 else 0 for pitch, n in zip(steps, shape, strict=True)])


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
