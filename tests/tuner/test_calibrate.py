"""Calibration: draws legal candidates, continues where it was interrupted, trains."""

import math
import zlib
from dataclasses import replace

import pytest

from autotune.errors import StoreError
from autotune.isa.program import Program
from autotune.measure.measurement import Failed, Measured
from autotune.measure.runner import measure
from autotune.store.records import Outcome
from autotune.store.store import Store
from autotune.targets.protocol import Execution
from autotune.tuner.calibrate import calibrate
from autotune.tuner.records import to_record
from autotune.tuner.sampling import sample_candidates
from tests.tuner.search_case import EDGE, calibrated, chain, residual

pytestmark = pytest.mark.slow  # trains models

PROFILE = EDGE.spec.profile_id


def test_the_model_predicts_what_it_was_trained_on() -> None:
    model, records = calibrated()
    assert model.metrics["n"] == sum(record.outcome is Outcome.OK for record in records)
    assert model.metrics["spearman"] > 0.9


def test_an_interrupted_calibration_continues() -> None:
    def interrupt(phase: str, done: int, total: int, best: float | None = None) -> None:
        if done == 30:
            raise KeyboardInterrupt

    with Store.memory() as store:
        with pytest.raises(KeyboardInterrupt):
            calibrate(EDGE, budget=80, store=store, progress=interrupt, workers=1)
        assert store.count(PROFILE, "calibrate") == 30
        result = calibrate(EDGE, budget=80, store=store, workers=1)
        assert (result.measured, result.known_before) == (50, 30)
        assert repr(result).startswith("<CalibrationResult edge: measured 50 (0 failed), known")
        assert store.count(PROFILE, "calibrate") == 80
        again = calibrate(EDGE, budget=80, store=store, workers=1)
        assert (again.measured, again.known_before) == (0, 80)
        assert store.load_model(PROFILE) is not None


def test_a_budget_too_small_for_a_model_is_refused_before_anything_is_measured() -> None:
    with Store.memory() as store:
        with pytest.raises(StoreError, match=r"edge: .* budget of 40 .* nothing was measured"):
            calibrate(EDGE, budget=40, store=store, workers=1)
        assert store.count(PROFILE) == 0


def test_other_networks_are_measured_although_the_budget_was_spent_before() -> None:
    with Store.memory() as store:
        calibrate(EDGE, budget=60, store=store, workers=1)
        more = calibrate(EDGE, budget=60, graphs=(residual(),), store=store, workers=1)
        assert more.measured > 0


def test_a_repeated_calibration_judges_its_model_beside_the_one_before() -> None:
    with Store.memory() as store:
        first = calibrate(EDGE, budget=60, store=store, workers=1)
        assert first.kept == ""
        second = calibrate(EDGE, budget=140, store=store, workers=1)
        newest, other = store.models(PROFILE)
        assert "new measurements that neither was trained on" in second.kept
        assert other.sha256[:12] in second.kept
        assert newest.blob == second.model.to_bytes()
        assert (newest.blob == first.model.to_bytes()) == second.kept.startswith("the one before")


def test_a_record_says_what_was_measured_or_why_not() -> None:
    candidate = next(sample_candidates((chain(),), EDGE.spec, 0))
    (result,) = measure(EDGE, [candidate], 1)
    assert isinstance(result, Measured)
    record = to_record(result, EDGE, "calibrate", clock=lambda: 7.0)
    assert (record.group_key, record.schedule_json) == candidate.key
    assert (record.cycles, record.outcome) == (result.execution.cycles, Outcome.OK)
    assert (record.created_at, record.network) == (7.0, candidate.network)
    failed = to_record(Failed(candidate, "too hot"), EDGE, "search")
    assert (failed.outcome, failed.reason, failed.cycles) == (Outcome.FAILED, "too hot", 0)


def test_the_groups_it_is_worst_at_are_told_worst_first() -> None:
    with Store.memory() as store:
        result = calibrate(EDGE, budget=60, store=store, workers=1)
        records = store.records(PROFILE)
    sizes = [abs(math.log(group.factor)) for group in result.worst]
    assert sizes == sorted(sizes, reverse=True)
    assert 1 <= len(sizes) <= 5
    for group in result.worst:
        assert group.network in {record.network for record in records}
        assert 1 <= group.runs <= 6
        assert group.kinds


class Wavering:
    """The edge machine as seen by an unsure clock: one in three programs takes twice as long the first
    time, with a standard error of 20 %, and what it takes the second time, with one of 1 %."""

    name, spec = "wavering", EDGE.spec

    def __init__(self) -> None:
        self.calls: dict[int, int] = {}

    def time(self, program: Program) -> Execution:
        found = EDGE.time(program)
        key = zlib.crc32(repr(program.streams).encode())
        self.calls[key] = self.calls.get(key, 0) + 1
        unsure = key % 3 == 0 and self.calls[key] == 1
        cycles = found.cycles * 2 if unsure else found.cycles
        return replace(found, cycles=cycles, counters={"error_ppm": 200_000 if unsure else 10_000})


def test_doubtful_times_are_measured_again_and_the_surer_ones_are_kept() -> None:
    target = Wavering()
    with Store.memory() as store:
        result = calibrate(target, budget=60, store=store, workers=1)
        records = store.records(PROFILE)
    assert 5 <= result.doubtful < 40
    assert len(records) == 60
    assert {record.counters["error_ppm"] for record in records} == {10_000}


def test_an_interrupt_while_doubtful_times_are_measured_again_keeps_all() -> None:
    class Interrupted(Wavering):
        def time(self, program: Program) -> Execution:
            found = super().time(program)
            if max(self.calls.values()) == 2:
                raise KeyboardInterrupt
            return found

    with Store.memory() as store:
        with pytest.raises(KeyboardInterrupt):
            calibrate(Interrupted(), budget=60, store=store, workers=1)
        assert store.count(PROFILE, "calibrate") == 60
