"""Metrics agree with scipy and with cases worked by hand."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from autotune.cost_model.metrics import coverage, kendall, mape, spearman, top1_regret


def test_rank_metrics_equal_scipy() -> None:
    rng = np.random.default_rng(0)
    actual = rng.integers(1, 30, 200).astype(np.float64)
    predicted = actual + rng.normal(0, 5, 200).round()
    assert spearman(actual, predicted) == pytest.approx(
        stats.spearmanr(actual, predicted).statistic
    )
    assert kendall(actual, predicted) == pytest.approx(
        stats.kendalltau(actual, predicted).statistic
    )


def test_mape_and_coverage_by_hand() -> None:
    actual, predicted = np.array([100.0, 200.0]), np.array([110.0, 180.0])
    assert mape(actual, predicted) == pytest.approx(0.1)
    assert coverage(actual, predicted - 10, predicted + 10) == 0.5


def test_regret_is_taken_within_groups_of_several_rows() -> None:
    actual = np.array([10.0, 20.0, 5.0, 8.0, 99.0])
    predicted = np.array([3.0, 2.0, 1.0, 2.0, 7.0])
    assert top1_regret(actual, predicted, ["a", "a", "b", "b", "alone"]) == pytest.approx(0.5)
    assert top1_regret(actual[:1], predicted[:1], ["alone"]) == 0.0


def test_constant_predictions_have_no_rank() -> None:
    assert spearman(np.ones(3), np.arange(3.0)) == 1.0
