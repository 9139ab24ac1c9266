"""A fit beside runs stays in its thread and is left off between two folds when the session closes."""

from __future__ import annotations

import threading

import pytest

from autotune.cost_model.model import CostModel
from autotune.cost_model.shipped import shipped_model
from autotune.runtime.online.fitting import LeftOff, fitted
from autotune.runtime.online.online_dataset import TrainingSet
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
    usual = CostModel.fit(training.records, SPEC, seed=0, weights=training.weights, base=before())
    monkeypatch.setattr(threading.Thread, "start", lambda self: pytest.fail("a thread began"))
    model, verdict = fitted(training, (), before(), SPEC, 0)
    assert verdict is None
    assert model.to_bytes() == usual.to_bytes()
