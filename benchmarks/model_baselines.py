"""Predictors that ours stands beside: bounds, the plain formula, and usual learners on usual features.

Each is trained on the rows of some networks and predicts rows of others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import xgboost as xgb
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from autotune.cost_model.analysis import analytic_model
from autotune.cost_model.raw.prices import fit_raw_prices
from benchmarks.model_rows import Rows

Floats = npt.NDArray[np.float64]

_SLOW = {"max_depth": 4, "eta": 0.05, "min_child_weight": 1.0, "lambda": 3.0}
"""Growth of trees on what prices leave: errors are smaller there, and single leaves learn noise."""

Trained = Callable[[Rows], Floats]
"""Cycles [r] of programs."""

_FARTHEST = 12.0
"""Largest logarithm of a ratio that is believed of a linear model: it extrapolates without bound."""


def train_roofline(rows: Rows) -> Trained:
    """Return the predictor that takes each program for as long as its busiest unit; nothing is trained."""
    return lambda of: of.summed(of.roofline)


def train_formula(rows: Rows) -> Trained:
    """Return the analytic estimate at prices fitted to the rows, where the machine has any to fit."""
    base = _formula(rows)
    return lambda of: of.summed(base(of))


def train_linear(rows: Rows) -> Trained:
    """Train ridge regression on raw features."""
    model = make_pipeline(StandardScaler(), Ridge(alpha=10.0))
    return _learn(rows, _Sklearn(model, "ridge__sample_weight"), _raw, _trivial)


def train_forest(rows: Rows) -> Trained:
    """Train a random forest on raw features (Breiman 2001, *Random forests*, Machine Learning 45)."""
    model = RandomForestRegressor(
        n_estimators=100, max_features=1 / 3, min_samples_leaf=2, random_state=0, n_jobs=1
    )
    return _learn(rows, _Sklearn(model, "sample_weight"), _raw, _trivial)


def train_raw(rows: Rows, columns: Sequence[int] | None = None, seed: int = 0) -> Trained:
    """Train XGBoost on raw features, or on some ``columns`` of them."""
    return _learn(rows, _Boosted(seed), _columns(_raw, columns), _trivial)


def train_guided(rows: Rows, columns: Sequence[int] | None = None, seed: int = 0) -> Trained:
    """Train XGBoost on the analytic model's features, or some ``columns``, to correct the formula."""
    return _learn(rows, _Boosted(seed), _columns(_guided, columns), _formula(rows))


def train_priced(rows: Rows, columns: Sequence[int] | None = None, seed: int = 0) -> Trained:
    """Fit prices of raw work, then train trees on raw features, or some ``columns``, and on shares of prices."""
    prices = fit_raw_prices(rows.counted, rows.owner, rows.cycles, np.ones(len(rows)))
    raw = _columns(_raw, columns)

    def features(of: Rows) -> Floats:
        return np.concatenate([raw(of), prices.features(of.counted)], axis=1)

    learner = _Boosted(seed, _SLOW, rounds=400)
    return _learn(rows, learner, features, lambda of: prices.cycles(of.counted))


Term = Callable[[Rows], Floats]


def _raw(rows: Rows) -> Floats:
    return rows.raw


def _guided(rows: Rows) -> Floats:
    return rows.guided


def _trivial(rows: Rows) -> Floats:
    return rows.trivial


def _columns(features: Term, columns: Sequence[int] | None) -> Term:
    return features if columns is None else lambda rows: features(rows)[:, columns]


def _formula(rows: Rows) -> Term:
    model = analytic_model(rows.spec)
    unit_costs = model.fit(rows.work, rows.owner, rows.cycles, np.ones(len(rows)))
    return lambda of: model.cycles(of.work, unit_costs, of.estimate)


def _learn(rows: Rows, learner: _Sklearn | _Boosted, features: Term, base: Term) -> Trained:
    """Train the logarithm of measured over base cycles. A program of several nests trains each with the
    ratio of the whole, weighted by the nest's share."""
    whole = rows.summed(base(rows))
    ratio = np.log(rows.cycles / whole)[rows.owner]
    predict = learner.fit(features(rows), ratio, base(rows) / whole[rows.owner])

    def trained(of: Rows) -> Floats:
        logs = np.clip(predict(features(of)), -_FARTHEST, _FARTHEST)
        return of.summed(base(of) * np.exp(logs))

    return trained


@dataclass(frozen=True, slots=True)
class _Sklearn:
    model: Any
    weight: str

    def fit(self, x: Floats, y: Floats, weight: Floats) -> Callable[[Floats], Floats]:
        predict: Callable[[Floats], Floats] = self.model.fit(x, y, **{self.weight: weight}).predict
        return predict


@dataclass(frozen=True, slots=True)
class _Boosted:
    seed: int
    others: Mapping[str, float] = field(default_factory=dict)
    rounds: int = 200

    def fit(self, x: Floats, y: Floats, weight: Floats) -> Callable[[Floats], Floats]:
        parameters = {
            "tree_method": "hist",
            "max_depth": 6,
            "max_bin": 128,
            "eta": 0.1,
            "subsample": 0.8,
            "colsample_bytree": 0.5,
            "seed": self.seed,
            "nthread": 1,
            "verbosity": 0,
            **self.others,
        }
        matrix = xgb.DMatrix(x, y, weight=weight, nthread=1)
        booster = xgb.train(parameters, matrix, num_boost_round=self.rounds)
        return lambda other: np.asarray(booster.inplace_predict(other), dtype=np.float64)


BASELINES: dict[str, Callable[[Rows], Trained]] = {
    "roofline": train_roofline,
    "formula": train_formula,
    "linear": train_linear,
    "forest": train_forest,
    "XGBoost raw": train_raw,
    "priced raw": train_priced,
}
"""Column of the tables to how it is trained."""
