"""What a run of vectors makes a CPU do: the tables of functions, and rows of memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from autotune.cost_model.cached.vector_counts import (
    Amounts,
    contiguous,
    count_vector_work,
    emitted_work,
)
from autotune.cost_model.cached.work_kinds import INDEX, UNIT_COSTS, function_kind
from autotune.cost_model.steps.tiling import Tiles, Tiling
from autotune.fusion.analysis import nests_of
from autotune.fusion.group import Group, layer
from autotune.fusion.nest import Stage
from autotune.isa.functions import BinaryFn, CostClass, ElementwiseFn, Origin, UnaryFn
from autotune.schedule.schedule import NestSchedule
from autotune.schedule.table import ScheduleTable
from autotune.targets.spec import Memory
from tests.cost_model.measured import SPEC


@pytest.mark.parametrize("fn", [*UnaryFn, *BinaryFn], ids=lambda fn: fn.name.lower())
def test_exactly_what_is_no_expression_costs_more_than_its_passes(fn: ElementwiseFn) -> None:
    is_expression = fn.row.origin is Origin.EXPRESSION
    assert (fn.row.cpu_cycles == 0.0) is is_expression
    assert is_expression or fn.row.cost is not CostClass.SIMPLE


@pytest.mark.parametrize("fn", [*UnaryFn, *BinaryFn], ids=lambda fn: fn.name.lower())
def test_a_costly_function_has_a_price_of_its_own(fn: ElementwiseFn) -> None:
    assert (function_kind(fn) in INDEX) is (fn.row.cpu_cycles > 0.0)


@pytest.mark.parametrize(
    ("tile", "run"),
    [
        ((2, 3, 4), 24),
        ((1, 3, 4), 12),
        ((2, 2, 4), 8),
        ((2, 3, 3), 3),
        pytest.param((2, 3, 5), 5, id="padded"),
    ],
)
def test_dimensions_that_a_tile_has_whole_join_the_one_outside(
    tile: tuple[int, ...], run: int
) -> None:
    assert contiguous(tile, (2, 3, 4), np.ones((1, 1))).tolist() == [[run]]


CPU = replace(SPEC, memory=Memory.CACHED)


def cycles(group: Group, count: Callable[[Tiling, Stage, Tiles], Amounts]) -> float:
    """Cycles of the counted work of one tile of all, at typical unit costs."""
    (nest,) = nests_of(group)
    whole = tuple(c.k_extent for c in nest.contractions)
    rank = len(nest.root_shape)
    table = ScheduleTable.of(nest, [NestSchedule(nest.root_shape, tuple(range(rank)), whole)])
    tiling = Tiling(nest, table)
    tiles = tiling.tiles(frozenset(range(rank)))
    return sum(
        float(np.sum(amount)) * float(UNIT_COSTS[INDEX[name]])
        for stage in nest.stages
        for name, amount in count(tiling, stage, tiles).items()
    )


X = (4, 16, 64)
GROUPS = {
    "relu": lambda: layer("relu", X),
    "exp": lambda: layer("exp", X),
    "add": lambda: layer("add", X, X),
    "div": lambda: layer("div", X, X),
    "reduce_sum": lambda: layer("reduce_sum", X, axes=1),
    "softmax": lambda: layer("softmax", X, axis=2),
    "layer_norm": lambda: layer("layer_norm", X, (64,), (64,), axis=2),
    "rms_norm": lambda: layer("rms_norm", X, (64,), axis=2),
    "sliding_sum": lambda: layer("sliding_sum", X, axis=2, before=2, after=2),
}


@pytest.mark.parametrize(
    ("name", "kind", "per"), [("exp", "exp", CPU.vector.lanes), ("sin", "sin", 1)]
)
def test_polynomials_count_vectors_and_library_functions_elements(
    name: str, kind: str, per: int
) -> None:
    (nest,) = nests_of(layer(name, X))
    table = ScheduleTable.of(nest, [NestSchedule(nest.root_shape, (0, 1, 2), ())])
    tiling = Tiling(nest, table)
    (stage,) = nest.stages
    found = count_vector_work(tiling, stage, tiling.tiles(frozenset(range(3))), CPU, False)
    assert float(np.sum(found[kind])) == 4 * 16 * 64 / per


@pytest.mark.parametrize("name", GROUPS)
def test_work_counted_by_emission_is_near_that_of_the_generated_kernels(name: str) -> None:
    group = GROUPS[name]()
    own = cycles(group, lambda at, stage, tiles: count_vector_work(at, stage, tiles, CPU, False))
    emitted = cycles(group, lambda at, stage, tiles: emitted_work(at, stage, tiles, CPU))
    assert 0.4 < emitted / own < 2.5
