"""The delay that theory expects of drift detection, at the noise of a series and at its autocorrelation.

A test that raises a false alarm every ``ARL`` runs needs log(ARL) / KL runs to find a change (Lorden 1971, of Wald 1945). KL is the
divergence of a run after the change from one before. Stationary Gaussian noise of long-run variance S that is shifted by m has
KL = m² / (2 S). So noise that is correlated over many runs hides a shift for longer.

Noise here is no Gaussian: single runs take much longer. So the formula is applied to Huber's score, which bounds each run
(Huber 1964): S is the score's long-run variance and m what the shift adds to its mean. A test that knows more of the noise than
spectrum and score, such as a height that it never reached, may be faster.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
BOUND_DEVIATIONS = 3.0
"""Deviations from the median at which the score ends; a deviation is 1.4826 medians of the distances."""
BATCHES = 50
"""Batches whose means give the long-run variance: each is longer than any spell that series are drawn of."""


def expected_delays(log_seconds: Floats, factor: float, alarm_runs: int) -> tuple[float, float]:
    """Return the runs until a shift by ``factor`` is found: were runs independent, and as they are correlated.

    ``log_seconds`` [runs] are quiet; one false alarm is allowed in ``alarm_runs``.
    """
    centre = float(np.median(log_seconds))
    bound = BOUND_DEVIATIONS * 1.4826 * float(np.median(np.abs(log_seconds - centre)))
    scores, moved = (
        np.clip(one - centre, -bound, bound)
        for one in (log_seconds, log_seconds + math.log(factor))
    )
    shift = float(moved.mean() - scores.mean())
    per_variance = 2.0 * math.log(alarm_runs) / shift**2
    return per_variance * float(scores.var()), per_variance * long_run_variance(scores)


def long_run_variance(values: Floats) -> float:
    """Return the variance of the mean of ``BATCHES`` parts of a series [runs], times the runs of a part."""
    runs = len(values) // BATCHES
    means = values[: BATCHES * runs].reshape(BATCHES, runs).mean(axis=1)
    return runs * float(means.var(ddof=1))
