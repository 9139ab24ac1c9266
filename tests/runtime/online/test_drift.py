"""Drift is found when runs take another time for good, with the time when it began, and only then."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.errors import InputError
from autotune.runtime.online.drift import DetectedDrift, DriftDetector, DriftRule


def noise(count: int, spread: float, seed: int = 0) -> list[float]:
    """Seconds around 0.01 with log-normal noise."""
    drawn = np.random.default_rng(seed).normal(0, spread, count)
    return (0.01 * np.exp(drawn)).tolist()


def found(
    detector: DriftDetector, seconds: list[float], start: int = 0
) -> tuple[int, DetectedDrift] | None:
    for run, one in enumerate(seconds, start):
        drift = detector.observe(one, float(run))
        if drift is not None:
            return run, drift
    return None


@pytest.mark.parametrize(
    ("spread", "change", "most_runs"), [(0, 5, 8), (1, 5, 12), (3, 10, 16), (5, 30, 16)]
)
def test_a_shift_is_found_with_its_size_and_begin(spread: int, change: int, most_runs: int) -> None:
    detector, factor = DriftDetector(), 1 + change / 100
    assert found(detector, noise(500, spread / 100)) is None
    answer = found(detector, [factor * one for one in noise(100, spread / 100, 1)], 500)
    assert answer is not None
    run, drift = answer
    assert run < 500 + most_runs
    assert drift.since_seconds == pytest.approx(500, abs=4)
    assert drift.change == pytest.approx(factor - 1, rel=0.5)
    assert drift.noise == pytest.approx(spread / 100, rel=0.4)


def test_faster_runs_are_drift_too() -> None:
    detector = DriftDetector()
    found(detector, [0.01] * 50)
    answer = found(detector, [0.008] * 20)
    assert answer is not None
    assert answer[1].change == pytest.approx(-0.2)


@pytest.mark.parametrize("spread", [0.0, 0.01, 0.03, 0.05])
def test_quiet_runs_are_no_drift(spread: float) -> None:
    assert found(DriftDetector(), noise(20_000, spread)) is None


def test_noise_that_grows_threefold_is_no_drift() -> None:
    assert found(DriftDetector(), noise(1000, 0.01) + noise(20_000, 0.03, 1)) is None


@given(st.lists(st.floats(0.01, 0.01 * 1.024), min_size=1, max_size=60))
def test_a_change_below_half_of_the_least_is_never_drift(seconds: list[float]) -> None:
    assert found(DriftDetector(), [0.01] * 64 + seconds) is None


def test_one_outlier_of_any_size_is_not_drift() -> None:
    assert found(DriftDetector(), [0.01] * 20 + [1e6] + [0.01] * 20 + [1e-9] + [0.01] * 20) is None


def test_after_a_restart_the_next_runs_are_the_level() -> None:
    detector = DriftDetector()
    assert found(detector, [0.01] * 20 + [0.02] * 20) is not None
    detector.restart()
    assert detector.level_seconds is None
    assert found(detector, [0.02] * 40) is None
    assert detector.level_seconds == pytest.approx(0.02)


@pytest.mark.parametrize(
    "wrong",
    [
        {"change": 0.0},
        {"least_runs": 0},
        {"least_runs": 65},
        {"confirm_runs": 0},
        {"least_seconds": -1},
    ],
)
def test_a_rule_that_cannot_work_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(InputError):
        DriftRule(**wrong)
