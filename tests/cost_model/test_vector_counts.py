"""What a run of vectors makes a CPU do: the tables of functions, and rows of memory."""

from __future__ import annotations

import numpy as np
import pytest

from autotune.cost_model.cached.vector_counts import contiguous
from autotune.isa.functions import BinaryFn, CostClass, ElementwiseFn, Origin, UnaryFn


@pytest.mark.parametrize("fn", [*UnaryFn, *BinaryFn], ids=lambda fn: fn.name.lower())
def test_exactly_what_is_no_expression_costs_more_than_its_passes(fn: ElementwiseFn) -> None:
    is_expression = fn.row.origin is Origin.EXPRESSION
    assert (fn.row.cpu_cycles == 0.0) is is_expression
    assert is_expression or fn.row.cost is not CostClass.SIMPLE


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
