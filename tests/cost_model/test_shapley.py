"""Shapley values equal XGBoost's, and the definition on trees small enough for all coalitions."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest
import xgboost as xgb

from autotune.cost_model.forest import Forest
from autotune.cost_model.shapley import contributions


def boosted(seed: int, features: int, depth: int, rounds: int) -> tuple[xgb.Booster, np.ndarray]:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(400, features)).round(1)
    x[rng.random(x.shape) < 0.05] = np.nan
    y = np.nan_to_num(x[:, 0]) * 2 + np.nan_to_num(x[:, 1] * x[:, 2]) + rng.normal(size=400) / 10
    options = {"max_depth": depth, "nthread": 1, "seed": seed, "base_score": 0.5}
    return xgb.train(options, xgb.DMatrix(x, y), rounds), x[:20]


@pytest.mark.parametrize(("depth", "rounds"), [(1, 3), (3, 10), (6, 40), (8, 5)])
def test_contributions_are_those_of_xgboost(depth: int, rounds: int) -> None:
    booster, x = boosted(depth, 6, depth, rounds)
    forest = Forest.of(booster)
    wanted = booster.predict(xgb.DMatrix(x), pred_contribs=True)
    found = np.array([contributions(forest, row) for row in x])
    np.testing.assert_allclose(found, wanted[:, :-1], atol=2e-5, rtol=1e-4)
    total = found.sum(axis=1) + wanted[:, -1]
    np.testing.assert_allclose(total, forest.predict(x), atol=2e-5, rtol=1e-4)


def test_contributions_are_the_mean_over_all_orders() -> None:
    booster, x = boosted(7, 3, 3, 2)
    forest = Forest.of(booster)

    def value(node: int, row: np.ndarray, known: tuple[int, ...]) -> float:
        feature = int(forest.feature[node])
        if feature < 0:
            return float(forest.value[node])
        left = int(forest.left[node])
        if feature not in known:
            sides = [value(child, row, known) for child in (left, left + 1)]
            return float(np.average(sides, weights=forest.cover[left : left + 2]))
        number = np.float32(row[feature])
        goes_left = bool(forest.nan_left[node]) if np.isnan(number) else number < forest.value[node]
        return value(left + (not goes_left), row, known)

    def game(row: np.ndarray, known: tuple[int, ...]) -> float:
        return sum(value(int(root), row, known) for root in forest.roots)

    for row in x[:5]:
        found = contributions(forest, row)
        for own in range(3):
            others = [f for f in range(3) if f != own]
            wanted = sum(
                math.factorial(k)
                * math.factorial(2 - k)
                / 6
                * (game(row, (*s, own)) - game(row, s))
                for k in range(3)
                for s in combinations(others, k)
            )
            assert found[own] == pytest.approx(wanted, abs=1e-6)
