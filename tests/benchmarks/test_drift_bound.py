"""Expected delays of drift detection are those of closed forms: independent noise, and noise of one autoregression."""

from __future__ import annotations

import math

import numpy as np
import pytest

from benchmarks.drift_bound import expected_delays

RUNS, FACTOR, ALARM_RUNS = 200_000, 1.05, 100_000


def wald(variance: float) -> float:
    """Return the delay at Gaussian noise of this long-run variance."""
    return 2 * math.log(ALARM_RUNS) * variance / math.log(FACTOR) ** 2


def test_independent_noise_has_one_delay() -> None:
    noise = np.random.default_rng(0).normal(-7.0, 0.05, RUNS)
    alone, correlated = expected_delays(noise, FACTOR, ALARM_RUNS)
    assert alone == pytest.approx(wald(0.05**2), rel=0.03)
    assert correlated == pytest.approx(wald(0.05**2), rel=0.5)  # of 50 batches


def test_correlated_noise_hides_a_shift_for_longer() -> None:
    rng, kept = np.random.default_rng(1), 0.9
    innovations, noise = rng.normal(0, 0.02, RUNS), np.zeros(RUNS)
    for run in range(1, RUNS):
        noise[run] = kept * noise[run - 1] + innovations[run]
    alone, correlated = expected_delays(noise, FACTOR, ALARM_RUNS)
    assert alone == pytest.approx(wald(0.02**2 / (1 - kept**2)), rel=0.05)
    assert correlated == pytest.approx(wald(0.02**2 / (1 - kept) ** 2), rel=0.5)


def test_single_long_runs_hide_no_shift() -> None:
    rng = np.random.default_rng(2)
    noise = rng.normal(0, 0.02, RUNS)
    spiky = noise + (rng.random(RUNS) < 0.01) * 2.0
    plain, _ = expected_delays(noise, FACTOR, ALARM_RUNS)
    assert expected_delays(spiky, FACTOR, ALARM_RUNS)[0] < 1.3 * plain
