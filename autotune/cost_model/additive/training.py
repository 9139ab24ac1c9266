"""Training: unit costs of work first, then trees for what each operator costs over them in its place.

Only sums are measured. Trees therefore grow on the gradient of a group's error, shared out among its
operators by their part of the prediction.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from autotune.cost_model.additive.dataset import OperatorRows
from autotune.cost_model.additive.features import POOLS
from autotune.cost_model.forest import Forest

Floats = npt.NDArray[np.float64]

ROUNDS = 20
"""Gauss-Newton steps of the unit costs."""
STEP, REACH, CALM = 0.5, 0.7, 0.2
CHEAP = 0.02
"""Quantile of groups from which the search for unit costs starts."""
LOOSE, HOLD = 1e-4, 0.1
"""Weight, in groups, with which costs in common stay where the search starts, and costs of a kind at those in common."""
LEAST_SECONDS = 1e-9
"""Least cost of an operator: what fuses away keeps something for the trees to scale."""

TREES = {
    "tree_method": "hist",
    "max_depth": 6,
    "max_bin": 128,
    "eta": 0.1,
    "subsample": 0.8,
    "colsample_bytree": 0.25,
    "min_child_weight": 1.0,
    "lambda": 5.0,
    "base_score": 0.0,
    "nthread": 1,
    "verbosity": 0,
}
TREE_COUNT = 300
SLOPE = 0.1
"""Log errors above this count by their size instead of its square: timings have outliers."""


@dataclass(frozen=True, slots=True)
class Fitted:
    """Seconds of a run without operators, unit costs [K, P], and the trees for each operator's log factor."""

    run_seconds: float
    unit_costs: Floats
    trees: Forest

    def operator_seconds(self, x: Floats, work: Floats) -> Floats:
        """Return what operators cost in their places [n]."""
        return base_seconds(work, self.unit_costs) * np.exp(self.trees.predict(x))

    def plain_seconds(self, work: Floats) -> Floats:
        """Return what operators cost by their counted work alone [n]."""
        return base_seconds(work, self.unit_costs)


def base_seconds(work: Floats, unit_costs: Floats) -> Floats:
    """Return what counted work [n, 1 + P] costs at unit costs [K, P]."""
    costs = unit_costs[work[:, 0].astype(np.int64)]
    seconds: Floats = (work[:, 1:] * costs).sum(axis=1)
    return np.maximum(seconds, LEAST_SECONDS)


def fit(data: OperatorRows, seed: int) -> Fitted:
    """Fit unit costs and trees to measured groups."""
    run_seconds, unit_costs = fit_unit_costs(data)
    return Fitted(run_seconds, unit_costs, _grow(data, run_seconds, unit_costs, seed))


def fit_unit_costs(data: OperatorRows) -> tuple[float, Floats]:
    """Fit the seconds of a run and of each kind of work so that errors of logarithms are least.

    What kinds cost in common (``POOLS``) comes first; each kind is then fitted beside it, and stays near it where few groups
    tell more. Otherwise a kind that one network alone has would get any share of that network's time.
    """
    work = data.group_work.reshape(len(data), -1)
    run, pools = np.ones((len(data), 1)), POOLS.ravel()
    pooled = np.stack(
        [work[:, pool == pools].sum(axis=1) for pool in range(pools.max() + 1)], axis=1
    )
    counts = np.concatenate([run, pooled], axis=1)
    common = _fitted_costs(data, counts, _cheapest(data, counts), LOOSE)
    start = np.concatenate([common[:1], common[1:][pools]])
    costs = _fitted_costs(data, np.concatenate([run, work], axis=1), start, HOLD)
    return float(costs[0]), costs[1:].reshape(POOLS.shape)


def _cheapest(data: OperatorRows, counts: Floats) -> Floats:
    """Return a low cost for a unit of each kind [K]: that of a cheap group, explained by this kind alone. It is 0 for a kind that does
    not occur."""
    costs = np.zeros(counts.shape[1])
    for kind, column in enumerate(counts.T):
        has = column > 0
        if has.any():
            costs[kind] = np.quantile(data.seconds[has] / column[has], CHEAP)
    return costs


def _fitted_costs(data: OperatorRows, counts: Floats, start: Floats, hold: float) -> Floats:
    """Fit the cost of a unit of each kind [K]. ``counts`` [r, K] are the units of each group.

    The fit begins at ``start`` [K], and is held there with the weight of ``hold`` groups. The hold is on logarithms: a kind
    may cost many times as much if a few groups say so.

    Gauss-Newton steps on non-negative least squares (Lawson and Hanson 1974, *Solving Least Squares
    Problems*, ch. 23) with Huber's weights.
    """
    from scipy.optimize import nnls

    seconds, weight = data.seconds, data.weight
    used = np.flatnonzero(counts.any(axis=0))
    typical = counts[:, used] * start[used]
    kinds = typical.shape[1]
    parts: Floats = np.ones(kinds)
    for _ in range(ROUNDS):
        guess = np.maximum(typical @ parts, LEAST_SECONDS)
        error = np.log(seconds / guess)
        each = np.sqrt(weight / np.maximum(1.0, np.abs(error) / CALM))
        rows = typical / guess[:, None] * each[:, None]
        wanted = (1.0 + np.clip(error, -REACH, REACH)) * each
        pull = 1.0 - np.clip(np.log(parts), -REACH, REACH)
        found, _ = nnls(
            np.concatenate([rows, np.diag(np.sqrt(hold) / parts)]),
            np.concatenate([wanted, np.sqrt(hold) * pull]),
            maxiter=100 * kinds,
        )
        parts = np.maximum((1.0 - STEP) * parts + STEP * found, 1e-3)
    costs = start.copy()
    costs[used] *= parts
    return costs


def _grow(data: OperatorRows, run_seconds: float, unit_costs: Floats, seed: int) -> Forest:
    """Grow trees for each operator's log factor; only the sums over groups are measured."""
    import xgboost as xgb  # takes a second; predicting needs none of it

    base = base_seconds(data.work, unit_costs)
    wanted = np.log(data.seconds)

    def shared_error(predicted: npt.NDArray[np.float32], _: xgb.DMatrix) -> tuple[Floats, Floats]:
        """Return gradient and curvature [n] of the pseudo-Huber error of each group's logarithm."""
        each = base * np.exp(predicted.astype(np.float64))
        total = run_seconds + data.summed(each)
        error = (np.log(total) - wanted) / SLOPE
        root = np.sqrt(1.0 + error**2)
        pull, bend = data.weight * error / root * SLOPE, data.weight / root
        share = each / total[data.owner]
        return pull[data.owner] * share, np.maximum(bend[data.owner] * share, 1e-9)

    matrix = xgb.DMatrix(data.x, np.zeros(len(data.x)), nthread=1)
    booster = xgb.train(TREES | {"seed": seed}, matrix, TREE_COUNT, obj=shared_error)
    return Forest.of(booster)
