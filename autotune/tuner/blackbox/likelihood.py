"""Hyperparameters of the covariance by maximum a posteriori, with an analytic gradient."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from autotune.tuner.blackbox.kernel import Hyperparameters, correlation, matern
from autotune.tuner.blackbox.space import Floats, Ints, Space

SHARE_PRIOR, DERIVED_PRIOR = (-0.5, 1.3), (-1.5, 1.3)
"""Mean and standard deviation of the logit of a parameter's share, and of a divisor's."""
LENGTH_PRIOR = (float(np.log(0.6)), 0.6)
"""Of a length's logarithm."""
WEIGHT_PRIOR = (1.0, 1.5)
"""Of the logarithm of a score's weight."""
SCORE_LENGTH_PRIOR = (float(np.log(2.0)), 0.5)
NOISE_PRIOR = (float(np.log(0.03)), 1.2)
FIXED = 1e-3
"""Standard deviation that holds a value: the length of a dimension with two levels says nothing."""
SCALE_WEIGHT = 2.0
"""Weight and value of the inverse-gamma prior of the signal's variance: targets are standardised."""
STEPS = 8
"""Iterations of L-BFGS from the last optimum."""
BOUND = 4.0
"""Standard deviations that a value stays within."""
REFUSED = 1e10
"""Value of hyperparameters whose covariance is not positive definite."""


@dataclass(frozen=True, slots=True)
class Sample:
    """Observed standardised ``targets`` [n], with what pairs of them have in common: the place of their levels in
    each dimension's table ``pairs`` [d][n²], and the ``gaps`` [j][n²] between their scores."""

    targets: Floats
    pairs: list[Ints]
    gaps: list[Floats]

    @classmethod
    def of(cls, space: Space, rows: Ints, targets: Floats) -> Sample:
        """Pair the observed configurations ``rows`` [n]."""
        pairs = [(f.codes[rows][:, None] * f.levels + f.codes[rows]).ravel() for f in space.factors]
        gaps = [np.abs(score[rows][:, None] - score[rows]).ravel() for score in space.scores]
        return cls(targets, pairs, gaps)


class Likelihood:
    """Posterior density of hyperparameter vectors [2 d + j + 2] over a space."""

    def __init__(self, space: Space) -> None:
        self.space = space
        priors = [SHARE_PRIOR] * len(space.dimensions) + [DERIVED_PRIOR] * len(space.derived)
        priors += [
            (LENGTH_PRIOR[0], LENGTH_PRIOR[1] if f.levels > 2 else FIXED) for f in space.factors
        ]
        priors += [WEIGHT_PRIOR] * len(space.scores)
        score_length = SCORE_LENGTH_PRIOR if len(space.scores) else (SCORE_LENGTH_PRIOR[0], FIXED)
        self.centre, self.spread = np.array([*priors, score_length, NOISE_PRIOR]).T
        low, high = self.centre - BOUND * self.spread, self.centre + BOUND * self.spread
        self._bounds = list(zip(low, high, strict=True))

    def maximise(self, start: Floats, rows: Ints, targets: Floats) -> Floats:
        """Return a better vector than ``start`` for standardised ``targets`` [n] of configurations."""
        from scipy.optimize import minimize

        result = minimize(
            self.negative,
            start,
            args=(Sample.of(self.space, rows, targets),),
            jac=True,
            method="L-BFGS-B",
            bounds=self._bounds,
            options={"maxiter": STEPS, "maxfun": 2 * STEPS},
        )
        return np.asarray(result.x) if result.fun < REFUSED else start

    def negative(self, vector: Floats, sample: Sample) -> tuple[float, Floats]:
        """Return the negative log posterior and its gradient; the signal's variance is integrated out."""
        from scipy.linalg import lapack

        targets, size = sample.targets, len(sample.targets)
        freedom = size + 2 * SCALE_WEIGHT
        terms = _Terms(self.space, Hyperparameters.of(vector, len(self.space.factors)), sample)
        covariance = terms.signal.reshape(size, size) + terms.parameters.noise * np.eye(size)
        lower, failed = lapack.dpotrf(covariance, lower=1)
        if failed:
            return REFUSED, np.zeros_like(vector)
        inverse, _ = lapack.dpotri(lower, lower=1)
        inverse = np.tril(inverse) + np.tril(inverse, -1).T
        weights = inverse @ targets
        misfit = targets @ weights + 2 * SCALE_WEIGHT
        offset = (vector - self.centre) / self.spread
        value = 0.5 * freedom * np.log(misfit) + np.log(lower.diagonal()).sum()
        slope = inverse - np.outer(weights, weights) * (freedom / misfit)
        gradient = terms.gradient(slope)
        return float(value + 0.5 * offset @ offset), gradient + offset / self.spread


class _Terms:
    """The parts of the covariance of a sample, and their derivatives."""

    def __init__(self, space: Space, parameters: Hyperparameters, sample: Sample) -> None:
        self.parameters, self._space, self._sample = parameters, space, sample
        self._tables = [
            correlation(f, v) for f, v in zip(space.factors, parameters.lengths, strict=True)
        ]
        self._factors = [
            (1 - share + share * table).ravel()[pair]
            for share, (table, _), pair in zip(
                parameters.shares, self._tables, sample.pairs, strict=True
            )
        ]
        self._total = 1 + float(parameters.weights.sum())
        self._product = np.multiply.reduce(self._factors) / self._total
        self._scores = [matern(gap, parameters.score_length) for gap in sample.gaps]
        self.signal = self._product.copy()
        for weight, (score, _) in zip(parameters.weights, self._scores, strict=True):
            self.signal += weight / self._total * score

    def gradient(self, slope: Floats) -> Floats:
        """Return half the sum of ``slope`` [n, n] times the derivatives by each hyperparameter."""
        flat = slope.ravel()
        shares, lengths = self._of_factors(flat * self._product)
        parts = self.parameters.weights / self._total
        weights = [
            part * (flat @ (score - self.signal))
            for part, (score, _) in zip(parts, self._scores, strict=True)
        ]
        score_length = sum(
            part * (flat @ derivative)
            for part, (_, derivative) in zip(parts, self._scores, strict=True)
        )
        noise = self.parameters.noise * np.trace(slope)
        return 0.5 * np.array([*shares, *lengths, *weights, score_length, noise])

    def _of_factors(self, weighted: Floats) -> tuple[list[float], list[float]]:
        """Return the sums for shares and for lengths."""
        shares, lengths = [], []
        for i, (dimension, share) in enumerate(
            zip(self._space.factors, self.parameters.shares, strict=True)
        ):
            table, derivative = self._tables[i]
            places = self._sample.pairs[i]
            without = np.bincount(places, weighted / self._factors[i], dimension.levels**2)
            shares.append(share * (1 - share) * float(without @ (table.ravel() - 1)))
            lengths.append(share * float(without @ derivative.ravel()))
        return shares, lengths
