"""Groups whose times do not agree are timed again at the end of a calibration; the surer time counts."""

from __future__ import annotations

import random

import pytest

from autotune.measure.measurement import Measurement
from autotune.store.records import Record
from autotune.store.store import Store
from autotune.targets.plugins.model_target import ModelTarget
from autotune.targets.protocol import Target
from autotune.tuner import calibrate_groups
from autotune.tuner.records import DOUBTFUL_TRUST, to_record
from tests.targets.plugins.timing_functions import by_results

BUDGET = 60


def restless(model: bytes) -> float:
    """Times as ``by_results`` does, or up to twice as long."""
    return by_results(model) * random.SystemRandom().uniform(1.0, 2.0)


def test_the_surer_of_two_times_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[Record] = []

    def noted(result: Measurement, target: Target, source: str) -> Record:
        taken.append(to_record(result, target, source))
        return taken[-1]

    monkeypatch.setattr(calibrate_groups, "to_record", noted)
    machine, store = ModelTarget("mine", restless), Store.memory()
    result = calibrate_groups.calibrate_groups(machine, budget=BUDGET, store=store)
    assert result.measured == BUDGET
    trusts: dict[str, list[float]] = {}
    for record in taken:
        trusts.setdefault(record.group_key, []).append(record.trust)
    assert all((len(each) == 2) == (each[0] < DOUBTFUL_TRUST) for each in trusts.values())
    assert any(each[0] < each[-1] for each in trusts.values())
    kept = {record.group_key: record.trust for record in store.records(machine.profile_id)}
    assert kept == {key: max(each) for key, each in trusts.items()}
    assert calibrate_groups.calibrate_groups(machine, budget=BUDGET, store=store).measured == 0
