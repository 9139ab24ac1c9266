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
EXACT = 1e-9
"""Standard deviation of pairs on a machine without noise, at most."""
UNLIKE = 0.05
"""Risk of taking pairs for noisier than the known noise, by an F test: they leave the decision to signs."""


@dataclass(frozen=True, slots=True)
class Noise:
    """Variance of the logarithm of a single run's time, and the degrees of freedom that the estimate counts for."""

    variance: float
    freedom: int


def noise_of(runs: npt.NDArray[np.int64], places: Sequence[int], most_freedom: int) -> Noise | None:
    """Return the noise of some steps, by ``runs`` [runs, steps] of the version in use; None with fewer than four.

    The estimate counts for ``most_freedom`` degrees at most, those of the runs before a trial: runs beside it may widen
    the bound and never narrow it. It is the noise of the steps' sum, or of a single step if that is more. A version that
    merges steps draws one noise, where the plan in use draws several, which average.
    """
    if min(len(runs), most_freedom + 1) < 4 or not places:
        return None
    taken = np.maximum(runs[:, list(places)], 1).astype(np.float64)
    totals = taken.sum(axis=1)
    alone = float(np.log(taken).var(axis=0, ddof=1) @ (taken.sum(axis=0) / totals.sum()))
    variance = max(alone, float(np.log(totals).var(ddof=1)))
    return Noise(variance, min(most_freedom, len(runs) - 1))


def exceeds(differences: Sequence[float], noise: Noise, risk: float) -> bool:
    """Return True if the mean of paired log differences is above 0 beyond the noise, at a ``risk`` over all looks.

    Student's test with the known variance of a pair, or with that of these pairs where it is greater. False where the pairs
    scatter more than the known noise explains: it is another one by now, or the machine changes. Pairs that are equal show
    that there is no noise, whatever was known.
    """
    mean, scatter = statistics.fmean(differences), statistics.variance(differences)
    if scatter <= EXACT**2:
        return mean > 0.0
    if scatter > 2.0 * noise.variance * _most_scatter(len(differences) - 1, noise.freedom):
        return False
    return mean > _quantile(risk / len(EARLY_LOOKS), noise.freedom) * _error(differences, noise)


def falls_short(differences: Sequence[float], noise: Noise) -> bool:
    """Return True if the mean of paired log differences is below 0 by ``FUTILE`` standard errors."""
    mean = statistics.fmean(differences)
    if statistics.variance(differences) <= EXACT**2:
        return mean <= 0.0
    return mean <= -FUTILE * _error(differences, noise)


def _error(differences: Sequence[float], noise: Noise) -> float:
    variance = max(2.0 * noise.variance, statistics.variance(differences))
    return math.sqrt(variance / len(differences))


@functools.cache
def _quantile(risk: float, freedom: int) -> float:
    """Return what Student's t exceeds with this probability."""
    from scipy.special import stdtrit  # slow to import; most sessions never try a version

    return float(stdtrit(freedom, 1.0 - risk))


@functools.cache
def _most_scatter(freedom: int, known_freedom: int) -> float:
    """Return the ratio of two variances of one distribution that is exceeded with the risk ``UNLIKE``."""
    from scipy.special import fdtri

    return float(fdtri(freedom, known_freedom, 1.0 - UNLIKE))
