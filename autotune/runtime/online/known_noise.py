"""Decisions by the size of a difference, where the noise of single runs is known from runs of the version in use.

A sign says little: sixteen pairs are the least that a sign test needs. Where a machine's noise has no long tail, as that of
emulated machines (log-normal, some per cent), two to four pairs show a difference of ten times the noise.
"""

from __future__ import annotations

import functools
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

EARLY_LOOKS = (2, 3, 4, 6, 8, 12)
"""Pairs after which the size may decide, each time with an equal part of the risk."""
FUTILE = 2.0
"""Standard errors below the least gain at which a version is given up: no error but a gain lost."""
LEAST_ERROR = 1e-9
"""Standard error of a machine without noise, at least: its costs are whole numbers."""


@dataclass(frozen=True, slots=True)
class Noise:
    """Variance of the logarithm of a single run's time, and the degrees of freedom of that estimate."""

    variance: float
    freedom: int


def noise_of(runs: npt.NDArray[np.int64], places: Sequence[int]) -> Noise | None:
    """Return the noise of some steps, by ``runs`` [runs, steps] of the version in use; None with fewer than four.

    It is that of the sum, or of a single one of the steps if that is more: a version that merges them draws one noise where
    the plan in use draws several, which average.
    """
    if len(runs) < 4 or not places:
        return None
    taken = np.maximum(runs[:, list(places)], 1).astype(np.float64)
    totals = taken.sum(axis=1)
    alone = float(np.log(taken).var(axis=0, ddof=1) @ (taken.sum(axis=0) / totals.sum()))
    return Noise(max(alone, float(np.log(totals).var(ddof=1))), len(runs) - 1)


def exceeds(differences: Sequence[float], noise: Noise, risk: float) -> bool:
    """Return True if the mean of paired log differences is above 0 beyond the noise, at a ``risk`` over all looks.

    Student's test with the known variance of a pair, or with that of these pairs where it is greater: another noise than the
    known one, or a machine that changes meanwhile, widens the bound.
    """
    bound = _quantile(risk / len(EARLY_LOOKS), noise.freedom)
    return statistics.fmean(differences) > bound * _error(differences, noise)


def falls_short(differences: Sequence[float], noise: Noise) -> bool:
    """Return True if the mean of paired log differences is below 0 by ``FUTILE`` standard errors."""
    return statistics.fmean(differences) <= -FUTILE * _error(differences, noise)


def _error(differences: Sequence[float], noise: Noise) -> float:
    variance = max(2.0 * noise.variance, statistics.variance(differences))
    return max(LEAST_ERROR, math.sqrt(variance / len(differences)))


@functools.cache
def _quantile(risk: float, freedom: int) -> float:
    """Return what Student's t exceeds with this probability."""
    from scipy.special import stdtrit  # slow to import; most sessions never try a version

    return float(stdtrit(freedom, 1.0 - risk))
