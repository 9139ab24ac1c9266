"""The embedded predictor answers from a stored model, for one group or many."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from autotune.cost_model.model import CostModel
from autotune.cost_model.predictor import Predictor
from autotune.errors import ScheduleError, StoreError
from autotune.schedule.candidate import Candidate
from autotune.schedule.fit import check
from autotune.schedule.schedule import NestSchedule, Schedule
from autotune.store.store import Store
from autotune.targets.emulator.target import EmulatorTarget
from tests.cost_model.measured import SPEC, drawn, observations


@pytest.fixture(scope="module")
def predictor() -> Predictor:
    return Predictor(CostModel.fit(list(observations(2, 60)), SPEC, seed=0))


def test_a_stored_model_is_loaded_by_its_target(predictor: Predictor, tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    target = EmulatorTarget(SPEC)
    with Store.open(path) as store:
        with pytest.raises(StoreError, match="run 'autotune calibrate --target small' first"):
            Predictor.load(target, store)
        blob = predictor.model.to_bytes()
        store.save_model(SPEC.profile_id, blob, predictor.model.metrics, 1)
    group, _, schedule = drawn(np.random.default_rng(1))
    assert Predictor.load(target, path).predict(group, schedule) == predictor.predict(
        group, schedule
    )


def test_many_equal_one_by_one(predictor: Predictor) -> None:
    rng = np.random.default_rng(3)
    drawings = [drawn(rng) for _ in range(4)]
    candidates = [Candidate(g, s, "test") for g, _, s in (*drawings, *drawings[:2])]
    found = predictor.predict_many(candidates)
    assert [cost.schedule for cost in found] == [c.schedule for c in candidates]
    for cost, candidate in zip(found, candidates, strict=True):
        alone = predictor.predict(candidate.group, candidate.schedule)
        assert cost.cycles == pytest.approx(alone.cycles, rel=1e-5)
        assert cost.low_cycles <= cost.cycles <= cost.high_cycles
        assert cost.energy_fj > 0 and cost.dram_bytes > 0


def test_the_best_schedule_is_legal_and_no_worse_than_another(predictor: Predictor) -> None:
    group, nests, schedule = drawn(np.random.default_rng(8))
    best = predictor.predict(group)
    assert check(nests, best.schedule, SPEC.scratchpad_elements, SPEC.cores) is None
    assert best.cycles <= predictor.predict(group, schedule).cycles * 1.1


def test_an_illegal_schedule_is_refused(predictor: Predictor) -> None:
    group, nests, _ = drawn(np.random.default_rng(8))
    rank = len(nests[0].root_shape)
    k_tile = tuple(c.k_extent for c in nests[0].contractions)
    wrong = NestSchedule(tuple(n + 1 for n in nests[0].root_shape), tuple(range(rank)), k_tile)
    with pytest.raises(ScheduleError, match="tile"):
        predictor.predict(group, Schedule((wrong,) * len(nests)))
