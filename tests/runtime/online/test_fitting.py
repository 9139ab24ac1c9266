"""A fit beside runs stays in its thread and is left off between two folds when the session closes."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest

from autotune.cost_model.fitting import extended, fit
from autotune.cost_model.model import CostModel
from autotune.cost_model.replay_set import Replayed, Verdict, judge, predicted_cycles
from autotune.cost_model.shipped import shipped_model
from autotune.fusion.group import Group
from autotune.runtime.online import fitting
from autotune.runtime.online.fitting import LeftOff, fitted
from autotune.runtime.online.online_dataset import TrainingSet
from autotune.schedule.schedule import Schedule
from autotune.store.records import Record
from tests.cost_model.measured import SPEC, observations


def training_set() -> TrainingSet:
    records = tuple(observations(2, 60))
    return TrainingSet(records, (1.0,) * len(records))


def before() -> CostModel:
    model = shipped_model(SPEC)
    assert model is not None
    return model


def test_a_fit_is_left_off_between_two_folds() -> None:
    asked: list[bool] = []

    def stopping() -> bool:
        asked.append(len(asked) == 1)
        return asked[-1]

    with pytest.raises(LeftOff):
        fitted(training_set(), (), before(), SPEC, 0, stopping)
    assert asked == [False, True]


def test_a_fit_starts_no_thread_and_is_the_same_model(monkeypatch: pytest.MonkeyPatch) -> None:
    training = training_set()
    usual = fit(training.records, SPEC, seed=0, weights=training.weights, base=before())
    monkeypatch.setattr(threading.Thread, "start", lambda self: pytest.fail("a thread began"))
    model, verdict = fitted(training, (), before(), SPEC, 0)
    assert verdict is None
    assert model.to_bytes() == usual.to_bytes()


@pytest.mark.slow
def test_a_model_that_knows_most_is_extended_and_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fitting, "EXTENDED_FROM", 100)
    records = tuple(observations(2, 120))
    known = fit(records[:110], SPEC, seed=0)
    assert known.provenance is not None and known.kind == "guided"
    training = TrainingSet(records, (1.0,) * len(records))
    held = list(observations(3, 12))
    replayed = [Replayed(record, float(record.cycles), True) for record in held]
    more = extended(known, records, seed=0, weights=training.weights)
    assert more is not None
    model, verdict = fitted(training, replayed, known, SPEC, 0)
    assert verdict is not None and verdict.count == len(held)
    assert (model.to_bytes() == more.to_bytes()) == (not verdict_of(known, more, replayed).is_worse)
    # what the model before predicts exactly: any other one errs more, and a model is fitted
    exact = [replace(one, cycles=known.predict(*candidate(one.record))) for one in replayed]
    model, verdict = fitted(training, exact, known, SPEC, 0)
    fresh = fit(records, SPEC, seed=0, base=before())
    assert verdict is not None and verdict.is_worse and model.to_bytes() == fresh.to_bytes()
    drifted = replace(training, drifted=True)
    model, _ = fitted(drifted, replayed, known, SPEC, 0)
    assert model.to_bytes() == fresh.to_bytes()


def candidate(record: Record) -> tuple[Group, Schedule]:
    return Group.from_json(record.group_json), Schedule.from_json(record.schedule_json)


def verdict_of(old: CostModel, new: CostModel, replayed: list[Replayed]) -> Verdict:
    found = judge(
        replayed,
        lambda record: predicted_cycles(old, record),
        lambda record: predicted_cycles(new, record),
    )
    assert found is not None
    return found
