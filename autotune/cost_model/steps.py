"""Lists the steps of a nest in program order with their costs; pipeline and features read them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from autotune.cost_model.step import Step
from autotune.cost_model.tiling import Corner, Floats, Tiling
from autotune.cost_model.traffic import transfer
from autotune.cost_model.work import Cost, mask_cost, stage_cost
from autotune.fusion.footprint import Footprint
from autotune.fusion.nest import Stage
from autotune.isa.table import Unit
from autotune.schedule.table import Ints
from autotune.targets.spec import HardwareSpec


def steps_of(tiling: Tiling, spec: HardwareSpec) -> list[Step]:
    """Loads before the stage that needs them first, the stage, its mask, its store."""
    nest = tiling.nest
    loaded: set[int] = set()
    steps: list[Step] = []
    for stage in nest.stages:
        bias = stage.epilogue.bias
        for index in (*stage.operands, bias):
            if index is not None and index not in loaded:
                loaded.add(index)
                steps.append(_load(tiling, stage, index, spec))
        steps.extend(_computed(tiling, stage, spec))
        if stage.output in nest.stores:
            steps.append(_store(tiling, stage, spec))
    return steps


def _stage_dims(stage: Stage) -> frozenset[int]:
    return frozenset(axis.dim for axis in stage.footprint if axis.dim is not None)


def _load(tiling: Tiling, stage: Stage, index: int, spec: HardwareSpec) -> Step:
    buffer = tiling.nest.buffers[index]
    level, pieces, chunk, dims = tiling.level(buffer.dims), tiling.ones, None, buffer.dims
    if buffer.chunk is not None:
        k = tiling.k_dim(buffer.chunk[0])
        in_pieces = tiling.parts[k] > 1
        level = np.where(in_pieces, tiling.level(_stage_dims(stage)), level)
        pieces, chunk, dims = tiling.parts[k], (buffer.chunk[1], k), dims | {k}
    return _moved(tiling, stage, index, Unit.LOAD, buffer.footprint, buffer.tensor, level, pieces,
                  chunk, dims, spec)


def _store(tiling: Tiling, stage: Stage, spec: HardwareSpec) -> Step:
    dims = _stage_dims(stage)
    return _moved(tiling, stage, stage.result, Unit.STORE, stage.footprint, stage.output,
                  tiling.level(dims), tiling.ones, None, dims, spec)


def _moved(
    tiling: Tiling, stage: Stage, index: int, unit: Unit, footprint: Footprint, tensor: str,
    level: Ints, pieces: Ints, chunk: tuple[int, int] | None, dims: frozenset[int],
    spec: HardwareSpec,
) -> Step:
    shape = tiling.nest.types[tensor].shape
    repeats = _repeats(tiling, dims, level)
    totals = np.zeros((6, tiling.n))
    tile_cycles: Floats | None = None
    for corner in tiling.corners(dims):
        part = transfer(tiling, footprint, shape, corner, chunk, spec)
        touched = _rectangle(tiling, footprint, corner, chunk)
        # a scratchpad takes one line of all its banks per cycle
        lines = np.ceil(touched / spec.scratchpad.banks)
        busy = spec.dram.setup_cycles + np.maximum(part.cycles, lines)
        tile_cycles = busy * pieces if tile_cycles is None else tile_cycles
        totals += corner.count * repeats * np.stack([
            tiling.ones, busy, part.useful_bytes, part.moved_bytes, part.runs, touched
        ])
    assert tile_cycles is not None
    count, cycles, useful, moved, runs, touched = totals
    return Step(
        unit, stage, index, level, count / pieces, cycles, tile_cycles, count, pieces, touched,
        useful_bytes=useful, moved_bytes=moved, runs=runs,
    )


def _rectangle(
    tiling: Tiling, footprint: Footprint, corner: Corner, chunk: tuple[int, int] | None
) -> Floats:
    """Elements of a tile in the scratchpad, padding included."""
    elements = np.ones(tiling.n)
    for position, axis in enumerate(footprint):
        if chunk is not None and position == chunk[0]:
            elements = elements * corner.sizes[chunk[1]]
        else:
            elements = elements * tiling.axis_size(axis, corner.sizes)
    return elements


def _repeats(tiling: Tiling, dims: frozenset[int], level: Ints) -> Floats:
    """Over all cores: what lies outside every loop runs on each of them."""
    repeats = tiling.repeats(dims, level)
    return np.where(level < 0, repeats * tiling.active_cores, repeats).astype(np.float64)


def _computed(tiling: Tiling, stage: Stage, spec: HardwareSpec) -> Iterator[Step]:
    dims = _stage_dims(stage)
    level, pieces, unit = tiling.level(dims), tiling.ones, Unit.VECTOR
    if stage.contraction is not None:
        k = tiling.k_dim(stage.contraction)
        pieces, unit = tiling.parts[k], Unit.MATRIX
        yield _summed(tiling, stage, unit, level, pieces, dims | {k}, stage_cost, spec)
    elif not stage.view:
        yield _summed(tiling, stage, unit, level, pieces, dims, stage_cost, spec)
    if stage.mask is not None:
        yield _summed(tiling, stage, Unit.VECTOR, level, tiling.ones, dims, mask_cost, spec)


def _summed(
    tiling: Tiling, stage: Stage, unit: Unit, level: Ints, pieces: Ints, dims: frozenset[int],
    cost_of: Callable[[Tiling, Stage, Corner, HardwareSpec], Cost], spec: HardwareSpec,
) -> Step:
    repeats = _repeats(tiling, dims, level)
    totals = np.zeros((6, tiling.n))
    tile_cycles: Floats | None = None
    for corner in tiling.corners(dims):
        cost = cost_of(tiling, stage, corner, spec)
        tile_cycles = cost.cycles * pieces if tile_cycles is None else tile_cycles
        weight = corner.count * repeats
        totals[0] += weight
        totals[1] += weight * cost.cycles
        totals[2] += weight * cost.instructions
        totals[3] += weight * cost.multiply_adds
        totals[4] += weight * cost.lane_elements
        totals[5] += weight * cost.touched
    assert tile_cycles is not None
    count, cycles, instructions, multiply_adds, lane_elements, touched = totals
    return Step(
        unit, stage, stage.result, level, count / pieces, cycles, tile_cycles, instructions, pieces,
        touched, multiply_adds=multiply_adds, lane_elements=lane_elements,
    )
