"""The online model of a recorded space: it finds more than chance, and a seed reproduces it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from autotune.cost_model.recorded import parameter_features, replay
from autotune.targets.recorded_space import RecordedSpace

SPACE = RecordedSpace.read(
    Path(__file__).parents[1] / "targets" / "recorded" / "convolution_A100.json.gz"
)


def test_it_finds_more_than_random_reading_and_learns_the_rest() -> None:
    results = [replay(SPACE, 60, seed) for seed in range(3)]
    assert np.mean([r.best_seconds for r in results]) < np.mean([r.random_seconds for r in results])
    assert np.mean([r.mape for r in results]) < np.mean([r.baseline_mape for r in results])
    assert all(r.evaluations == 60 and r.optimum_seconds <= r.best_seconds for r in results)


def test_a_seed_reproduces_a_replay() -> None:
    assert replay(SPACE, 40, 5) == replay(SPACE, 40, 5)


def test_reading_everything_finds_the_optimum() -> None:
    result = replay(SPACE, 10**6, 0)
    assert (result.evaluations, result.regret, result.mape) == (len(SPACE), 0.0, 0.0)
    assert result.failed == result.invalid == int((~SPACE.is_valid).sum())


def test_texts_and_constants_become_columns_of_their_own() -> None:
    values = (("a", 1, 4), ("b", 2, 4), ("c", 4, 4), ("a", 0, 4))
    space = replace(SPACE, parameters=("mode", "x", "one"), values=values, times=np.ones(4))
    np.testing.assert_array_equal(
        parameter_features(space), [[1, 0, 0, 1], [0, 1, 0, 2], [0, 0, 1, 4], [1, 0, 0, 0]]
    )
