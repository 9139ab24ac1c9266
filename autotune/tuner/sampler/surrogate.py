"""What trials teach about costs: a prior prediction, corrected by what was observed, with uncertainty."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from autotune.tuner.sampler.gaussian import GaussianProcess

Floats = npt.NDArray[np.float64]

TREES = 24
"""Extremely randomised trees; twice as many choose no better."""
FAITH = 2.0
"""Observations that the prior's slope of 1 counts for: later ones overrule a prior that misleads."""
MOST = 250
"""Observations that the Gaussian process is fitted to, the best and the newest: time grows with the cube."""
CLIP = 2.5
"""Standard deviations above the median beyond which costs are all the same: bad is bad."""


@dataclass(frozen=True, slots=True)
class Surrogate:
    """Posterior of scaled costs: slope times the prior, a Gaussian process and trees on what that leaves.

    Equal weights of both: the process is better where costs are smooth, trees where they jump.
    """

    centre: Floats
    spread: Floats
    slope: float
    prior_centre: float
    process: GaussianProcess
    trees: Any

    @classmethod
    def fit(cls, x: Floats, prior: Floats | None, cost: Floats, seed: int) -> Surrogate:
        """Learn from features ``x`` [n, F], predictions ``prior`` [n] and scaled costs [n]; ``seed`` is the
        trees'."""
        from sklearn.ensemble import ExtraTreesRegressor

        centre, spread = x.mean(0), x.std(0)
        spread = np.where(spread > 1e-12, spread, 1.0)
        known = np.zeros(len(cost)) if prior is None else prior
        prior_centre = float(known.mean())
        slope = 0.0 if prior is None else _slope(known - prior_centre, cost)
        rest = cost - slope * (known - prior_centre)
        scaled = (x - centre) / spread
        kept = _kept(cost)
        process = GaussianProcess.fit(scaled[kept], rest[kept])
        trees = ExtraTreesRegressor(TREES, min_samples_leaf=1, bootstrap=True, random_state=seed)
        trees.fit(scaled, rest)
        return cls(centre, spread, slope, prior_centre, process, trees)

    def predict(self, x: Floats, prior: Floats | None) -> tuple[Floats, Floats]:
        """Return mean and standard deviation of the scaled cost at ``x`` [m, F], both [m]."""
        scaled = (x - self.centre) / self.spread
        known = np.zeros(len(x)) if prior is None else prior - self.prior_centre
        means, deviations = self.process.predict(scaled)
        votes = np.stack([tree.predict(scaled) for tree in self.trees.estimators_])
        both = np.stack([means, votes.mean(0)])
        variance = (deviations**2 + votes.var(0)) / 2.0 + both.var(0)
        return self.slope * known + both.mean(0), np.sqrt(variance)


@dataclass(frozen=True, slots=True)
class CostScale:
    """Objective values as costs on one scale: logarithms where all are positive, the least is best, near 0
    with a deviation near 1. ``sign`` is -1 where the most is best."""

    sign: float
    is_log: bool
    middle: float
    spread: float

    @classmethod
    def of(cls, values: Floats, predicted: Floats | None, sign: float) -> CostScale:
        """Return the scale of observed values; ``predicted`` ones have to fit on it too."""
        is_log = values.min() > 0 and (predicted is None or predicted.min() > 0)
        raw = sign * (np.log(values) if is_log else values)
        return cls(sign, bool(is_log), float(np.median(raw)), max(float(raw.std()), 1e-9))

    def predicted(self, values: Floats) -> Floats:
        """Return predictions on the scale [n]."""
        raw = self.sign * (np.log(values) if self.is_log else values)
        return np.asarray((raw - self.middle) / self.spread)

    def observed(self, values: Floats) -> Floats:
        """Return costs on the scale [n], those far above the median as no worse than ``CLIP``."""
        return np.minimum(self.predicted(values), CLIP)


def ranked(x: Floats) -> Floats:
    """Return every feature as ranks in [0, 1] among all rows [n, F]: whatever its scale, the rows spread evenly."""
    columns = [np.unique(column, return_inverse=True) for column in x.T]
    shares = [places.reshape(-1) / max(len(values) - 1, 1) for values, places in columns]
    return np.stack(shares, axis=1)


def expected_improvement(best: float, mean: Floats, deviation: Floats) -> Floats:
    """Return the expected gain over ``best`` of costs that are normal (Jones et al. 1998)."""
    from scipy.special import ndtr

    z = (best - mean) / deviation
    density = np.exp(-0.5 * z * z) / np.sqrt(2.0 * np.pi)
    return np.asarray(deviation * (z * ndtr(z) + density))


def _slope(prior: Floats, cost: Floats) -> float:
    """Return the slope of the cost over the prior by least squares, drawn to 1 by ``FAITH`` observations."""
    scale = float(prior @ prior) / max(len(prior), 1)
    if scale < 1e-12:
        return 0.0
    weight = FAITH * scale
    return max(0.0, float((prior @ cost + weight) / (prior @ prior + weight)))


def _kept(cost: Floats) -> npt.NDArray[np.int64]:
    n = len(cost)
    if n <= MOST:
        return np.arange(n)
    best = np.argsort(cost, kind="stable")[: MOST // 2]
    newest = np.arange(n - MOST // 2, n)
    return np.union1d(best, newest)
