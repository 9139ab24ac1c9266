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
    values = KINDS["drawn: slow spells"](3_000, np.random.default_rng(3))
    assert found(detector, values[:2000]) is None
    answer = found(detector, values[2000:] + np.log(1 + change), 2000)
    assert answer is not None
    run, drift = answer
    assert run < 2000 + most_runs
    assert drift.change == pytest.approx(change, abs=0.02)
    assert drift.since_seconds == pytest.approx(40.0, abs=0.5)


def test_a_burst_of_another_process_is_no_drift_and_dulls_nothing() -> None:
    detector, quiet = HostDriftDetector(), np.zeros(1500)
    values = quiet.copy()
    values[900:920] = np.log(3.0)
    assert found(detector, values) is None
    answer = found(detector, quiet[:60] + np.log(1.05), 1500)
    assert answer is not None and answer[0] < 1550


def test_a_machine_that_steps_to_and_fro_has_to_stay_longer_each_time() -> None:
    detector, drifts = HostDriftDetector(), 0
    steps = 0.2 * (np.arange(60_000) // 700 % 2)
    for run, one in enumerate(steps.tolist()):
        if detector.observe(0.02 * float(np.exp(one)), 0.02 * run) is not None:
            drifts += 1
            detector.restart()
    assert drifts <= 2


def test_of_short_runs_some_are_looked_at() -> None:
    detector, run = HostDriftDetector(), 0
    while detector.observe(1e-4 if run < 100_000 else 1.5e-4, 1e-4 * run) is None:
        run += 1
    assert 100_000 <= run < 105_000  # half a second


@pytest.mark.parametrize(
    "wrong", [{"change": 0.0}, {"block_runs": 0}, {"level_blocks": 0}, {"block_seconds": -1.0}]
)
def test_a_rule_that_cannot_work_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(InputError):
        HostDriftRule(**wrong)
