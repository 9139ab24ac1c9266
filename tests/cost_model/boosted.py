"""Boosters of many kinds, and rows where comparisons of numbers are most likely to go wrong."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import xgboost as xgb

from autotune.cost_model.forest import Forest


@dataclass(frozen=True, slots=True)
class Kind:
    """How a booster is trained: rounds, depth, bins of a feature, share of NaN, leaf-wise or not."""

    rounds: int
    depth: int
    bins: int = 128
    missing: float = 0.0
    leafwise: bool = False
    features: int = 20


KINDS = {
    "as trained today": Kind(200, 5),
    "missing numbers": Kind(60, 5, missing=0.2),
    "one stump": Kind(1, 1, features=1),
    "deep and uneven": Kind(30, 8, bins=64, missing=0.05, leafwise=True),
    "more thresholds than a rank holds": Kind(150, 7, bins=1024, missing=0.1, features=2),
    "no split at all": Kind(3, 4, features=3),
}


def train_booster(kind: Kind, seed: int) -> xgb.Booster:
    """Train on drawn rows; a kind of three features gets constant labels."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(3000, kind.features)) * 10.0 ** rng.integers(-3, 6, kind.features)
    x[:, rng.random(kind.features) < 0.3] //= 1  # whole numbers: thresholds lie on values
    x[rng.random(x.shape) < kind.missing] = np.nan
    y = np.nan_to_num(x / np.nanstd(x, axis=0).clip(1e-9)).sum(axis=1) + rng.normal(size=len(x))
    parameters = {
        "objective": "reg:pseudohubererror",
        "huber_slope": 0.1,
        "base_score": float(y.mean()),
        "max_depth": kind.depth,
        "max_bin": kind.bins,
        "min_child_weight": 0.01,
        "subsample": 0.8,
        "tree_method": "hist",
        "seed": seed,
        "nthread": 1,
        "verbosity": 0,
    }
    if kind.leafwise:
        parameters |= {"grow_policy": "lossguide", "max_leaves": 40}
    if kind.features == 3:
        y = np.full_like(y, 0.1)
    return xgb.train(parameters, xgb.DMatrix(x, y, nthread=1), num_boost_round=kind.rounds)


SPECIAL = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-42, -1e-42, 1e300, -1e300, 3.4028236e38])
"""Among them denormals of float32 and numbers that are none in it."""


def hostile_rows(forest: Forest, n: int, rng: np.random.Generator) -> npt.NDArray[np.float64]:
    """Draw rows [n, F] of float64: numbers, thresholds, neighbours of thresholds in float32 and float64,
    NaN, infinities, denormals."""
    x = rng.normal(size=(n, forest.features)) * 10.0 ** rng.integers(-4, 7, (n, forest.features))
    for index in range(forest.features):
        thresholds = forest.value[forest.feature == index]
        if len(thresholds):
            at = rng.choice(thresholds, n)
            ends = np.array([-np.inf, np.inf])
            single = np.nextafter(at, rng.choice(ends, n).astype(np.float32)).astype(np.float64)
            double = np.nextafter(at.astype(np.float64), rng.choice(ends, n))
            middle = (at.astype(np.float64) + single) / 2  # half way: rounding decides
            kinds = np.stack([x[:, index], at.astype(np.float64), single, double, middle])
            x[:, index] = kinds[rng.integers(len(kinds), size=n), np.arange(n)]
    return np.where(rng.random(x.shape) < 0.05, rng.choice(SPECIAL, x.shape), x)
