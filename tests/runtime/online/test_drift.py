"""Drift is found when error grows over its baseline, at the run where it began, and only then."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.errors import InputError
from autotune.runtime.online.drift import Drift, DriftDetector, DriftRule

RULE = DriftRule(window_runs=4, confirm_runs=2, factor=2.0, floor=0.05)


def fed(detector: DriftDetector, errors: list[float], start: int = 1) -> Drift | None:
    for run, error in enumerate(errors, start):
        found = detector.observe(run, error)
        if found is not None:
            return found
    return None


def test_growth_over_the_baseline_is_found_at_the_run_where_it_began() -> None:
    found = fed(DriftDetector(RULE, None), [0.03] * 9 + [0.30] * 4)
    assert found is not None
    assert found.first_run == 10
    assert found.baseline == pytest.approx(0.03)
    assert found.error > RULE.threshold(0.03)


def test_one_outlier_among_good_runs_is_not_drift() -> None:
    assert fed(DriftDetector(RULE, None), [0.03] * 6 + [9.0] + [0.03] * 6) is None


@given(st.floats(0, 0.5), st.lists(st.floats(0.0, 0.049), min_size=1, max_size=60))
def test_noise_below_the_floor_is_never_drift(level: float, noise: list[float]) -> None:
    assert fed(DriftDetector(RULE, None), [level] * 4 + [level + n for n in noise]) is None


def test_a_machine_that_drifted_before_the_first_run_is_found_by_the_held_out_error() -> None:
    assert fed(DriftDetector(RULE, 0.08), [0.3] * 4) is not None
    assert fed(DriftDetector(RULE, None), [0.3] * 4) is None


def test_after_a_restart_the_next_window_is_the_baseline() -> None:
    detector = DriftDetector(RULE, 0.01)
    assert fed(detector, [0.3] * 4) is not None
    detector.restart(None)
    assert detector.error is None and detector.baseline is None
    assert fed(detector, [0.3] * 12, start=5) is None


@pytest.mark.parametrize(
    "wrong", [{"window_runs": 1}, {"confirm_runs": 7}, {"factor": 1.0}, {"floor": -0.1}]
)
def test_a_rule_that_cannot_work_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(InputError):
        DriftRule(**wrong)
