"""Metrics agree with scipy and with cases worked by hand."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from autotune.cost_model.metrics import (
    coverage,
    group_metrics,
    kendall,
    mape,
    median_error,
    ordered,
    regret,
    spearman,
    within,
    within_groups,
)


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


def test_errors_and_coverage_by_hand() -> None:
    actual, predicted = np.array([100.0, 200.0, 10.0]), np.array([110.0, 180.0, 10.0])
    assert mape(actual, predicted) == pytest.approx(0.2 / 3)
    assert median_error(actual, predicted) == pytest.approx(0.1)
    assert within(actual, predicted, 0.05) == pytest.approx(1 / 3)
    assert coverage(actual, predicted - 5, predicted + 5) == pytest.approx(1 / 3)


def test_regret_counts_the_best_of_those_that_would_be_tried() -> None:
    actual = np.array([10.0, 20.0, 5.0, 8.0])
    predicted = np.array([2.0, 1.0, 9.0, 3.0])
    assert regret(actual, predicted) == pytest.approx(3.0)
    assert regret(actual, predicted, 3) == pytest.approx(0.6)
    assert regret(actual, predicted, 4) == 0.0


def test_figures_of_groups_leave_out_groups_that_say_nothing() -> None:
    actual = np.array([10.0, 20.0, 5.0, 8.0, 99.0])
    predicted = np.array([3.0, 2.0, 1.0, 2.0, 7.0])
    groups = ["a", "a", "b", "b", "alone"]
    assert within_groups(regret, actual, predicted, groups).tolist() == [1.0, 0.0]
    assert group_metrics(actual, predicted, groups)["top1_regret"] == pytest.approx(0.5)
    assert group_metrics(actual[:1], predicted[:1], ["alone"])["top1_regret"] == 0.0


def test_ranks_within_groups_do_not_profit_from_the_range_of_costs() -> None:
    scale = np.repeat(10.0 ** np.arange(6), 50)
    rng = np.random.default_rng(1)
    actual, predicted = scale * rng.uniform(1, 2, 300), scale * rng.uniform(1, 2, 300)
    assert spearman(actual, predicted) > 0.95
    assert abs(group_metrics(actual, predicted, scale.tolist())["spearman"]) < 0.2


def test_a_constant_prediction_ranks_nothing_and_constant_costs_need_no_ranks() -> None:
    for figure in (spearman, kendall):
        assert figure(np.ones(3), np.arange(3.0)) == 1.0
        assert figure(np.arange(3.0), np.ones(3)) == 0.0


def test_pairs_that_noise_could_turn_over_do_not_count() -> None:
    rng = np.random.default_rng(4)
    actual, predicted = rng.uniform(1.0, 1.3, 12), rng.uniform(1.0, 1.3, 12)
    pairs = [(i, j) for i in range(12) for j in range(12) if actual[i] >= 1.05 * actual[j]]
    right = sum(predicted[i] > predicted[j] for i, j in pairs)
    assert 0 < right < len(pairs) < 12 * 11 / 2
    assert ordered(actual, predicted) == (right, len(pairs))
    assert ordered(actual, actual) == (len(pairs), len(pairs))
    assert ordered(actual, np.ones(12)) == (0, len(pairs)), "equal predictions order nothing"
    both = group_metrics(
        np.tile(actual, 2), np.concatenate([predicted, actual]), [0] * 12 + [1] * 12
    )
    assert both["ordered"] == pytest.approx((right + len(pairs)) / (2 * len(pairs)))
