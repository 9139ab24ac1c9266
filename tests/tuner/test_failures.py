"""A target that hangs or crashes costs its candidates: calibration and search go on, and tell."""

from __future__ import annotations

import logging
from dataclasses import replace

import pytest

from autotune.cost_model.shipped import shipped_model
from autotune.errors import StoreError, TargetError
from autotune.fusion.group import Group
from autotune.measure import attempt
from autotune.measure.measurement import FailureKind
from autotune.measure.runner import HANGS
from autotune.store.records import Outcome
from autotune.store.store import Store
from autotune.tuner.calibrate import calibrate
from autotune.tuner.failures import FailureCount, count_failures, count_reasons
from autotune.tuner.fusion import search
from autotune.tuner.options import SearchOptions
from autotune.tuner.schedules import GroupCosts
from tests.store.store_case import record
from tests.tuner.search_case import EDGE, calibrated, chain
from tests.tuner.stand_in import Fate, StandIn

pytestmark = pytest.mark.slow  # starts worker processes, trains models

KINDS = {
    Fate.HANGS: FailureKind.OVERDUE,
    Fate.CRASHES: FailureKind.DIED,
    Fate.BREAKS: FailureKind.DEFECT,
}
LIMIT_SECONDS = 1.5
"""A sound candidate takes milliseconds here; the machine may be busy."""


@pytest.mark.parametrize("fate", list(Fate))
def test_a_calibration_goes_on_and_counts_failures_by_kind(fate: Fate) -> None:
    with Store.memory() as store:
        result = calibrate(
            StandIn(fate, 15), budget=70, store=store, workers=2, time_limit_seconds=LIMIT_SECONDS
        )
        records = store.records(EDGE.spec.profile_id)
    assert result.measured == len(records) == 70
    (failures,) = [f for f in result.failures if f.kind is KINDS[fate]]
    assert 1 <= failures.count <= result.failed < 35
    reasons = {r.reason for r in records if r.outcome is Outcome.FAILED}
    assert failures.reason in reasons
    assert failures.reason.startswith(KINDS[fate].opening)


@pytest.mark.parametrize("fate", list(Fate))
def test_a_search_goes_on_and_counts_failures_by_kind(fate: Fate) -> None:
    model, _ = calibrated()
    options = SearchOptions(4, 12, workers=2, time_limit_seconds=LIMIT_SECONDS)
    target = StandIn(fate, 2)  # few programs are measured: the model errs little here
    found = search(chain(), target, model, options)
    kinds = [failure.kind for failure in count_failures(found.records)]
    failed = [r for r in found.records if r.outcome is Outcome.FAILED]
    assert failed and kinds == [KINDS[fate]]
    assert found.found.measured_cycles is not None


def test_a_target_that_always_hangs_ends_the_calibration_and_keeps_what_was_measured() -> None:
    with Store.memory() as store:
        with pytest.raises(TargetError, match=f"{HANGS} candidates in a row"):
            calibrate(
                StandIn(Fate.HANGS, 1), budget=60, store=store, workers=2, time_limit_seconds=0.2
            )
        records = store.records(EDGE.spec.profile_id)
    assert len(records) == HANGS
    assert {FailureKind.of(r.reason) for r in records} == {FailureKind.OVERDUE}


def test_a_target_that_always_crashes_ends_with_its_reasons_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("autotune.tuner.calibrate.MIN_RECORDS", 10)  # crashes take seconds
    with Store.memory() as store:
        with pytest.raises(StoreError):
            calibrate(StandIn(Fate.CRASHES, 1), budget=10, store=store, workers=2)
        assert store.count(EDGE.spec.profile_id, "calibrate") == 10


def test_a_defect_is_logged_with_its_traceback(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attempt, "_REPORTED", set())
    with caplog.at_level(logging.ERROR), Store.memory() as store:
        result = calibrate(StandIn(Fate.BREAKS, 15), budget=70, store=store, workers=1)
    assert [f.kind for f in result.failures] == [FailureKind.DEFECT]
    assert "a broken invariant" in caplog.text and "Please report" in caplog.text


def test_failures_are_counted_by_the_first_words_of_their_reasons() -> None:
    reasons = ["too large", "took longer than 2 s", "too large", "defect in lowering: KeyError: 3"]
    failed = [
        record(i, outcome=Outcome.FAILED, reason=reason, cycles=0)
        for i, reason in enumerate(reasons)
    ]
    assert count_failures([record(9), *failed]) == (
        FailureCount(FailureKind.REFUSED, 2, "too large"),
        FailureCount(FailureKind.OVERDUE, 1, "took longer than 2 s"),
        FailureCount(FailureKind.DEFECT, 1, "defect in lowering: KeyError: 3"),
    )


def test_reasons_are_counted_each() -> None:
    reasons = ["defect in lowering: KeyError: 3", "too large", "no tile", "no tile"]
    failed = [
        record(i, outcome=Outcome.FAILED, reason=reason, cycles=0)
        for i, reason in enumerate(reasons)
    ]
    assert [(f.kind, f.count, f.reason) for f in count_reasons([record(9), *failed])] == [
        (FailureKind.REFUSED, 2, "no tile"),
        (FailureKind.REFUSED, 1, "too large"),
        (FailureKind.DEFECT, 1, "defect in lowering: KeyError: 3"),
    ]


def test_a_stored_defect_does_not_count_against_its_candidate() -> None:
    model = shipped_model(EDGE.spec)
    assert model is not None
    group = Group.from_graph(chain(2), [op.name for op in chain(2).ops])
    first = GroupCosts(model, EDGE.spec).best(group, 1)[0].schedule
    for reason, is_kept in (("defect in lowering: KeyError: 3", True), ("too large", False)):
        failed = replace(
            record(1, outcome=Outcome.FAILED, reason=reason, cycles=0),
            group_key=group.key, group_json=group.to_json(), schedule_json=first.to_json(),
        )  # fmt: skip
        best = GroupCosts(model, EDGE.spec, known=[failed]).best(group, 1)[0].schedule
        assert (best == first) == is_kept
