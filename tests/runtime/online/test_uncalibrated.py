"""A CPU that was never calibrated is followed by run times alone: drift is found, and tuning begins anew."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from autotune import Session
from autotune.cost_model.dataset import MIN_RECORDS
from autotune.cost_model.model import CostModel
from autotune.cost_model.replay_set import FEWEST, Replayed, is_held_out
from autotune.errors import AutotuneError
from autotune.measure.measurement import Measured
from autotune.runtime.execution.event import EventKind
from autotune.runtime.execution.execution import execute
from autotune.runtime.execution.program_cache import ProgramCache
from autotune.runtime.execution.program_table import CurrentTable
from autotune.runtime.online import planning
from autotune.runtime.online.host_drift import HostDriftRule, looks_apart_seconds
from autotune.runtime.online.learning import OnlineOptions, annotated
from autotune.runtime.online.online_dataset import TrainingSet
from autotune.runtime.online.planning import ModelLearning, online_trainer
from autotune.runtime.online.run_blocks import RunBlock
from autotune.runtime.variants.heuristic_schedules import HeuristicSchedules
from autotune.runtime.variants.schedules import estimate_of, propose_schedules
from autotune.runtime.variants.variants import Groups, Names
from autotune.schedule.candidate import Candidate
from autotune.store.records import Record
from autotune.store.store import Store
from autotune.targets.protocol import ExclusiveTarget, Execution, Target
from autotune.tuner.objective import Objective
from autotune.tuner.records import to_record
from tests.runtime.online import live_case as case
from tests.tuner.search_case import chain

RULE = HostDriftRule(block_seconds=0.0, plateau_seconds=0.0)
"""Looks at every run, however fast a test makes them."""


class Bench:
    """A trainer at typical costs over a machine with a drawn clock."""

    def __init__(self, folder: Path) -> None:
        self.slowness, self.drifts = 1.0, 0
        graph = case.chain()
        self.machine = cast(Any, case.DrawnMachine(graph, lambda names: self.slowness, noise=0.01))
        for name in ("prepared", "run", "time"):  # it is of its own, as this machine is
            setattr(self.machine, name, print)
        assert isinstance(cast(object, self.machine), ExclusiveTarget)
        model = CostModel.typical(case.SPEC)
        table = annotated(self.machine.table(case.grouped(graph)), model, 0)
        self.published = CurrentTable(table)
        self.store = Store.open(folder / "autotune.db")
        self.trainer = online_trainer(
            self.published, self.machine, ProgramCache(), self.store, model, Objective.LATENCY,
            OnlineOptions(rule=RULE), drifted=self.drifted,
        )  # fmt: skip
        self.feeds = case.feeds(graph)

    def drifted(self) -> None:
        self.drifts += 1

    def run(self, count: int) -> None:
        for _ in range(count):
            _, trace = execute(self.published.current, self.machine, self.feeds)
            self.trainer.observe(trace)
            if self.trainer._finished % 512 == 0:
                self.trainer.wait_idle(60)
        self.trainer.wait_idle(60)


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path)
    yield made
    made.trainer.close()
    made.store.close()


def test_a_shift_of_five_per_cent_is_found_within_fifty_runs_and_told(bench: Bench) -> None:
    bench.run((RULE.level_blocks + 5 * RULE.young_blocks) * RULE.block_runs)
    assert bench.trainer.events == () and bench.drifts == 0
    before = bench.published.current.group_steps[0].predicted_cycles
    bench.slowness = 1.05
    bench.run(50)
    (drift,) = bench.trainer.events
    assert drift.kind is EventKind.DRIFT and 0.03 < drift.figures["change"] < 0.07
    assert bench.drifts == 1
    bench.run(200)
    assert [event.kind for event in bench.trainer.events] == [EventKind.DRIFT]
    assert bench.published.current.group_steps[0].predicted_cycles == before, (
        "too few measurements make no model"
    )
    assert bench.store.load_model(case.SPEC.profile_id) is None


def measured(count: int) -> list[Record]:
    """Candidates of a chain that take three times what typical costs say."""
    graph, target = case.chain(6), case.DrawnMachine(case.chain(), lambda names: 1.0)
    groups, scheduled = Groups(graph), HeuristicSchedules(case.SPEC)
    typical, rng = CostModel.typical(case.SPEC), np.random.default_rng(0)
    every = tuple(op.name for op in graph.ops)
    records: list[Record] = []
    for length in range(1, len(every) + 1):
        group = groups.of(every[:length])
        first = scheduled(group)
        if first is None:
            continue
        others = propose_schedules(
            group, first, case.SPEC, estimate_of(None, case.SPEC), count, rng
        )
        for schedule in (first, *others):
            cycles = round(3 * typical.predict(group, schedule))
            result = Measured(
                Candidate(group, schedule, graph.name), Execution(cycles, 0, 0, {"nanoseconds": 1})
            )
            records.append(to_record(result, cast(Target, target), "run", lambda: 1.0))
    return records


def parted(records: list[Record]) -> tuple[TrainingSet, list[Replayed]]:
    """What models are fitted on, and what judges them."""
    held = [x for x in records if is_held_out((x.group_key, x.schedule_json))]
    rest = tuple(x for x in records if x not in held)
    replayed = [Replayed(record, float(record.cycles), True) for record in held]
    return TrainingSet(rest, (1.0,) * len(rest)), replayed


@pytest.fixture
def learning(tmp_path: Path) -> Iterator[ModelLearning]:
    target: Any = case.DrawnMachine(case.chain(), lambda names: 1.0)
    with Store.open(tmp_path / "autotune.db") as store:
        yield ModelLearning(
            case.chain(), target, store, Objective.LATENCY, 0, is_kept=False
        )  # fmt: skip


def test_a_model_of_its_own_runs_is_judged_and_stays_with_the_session(
    learning: ModelLearning, monkeypatch: pytest.MonkeyPatch
) -> None:
    typical = CostModel.typical(case.SPEC)
    training, replayed = parted(measured(12))
    assert len(training.records) >= MIN_RECORDS and len(replayed) >= FEWEST
    found = learning.fit(training, replayed, typical, lambda: False)
    assert found is not None
    model, verdict = found
    rounding = 0.5 / min(one.record.cycles for one in replayed)  # measured cycles are whole
    assert verdict is not None and verdict.before == pytest.approx(2 / 3, abs=rounding)
    assert verdict.after < 0.2
    learning.save(model, verdict.after, 0.0)
    assert learning.store.load_model(case.SPEC.profile_id) is None
    monkeypatch.setattr(planning, "fitted", None)  # it would be for nothing
    assert learning.fit(training, (), typical, lambda: False) is None, "nothing judges it"
    few = TrainingSet(training.records[: MIN_RECORDS - 1], training.weights[: MIN_RECORDS - 1])
    assert learning.fit(few, replayed, typical, lambda: False) is None


def test_a_session_without_calibration_says_so_and_looks_for_drift(tmp_path: Path) -> None:
    with Session(chain(), "cpu:1", tmp_path / "autotune.db", online=True) as session:
        (told, *_) = session.events
        assert told.kind is EventKind.BORROWED and "typical costs" in told.text
        network: Any = session._network
        assert network._learners.trainer is not None
        feeds = session.draw_inputs(np.random.default_rng(0))
        for _ in range(3):
            session.run(feeds)
        session.wait_idle(60)
        with Store.open(tmp_path / "autotune.db") as store:
            assert store.load_model(session.target.spec.profile_id) is None
            assert store.records(session.target.spec.profile_id), "what runs took is kept"


def test_closing_ends_all_that_learns_whatever_one_of_them_raises(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = Session(chain(), "cpu:1", tmp_path / "autotune.db", online=True)
    network: Any = session._network
    tuner, trainer = network._learners.tuner, network._learners.trainer
    close = tuner.close

    def fail() -> None:
        close()
        raise AutotuneError("no")

    monkeypatch.setattr(tuner, "close", fail)
    with pytest.raises(AutotuneError, match="no"):
        session.close()
    assert trainer._closing.is_set()


def test_of_short_runs_the_trainer_takes_as_many_as_the_detector(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    trainer = bench.trainer
    now = 0.0
    trainer._clock = lambda: now
    trainer._look_seconds = looks_apart_seconds(None)
    taken: list[RunBlock] = []
    recorded: list[object] = []
    trainer._learning.put_all = taken.extend
    trainer._recording.put_all = recorded.extend
    _, trace = execute(bench.published.current, bench.machine, bench.feeds)
    for _ in range(1000):
        now += 1e-4
        trainer.observe(trace)
    trainer.close()
    bench.store.close()
    looks = RULE.block_runs * len(taken)
    assert looks == pytest.approx(0.1 / looks_apart_seconds(None), abs=RULE.block_runs)
    assert sum(block.count for block in taken) == 1000, "each stands for those before it"
    assert len(recorded) == 1, "of all of them one is recorded in full"


def test_after_a_drift_what_was_refused_is_tried_again() -> None:
    graph = case.chain()
    worse = case.merge(graph, "p0", "t0")
    slow: dict[Names, float] = {}
    machine = case.DrawnMachine(graph, lambda names: slow.get(names, float(len(names))))
    slow["p0", "t0"] = 3.0
    bench = case.Bench(machine, [worse])
    bench.run(3000)
    assert EventKind.REFUSED in bench.kinds() and ("p0", "t0") not in bench.groups
    tried = bench.kinds().count(EventKind.PROPOSED)
    bench.run(3000)
    assert bench.kinds().count(EventKind.PROPOSED) == tried, "it rests"
    slow["p0", "t0"] = 1.0
    bench.run(1000)
    assert bench.kinds().count(EventKind.PROPOSED) == tried, "no run shows that it would be better"
    bench.tuner.drift()
    bench.run(6000)  # a burst in 180 runs
    assert ("p0", "t0") in bench.groups
