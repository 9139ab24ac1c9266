"""Raw features count what a schedule says, on any machine and without one."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from autotune.cost_model.raw.counts import RawCounts
from autotune.cost_model.raw.features import RAW_NAMES, raw_features
from autotune.cost_model.scratchpad.analysis import ScratchpadAnalysis
from autotune.schedule.space import enumerate_nest
from tests.cost_model.measured import SPEC, drawn


@given(st.integers(0, 10_000))
@settings(max_examples=25)
def test_raw_features_are_finite_and_rows_stand_alone(seed: int) -> None:
    rng = np.random.default_rng(seed)
    _, nests, _ = drawn(rng)
    table = enumerate_nest(nests[0], SPEC.capacity, SPEC.cores, 60, rng, im2col=True)
    whole = raw_features(nests[0], table, SPEC)
    assert whole.shape == (len(table), len(RAW_NAMES))
    assert np.isfinite(whole).all()
    for row in range(0, len(table), 11):
        np.testing.assert_array_equal(
            raw_features(nests[0], table.take([row]), SPEC)[0], whole[row]
        )


@given(st.integers(0, 10_000))
@settings(max_examples=25)
def test_multiply_adds_are_those_of_the_program(seed: int) -> None:
    """Where no tile is padded and none is taken twice, which the walk of the program counts too."""
    rng = np.random.default_rng(seed)
    _, nests, _ = drawn(rng)
    table = enumerate_nest(nests[0], SPEC.capacity, SPEC.cores, 40, rng)
    counted = RawCounts(nests[0], table, SPEC).multiply_adds
    walked = ScratchpadAnalysis(nests[0], table, SPEC).multiply_adds
    np.testing.assert_allclose(counted, walked, rtol=0.02)


def test_a_target_without_a_spec_has_features_too() -> None:
    rng = np.random.default_rng(3)
    _, nests, _ = drawn(rng)
    table = enumerate_nest(nests[0], SPEC.capacity, 1, 20, rng)
    x = raw_features(nests[0], table)
    missing = {name for name, column in zip(RAW_NAMES, x.T, strict=True) if np.isnan(column).any()}
    assert missing == {name for name in RAW_NAMES if name.startswith("spec_")}


def test_names_are_unique() -> None:
    assert len(set(RAW_NAMES)) == len(RAW_NAMES)
