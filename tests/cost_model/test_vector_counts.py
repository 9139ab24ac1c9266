"""What a run of vectors makes a CPU do: the tables of functions, and rows of memory."""

from __future__ import annotations

import numpy as np
import pytest

from autotune.cost_model.cached.vector_counts import LIBRARY_CYCLES, POLYNOMIAL_CYCLES, contiguous
from autotune.cost_model.steps.vector_work import PASSES, Pass
from autotune.lowering.functions import BINARY_FNS, UNARY_FNS
from autotune.operators.op import OpKind
from autotune.targets.native.codegen.vector.vector_run import COMPILED_BINARY, COMPILED_UNARY


def test_every_transcendental_kind_has_cycles_in_one_table() -> None:
    divided = {OpKind.MOD, OpKind.FMOD}  # an emulated vector unit divides for them
    transcendental = {kind for kind, cost in PASSES.items() if cost is Pass.TRANSCENDENTAL}
    assert POLYNOMIAL_CYCLES.keys() | LIBRARY_CYCLES.keys() == transcendental | divided
    assert not POLYNOMIAL_CYCLES.keys() & LIBRARY_CYCLES.keys()


def test_the_library_computes_the_functions_that_runs_are_made_without() -> None:
    compiled = {kind for kind, fn in UNARY_FNS.items() if fn in COMPILED_UNARY}
    compiled |= {kind for kind, fn in BINARY_FNS.items() if fn in COMPILED_BINARY}
    assert LIBRARY_CYCLES.keys() == compiled


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
