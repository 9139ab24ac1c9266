"""What a Gaussian process knows of all candidates, extended by one observation at a time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from autotune.tuner.blackbox.kernel import Covariance
from autotune.tuner.blackbox.likelihood import SCALE_WEIGHT
from autotune.tuner.blackbox.space import Floats, Ints

JITTER = 1e-6
LEAST_VARIANCE = 1e-6
FIRST_CAPACITY = 64


@dataclass(frozen=True, slots=True)
class Marginals:
    """``mean`` [c] and ``deviation`` [c] of every candidate's value."""

    mean: Floats
    deviation: Floats


class Posterior:
    """The process given observed ``rows``, over ``candidates`` [c]; an observation costs O(rows · c)."""

    def __init__(self, covariance: Covariance, rows: Ints, candidates: Ints) -> None:
        from scipy.linalg import cholesky, solve_triangular

        self._covariance = covariance
        self._noise = covariance.noise + JITTER
        self._candidates = candidates
        count = len(rows)
        capacity = max(FIRST_CAPACITY, 2 * count)
        self._rows = np.zeros(capacity, np.int64)
        self._lower = np.zeros((capacity, capacity))
        self._solved = np.empty((capacity, len(candidates)), np.float32)
        self._count = count
        own = covariance.between(rows, rows) + self._noise * np.eye(count)
        self._rows[:count] = rows
        self._lower[:count, :count] = cholesky(own, lower=True)
        lower = self._lower[:count, :count].astype(np.float32)
        across = covariance.between(rows, candidates)
        self._solved[:count] = solve_triangular(lower, across, lower=True, check_finite=False)
        self._explained = np.einsum("ij,ij->j", self._solved[:count], self._solved[:count])

    def observe(self, row: int) -> None:
        """Add an observed configuration."""
        from scipy.linalg import solve_triangular

        if self._count == len(self._rows):
            self._grow()
        n = self._count
        own = self._covariance.between(np.array([row]), self._rows[:n])[0].astype(np.float64)
        new = solve_triangular(self._lower[:n, :n], own, lower=True, check_finite=False)
        pivot = np.sqrt(max(1 + self._noise - new @ new, JITTER))
        self._lower[n, :n], self._lower[n, n] = new, pivot
        across = self._covariance.between(np.array([row]), self._candidates)[0]
        solved = (across - new.astype(np.float32) @ self._solved[:n]) / np.float32(pivot)
        self._solved[n] = solved
        self._explained += solved * solved
        self._rows[n] = row
        self._count += 1

    def _grow(self) -> None:
        more = len(self._rows)
        self._rows = np.pad(self._rows, (0, more))
        self._lower = np.pad(self._lower, ((0, more), (0, more)))
        self._solved = np.pad(self._solved, ((0, more), (0, 0)))

    def predict(self, targets: Floats) -> Marginals:
        """Return the marginals for ``targets`` [n] of the observed rows, in their order; the deviation counts
        what no parameter explains."""
        from scipy.linalg import solve_triangular

        n = self._count
        assert len(targets) == n, "one target for each observed configuration"
        weights = solve_triangular(self._lower[:n, :n], targets, lower=True, check_finite=False)
        scale = (weights @ weights + 2 * SCALE_WEIGHT) / (n + 2 * SCALE_WEIGHT)
        mean = weights.astype(np.float32) @ self._solved[:n]
        unexplained = np.maximum(1 - self._explained, LEAST_VARIANCE) + self._noise
        return Marginals(mean.astype(np.float64), np.sqrt(scale * unexplained.astype(np.float64)))
