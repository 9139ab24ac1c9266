"""Raw work counts what a program does at the spec's rates; prices of it are found again."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotune.cost_model.raw.counts import RawCounts
from autotune.cost_model.raw.prices import RawPrices, fit_raw_prices, split_work
from autotune.cost_model.raw.work import RAW_WORK, raw_work
from autotune.cost_model.scratchpad.analysis import ScratchpadAnalysis
from autotune.schedule.space import enumerate_nest
from tests.cost_model.measured import SPEC, drawn

KINDS = len(RAW_WORK)


@given(st.integers(0, 10_000))
@settings(max_examples=25, deadline=None)
def test_work_is_finite_and_rows_stand_alone(seed: int) -> None:
    rng = np.random.default_rng(seed)
    _, nests, _ = drawn(rng)
    table = enumerate_nest(nests[0], SPEC.capacity, SPEC.cores, 40, rng)
    whole = raw_work(RawCounts(nests[0], table, SPEC))
    assert whole.shape == (len(table), KINDS)
    assert np.isfinite(whole).all() and (whole >= 0).all()
    for row in range(0, len(table), 11):
        alone = raw_work(RawCounts(nests[0], table.take([row]), SPEC))[0]
        np.testing.assert_array_equal(alone, whole[row])


@given(st.integers(0, 10_000))
@settings(max_examples=25, deadline=None)
def test_one_core_makes_the_products_of_the_program(seed: int) -> None:
    rng = np.random.default_rng(seed)
    _, nests, _ = drawn(rng)
    table = enumerate_nest(nests[0], SPEC.capacity, 1, 40, rng)
    products = raw_work(RawCounts(nests[0], table, SPEC))[:, RAW_WORK.index("products")]
    walked = ScratchpadAnalysis(nests[0], table, SPEC).multiply_adds
    cells = SPEC.matrix.rows * SPEC.matrix.cols
    if not walked.any():
        assert not products.any()
    assert (products * cells <= 1.02 * walked).all()
    if (products * cells == walked).any():  # integer products take several in a cell
        np.testing.assert_allclose(products * cells, walked, rtol=0.02)


def test_prices_that_made_the_cycles_predict_unseen_ones() -> None:
    """Closed form: cycles made from known prices and exponents come out within 2 % on other work."""
    rng = np.random.default_rng(0)
    true = RawPrices(np.concatenate([rng.normal(0.0, 1.0, 2 * KINDS), [-2.0, 1.0]]))
    counted = np.exp(rng.normal(3.0, 1.5, (3000, KINDS)))
    work = split_work(counted, rng.integers(1, 3, 3000).astype(np.float64))
    cycles = true.cycles(work)
    known = np.arange(3000) < 2000
    fitted = fit_raw_prices(work[known], np.arange(2000), cycles[known], np.ones(2000))
    error = np.abs(fitted.cycles(work[~known]) / cycles[~known] - 1.0)
    assert error.mean() < 0.02
    plain = np.exp(np.log(cycles[known]).mean())
    assert np.abs(plain / cycles[~known] - 1.0).mean() > 0.2


@pytest.mark.parametrize("buffers", [1.0, 2.0])
def test_units_overlap_between_the_longest_and_the_sum(buffers: float) -> None:
    logs = np.zeros(2 * KINDS + 2)
    work = np.zeros((1, KINDS))
    work[0, RAW_WORK.index("array_steps_os")], work[0, RAW_WORK.index("load_bytes")] = 300.0, 400.0
    counted = split_work(work, np.array([buffers]))
    for excess, expected in ((-20.0, 700.0), (0.0, 500.0), (8.0, 400.0)):
        logs[-2:] = excess
        np.testing.assert_allclose(RawPrices(logs).cycles(counted), expected, rtol=1e-3)
