"""On this machine drift is a plateau beyond all that passed by themselves; spells, bursts and clock steps are none."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from autotune.errors import InputError
from autotune.runtime.online.drift import DetectedDrift
from autotune.runtime.online.host_drift import HostDriftDetector, HostDriftRule
from benchmarks.drift_series import KINDS

MILLISECONDS = 20.0


def found(
    detector: HostDriftDetector, log_seconds: npt.NDArray[np.float64], start: int = 0
) -> tuple[int, DetectedDrift] | None:
    """Feed runs of about 20 ms one behind the other."""
    for run, one in enumerate(log_seconds.tolist(), start):
        drift = detector.observe(
            1e-3 * MILLISECONDS * float(np.exp(one)), 1e-3 * MILLISECONDS * run
        )
        if drift is not None:
            return run, drift
    return None


@pytest.mark.parametrize("kind", KINDS)
def test_ordinary_noise_is_no_drift(kind: str) -> None:
    assert found(HostDriftDetector(), KINDS[kind](30_000, np.random.default_rng(7))) is None


@pytest.mark.parametrize(("change", "most_runs"), [(0.05, 50), (0.10, 45), (0.30, 45), (-0.10, 45)])
def test_a_shift_is_found_within_fifty_runs(change: float, most_runs: int) -> None:
    detector = HostDriftDetector()
    values = KINDS["drawn: slow spells"](9_000, np.random.default_rng(3))
    assert found(detector, values[:8000]) is None
    answer = found(detector, values[8000:] + np.log(1 + change), 8000)
    assert answer is not None
    run, drift = answer
    assert run < 8000 + most_runs
    assert drift.change == pytest.approx(change, abs=0.02)
    assert drift.since_seconds == pytest.approx(160.0, abs=0.5)


def test_a_burst_of_another_process_is_no_drift_and_dulls_nothing() -> None:
    detector, quiet = HostDriftDetector(), np.zeros(8000)
    values = quiet.copy()
    values[900:920] = np.log(3.0)
    assert found(detector, values) is None
    answer = found(detector, quiet[:60] + np.log(1.05), 8000)
    assert answer is not None and answer[0] < 8050


def test_a_machine_that_steps_to_and_fro_has_to_stay_longer_each_time() -> None:
    detector, drifts = HostDriftDetector(), 0
    steps = 0.2 * (np.arange(60_000) // 700 % 2)
    for run, one in enumerate(steps.tolist()):
        if detector.observe(0.02 * float(np.exp(one)), 0.02 * run) is not None:
            drifts += 1
            detector.restart()
    assert drifts <= 2


def test_a_long_plateau_is_found_below_the_height_of_short_ones() -> None:
    detector, rng = HostDriftDetector(), np.random.default_rng(5)
    values = rng.normal(0, 0.005, 24_000)
    for begin in range(400, 18_000, 800):  # spells of five blocks, a tenth longer
        values[begin : begin + 60] += np.log(1.1)
    assert found(detector, values[:20_000]) is None
    answer = found(detector, values[20_000:] + np.log(1.05), 20_000)
    assert answer is not None
    assert 20_000 + 5 * 12 < answer[0] < 20_000 + 13 * 12
    assert answer[1].change == pytest.approx(0.05, abs=0.01)


def test_what_was_seen_little_needs_more_to_be_drift() -> None:
    """Of equal noise: a step of 5 % after 100 blocks is none yet, after 600 it is; one of 30 % always is."""
    for blocks, change, is_found in ((100, 0.05, False), (600, 0.05, True), (100, 0.30, True)):
        quiet = np.random.default_rng(6).normal(0, 0.002, 12 * (blocks + 6))
        quiet[12 * blocks :] += np.log(1 + change)
        assert (found(HostDriftDetector(), quiet) is not None) is is_found


def test_a_plateau_of_short_runs_has_to_last() -> None:
    detector = HostDriftDetector()
    seconds = np.full(60_000, 2e-3)
    seconds[30_000:30_030] *= 1.5  # 90 ms
    for run, one in enumerate(seconds.tolist()):
        assert detector.observe(one, 2e-3 * run) is None


def test_of_short_runs_some_are_looked_at() -> None:
    detector, run = HostDriftDetector(), 0
    while detector.observe(1e-4 if run < 100_000 else 1.5e-4, 1e-4 * run) is None:
        run += 1
    assert 100_000 <= run < 105_000  # half a second


@pytest.mark.parametrize(
    "wrong",
    [
        {"change": 0.0},
        {"block_runs": 0},
        {"level_blocks": 0},
        {"block_seconds": -1.0},
        {"plateau_seconds": -1.0},
        {"plateau_blocks": ()},
    ],
)
def test_a_rule_that_cannot_work_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(InputError):
        HostDriftRule(**wrong)
