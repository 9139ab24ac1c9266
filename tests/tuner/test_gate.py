"""The gate of a calibration: a worse model does not take the place of the one before; both can be asked."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from autotune import api
from autotune.cost_model.additive.model import AdditiveModel
from autotune.cost_model.replay_set import Verdict
from autotune.store.records import Record
from autotune.store.store import Store
from autotune.targets.plugins.model_target import ModelTarget
from autotune.tuner.calibrate_groups import calibrate_groups
from autotune.tuner.gate import note, save_better
from tests.targets.plugins import timing_functions as functions

MACHINE = ModelTarget("mine", functions.by_results)


def test_a_worse_model_is_kept_behind_the_one_before() -> None:
    with Store.memory() as store:
        assert save_better(store, "p", b"first", {}, 1, None, None)
        before = store.load_model("p")
        assert before is not None
        assert not save_better(store, "p", b"worse", {}, 1, before, Verdict(0.1, 0.2, 9))
        assert [one.blob for one in store.models("p")] == [b"first", b"worse"]
        assert "the one before; mean error on 9 new" in note(Verdict(0.1, 0.2, 9), b"worse", before)
        assert save_better(store, "p", b"better", {}, 1, before, Verdict(0.1, 0.1, 9))
        assert [one.blob for one in store.models("p")] == [b"better", b"first", b"worse"]
        assert note(None, b"first", before) == note(None, b"first", None) == ""
        assert "too few" in note(None, b"other", before)


@pytest.mark.slow
def test_a_calibration_repeated_on_spoilt_measurements_keeps_its_model(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fit = AdditiveModel.fit

    def spoilt(records: list[Record], *rest: Any) -> AdditiveModel:
        """Train as if every other group had taken a hundred times as long."""
        return fit(
            [replace(r, cycles=r.cycles * (100 if i % 2 else 1)) for i, r in enumerate(records)],
            *rest,
        )

    with Store.memory() as store:
        first = calibrate_groups(MACHINE, budget=60, store=store)
        assert first.kept == ""
        monkeypatch.setattr(AdditiveModel, "fit", spoilt)
        second = calibrate_groups(MACHINE, budget=140, store=store)
        again = calibrate_groups(MACHINE, budget=140, store=store)
        assert second.kept.startswith("the one before") and second.kept == again.kept
        assert second.model.to_bytes() == first.model.to_bytes()
        newest, other = store.models(MACHINE.profile_id)
        assert newest.blob == first.model.to_bytes()
        monkeypatch.undo()
        third = calibrate_groups(MACHINE, budget=220, store=store)
        assert third.kept.startswith("the new one") and other.sha256 not in third.kept
        asked = api.predict_network("mlp", MACHINE, store=store, version=other.sha256[:12])
        assert asked.seconds != api.predict_network("mlp", MACHINE, store=store).seconds
