"""What Strassen's product costs its units: sums of x, seven products of quarters, sums of the result; mirrors
``lowering/strassen.py``."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from autotune.cost_model.steps.extents import Extent, product
from autotune.cost_model.steps.product_rows import joint_rows
from autotune.cost_model.steps.stage_cost import StageCost, matrix_cycles
from autotune.cost_model.steps.tiling import Floats, Tiles, Tiling, as_floats
from autotune.fusion.nest import Stage
from autotune.operators.strassen import FACTORS, INPUT_ADDITIONS, halved_axis
from autotune.targets.spec import HardwareSpec

ADDED_RESULTS = 5
"""Products of the seven that add to what another one has made: by G, T2, T3, −T4 and H (``lowering/strassen.py``)."""


class Quarter(NamedTuple):
    """One product of quarters of a tile: its ``rows``, ``columns`` and ``depth``.

    A factor takes ``repeats`` of them for each of the ``blocks`` of columns. ``lower`` are the rows of a lower quarter over those
    of an upper one: less than 1 for an odd number of rows.
    """

    rows: Extent
    columns: int
    depth: int
    repeats: Extent
    blocks: Extent
    lower: Floats


def quarter_of(tiling: Tiling, stage: Stage, tiles: Tiles) -> Quarter:
    """Return the products of a tile."""
    types, op = tiling.nest.types, stage.op
    _, *out = (
        tiling.axis_size(axis, tiles.sizes)
        for axis in tiling.nest.buffers[stage.temps[1]].footprint
    )
    axis = halved_axis(types[stage.output].shape)
    rows, repeats = joint_rows(types[stage.output].shape, out)
    block, depth = op.int("block"), types[op.inputs[1]].shape[1]
    whole = tiling.axis_size(stage.footprint[axis], tiles.sizes)
    lower = as_floats(whole - out[axis]) / out[axis]
    return Quarter(rows, block, depth, repeats, out[-1] // block, lower)


def sums_cost(tiling: Tiling, stage: Stage, tiles: Tiles, spec: HardwareSpec) -> StageCost:
    """The sums of x."""
    sizes = [
        tiling.axis_size(axis, tiles.sizes)
        for axis in tiling.nest.buffers[stage.temps[0]].footprint[1:]
    ]
    return _passes(INPUT_ADDITIONS, product(sizes), 2, spec)


def products_cost(tiling: Tiling, stage: Stage, tiles: Tiles, spec: HardwareSpec) -> StageCost:
    """The products of some factors; one of the seven is for lower quarters alone."""
    assert stage.contraction is not None
    of, matrix = quarter_of(tiling, stage, tiles), spec.matrix
    share = (FACTORS - 1 + of.lower) / FACTORS
    runs = (FACTORS - 1 + (of.lower > 0)) / FACTORS
    repeats = tiles.sizes[tiling.k_dim(stage.contraction)] * of.blocks * of.repeats
    m, n, k = of.rows, of.columns, of.depth
    streamed = k * (-(-n // matrix.cols) * m + -(-m // matrix.rows) * n)
    moved = (FACTORS + ADDED_RESULTS) / FACTORS * m * n
    return StageCost(
        as_floats(runs * repeats * matrix_cycles(m, n, k, matrix)),
        runs * repeats,
        as_floats(share * repeats * m * n * k),
        0.0,
        as_floats(runs * repeats * (streamed + moved)),
    )


def results_cost(tiling: Tiling, stage: Stage, tiles: Tiles, spec: HardwareSpec) -> StageCost:
    """The sums of the result: one for another product, and lower quarters with the epilogue."""
    of, end = quarter_of(tiling, stage, tiles), stage.epilogue
    behind = sum(part is not None for part in (end.bias, end.fn))
    each = of.rows * of.columns * of.repeats
    inner = _passes(of.blocks, each, 2, spec)
    lower = np.ceil(each * of.lower)
    last = _passes(of.blocks * (of.lower > 0), lower, 2 + (end.bias is not None), spec, behind)
    return StageCost(
        inner.cycles + last.cycles,
        inner.instructions + last.instructions,
        0.0,
        inner.lane_elements + last.lane_elements,
        inner.touched + last.touched,
    )


def _passes(
    count: Extent, each: Extent, operands: int, spec: HardwareSpec, behind: int = 0
) -> StageCost:
    """Passes that read ``operands`` and write one, of ``behind`` more stages than one."""
    vector = spec.vector
    cycles = count * (vector.setup_cycles + behind + -(-each // vector.lanes))
    return StageCost(
        as_floats(cycles),
        count,
        0.0,
        as_floats((1 + behind) * count * each),
        as_floats((operands + 1) * count * each),
    )
