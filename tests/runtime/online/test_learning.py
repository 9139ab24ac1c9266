"""Online learning: drift is answered, better plans are proven and swapped in, nothing waits."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from autotune.cost_model.replay_set import Model, Replayed, Verdict
from autotune.errors import AutotuneError, StoreError
from autotune.fusion.equivalence import representative
from autotune.fusion.group import Group
from autotune.graph.builder import GraphBuilder
from autotune.graph.evaluation import evaluate
from autotune.graph.graph import Graph
from autotune.lowering.lower import lower
from autotune.operators.op import OpKind
from autotune.runtime.execution.event import EventKind
from autotune.runtime.execution.execution import execute
from autotune.runtime.execution.program_cache import ProgramCache
from autotune.runtime.execution.program_table import CurrentTable, ProgramTable, compile_table
from autotune.runtime.online import trainer
from autotune.runtime.online.background_worker import Restart
from autotune.runtime.online.drift import DriftRule
from autotune.runtime.online.learning import Cost, OnlineOptions, Proposal, annotated
from autotune.runtime.online.online_dataset import TrainingSet
from autotune.runtime.online.trainer import OnlineTrainer
from autotune.schedule.schedule import Schedule
from autotune.store.records import Record
from autotune.store.store import Store
from autotune.tuner.choice import Choice
from tests.runtime import runtime_case as case

GRAPH = case.network()
FUSED = (("product", "squash"), ("squash", "residual"), ("weigh", "flip"))
OPTIONS = OnlineOptions(
    rule=DriftRule(least_runs=3, confirm_runs=2), routine_runs=1000, remeasure=8
)

AT_ONCE = Restart(first_seconds=1e-3, most_seconds=1e-3)


def cells() -> Graph:
    """Two cells of a sequence: products of what they cut out of one input."""
    b = GraphBuilder("steps")
    x = b.input("x", (4, 1, 16))
    w = b.constant(np.random.default_rng(5).standard_normal((16, 16)))
    one = {"steps": (1, 1, 1), "sizes": (1, 1, 16)}
    ends = []
    for step in (1, 2):
        piece = b.add(OpKind.SLICE, x, name=f"cut{step}", starts=(step, 0, 0), **one)
        ends.append(b.add(OpKind.MATMUL, piece, w, name=f"product{step}"))
    return b.build(ends)


class Remembered:
    """A model that knows what it was fitted on, and asks the machine as it was for the rest."""

    def __init__(self, costs: dict[tuple[str, str], float], bandwidth: float) -> None:
        self.costs = costs
        self.machine = case.InterpretedTarget()
        self.machine.bandwidth = bandwidth

    def predict(self, group: Group, schedule: Schedule) -> float:
        known = self.costs.get((group.key, schedule.to_json()))
        program = lower(group, schedule, case.SPEC)
        return float(self.machine.time(program).cycles) if known is None else known


class Learning:
    """Fits by remembering, and plans whatever the test says."""

    def __init__(
        self,
        plan: Callable[[], Sequence[Choice]],
        measured: Callable[[], Sequence[Record]] = tuple,
    ) -> None:
        self.plan_now = plan
        self.measured_now = measured
        self.until_stopped = False
        self.verdict: Verdict | None = None
        self.beside_fit: Callable[[], None] = lambda: None
        self.saved: list[tuple[float | None, float]] = []

    def fit(
        self,
        training: TrainingSet,
        replayed: Sequence[Replayed],
        before: Model,
        stopping: Callable[[], bool],
    ) -> tuple[Model, Verdict | None]:
        self.beside_fit()
        records = (*training.records, *(one.record for one in replayed))
        costs = {(r.group_key, r.schedule_json): float(r.cycles) for r in records}
        return Remembered(costs, 8.0), self.verdict

    def save(self, model: Model, error: float | None, since_seconds: float) -> None:
        self.saved.append((error, since_seconds))

    unit = "cycles"

    def price(self, model: Model, group: Group, schedule: Schedule) -> float:
        return model.predict(group, schedule)

    def paid(self, cost: Cost) -> int:
        return cost.cycles

    def plan(
        self,
        model: Model,
        current: ProgramTable,
        fresh: Sequence[Record],
        stopping: Callable[[], bool],
    ) -> Proposal | None:
        while self.until_stopped:
            if stopping():
                return None
            time.sleep(0.001)
        return Proposal(tuple(self.plan_now()), tuple(self.measured_now()))


class Bench:
    """A trainer with everything around it."""

    def __init__(
        self,
        folder: Path,
        learning: Learning,
        options: OnlineOptions = OPTIONS,
        graph: Graph = GRAPH,
        since_seconds: float = 0.0,
    ) -> None:
        self.target = case.InterpretedTarget()
        self.store = Store.open(folder / "autotune.db")
        cache = ProgramCache()
        model = Remembered({}, 8.0)
        table = compile_table(graph, case.choices(graph), case.SPEC, cache)
        self.published = CurrentTable(annotated(table, model, 0))
        self.learning = learning
        self.trainer = OnlineTrainer(
            self.published, self.target, cache, self.store, model, learning, options,
            calibrated_error=0.01, trusted_since_seconds=since_seconds, restart=AT_ONCE,
            hand_over=self.adopt,
        )  # fmt: skip
        self.feeds = case.inputs(graph)

    def adopt(self, choices: Sequence[Choice]) -> None:
        """Swap a plan in, where a session has live requests judge it."""
        graph = self.published.current.graph
        self.published.swap(compile_table(graph, choices, case.SPEC, ProgramCache()))

    def run(self, count: int = 1) -> list[float | None]:
        errors = []
        for _ in range(count):
            _, trace = execute(self.published.current, self.target, self.feeds)
            self.trainer.observe(trace)
            self.trainer.wait_idle(30)
            errors.append(trace.error)
        return errors

    def hand_over(self, count: int) -> None:
        """Run without waiting for the learning."""
        for _ in range(count):
            _, trace = execute(self.published.current, self.target, self.feeds)
            self.trainer.observe(trace)

    def await_event(self, kind: EventKind) -> None:
        """Return when the trainer has told of such an event."""
        deadline = time.monotonic() + 20
        while kind not in self.kinds():
            assert time.monotonic() < deadline, f"no {kind} among {self.kinds()}"
            time.sleep(0.002)

    def kinds(self) -> list[EventKind]:
        return [event.kind for event in self.trainer.events]


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Callable[..., Bench]]:
    made: list[Bench] = []

    def make(
        plan: Callable[[], Sequence[Choice]] = lambda: case.choices(GRAPH),
        options: OnlineOptions = OPTIONS,
        graph: Graph = GRAPH,
        measured: Callable[[], Sequence[Record]] = tuple,
    ) -> Bench:
        made.append(Bench(tmp_path, Learning(plan, measured), options, graph))
        return made[-1]

    yield make
    for one in made:
        with contextlib.suppress(AutotuneError):
            one.trainer.close()
        one.store.close()


def test_every_executed_group_is_stored_as_a_run(bench: Callable[..., Bench]) -> None:
    b = bench()
    b.run(3)
    records = b.store.records(case.SPEC.profile_id, source="run")
    assert len(records) == 3 * len(b.published.current.group_steps)
    assert {r.network for r in records} == {"small"}
    assert b.kinds() == []


def test_error_rises_with_drift_and_falls_after_retraining(bench: Callable[..., Bench]) -> None:
    b = bench()
    assert b.run(4) == [0, 0, 0, 0]
    b.target.bandwidth = 2.0
    after = b.run(5)
    assert max(e for e in after if e is not None) > 0.2
    assert after[-1] == pytest.approx(0, abs=0.01)
    assert b.kinds() == [EventKind.DRIFT, EventKind.RETRAINED, EventKind.KEPT]
    assert b.published.current.model_version == 1
    assert b.published.current.plan_version == 0
    ((_, since_seconds),) = b.learning.saved
    assert 0 < since_seconds <= time.time()


def test_a_model_that_errs_more_on_the_replay_set_is_refused(bench: Callable[..., Bench]) -> None:
    b = bench()
    b.run(4)
    b.learning.verdict = Verdict(before=0.10, after=0.11, count=9)
    b.target.bandwidth = 2.0
    b.run(3)
    (refused,) = (e for e in b.trainer.events if e.kind is EventKind.REFUSED)
    assert refused.figures["error_after"] > refused.figures["error_before"]
    assert "error on 9 held out 10.0% before, 11.0% after: the one before stays" in refused.text
    assert EventKind.RETRAINED not in b.kinds()
    assert b.published.current.model_version == 0
    assert not b.learning.saved


def test_runs_beside_learning_on_this_machine_are_no_drift(
    bench: Callable[..., Bench], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(case.InterpretedTarget, "exclusive", True, raising=False)
    monkeypatch.setattr(case.InterpretedTarget, "prepared", print, raising=False)
    b = bench()

    def suffer() -> None:
        b.target.bandwidth = 0.5  # what fitting takes from the runs beside it
        b.hand_over(6)
        b.target.bandwidth = 2.0

    b.learning.beside_fit = suffer
    b.run(5)
    b.target.bandwidth = 2.0
    b.run(8)
    assert b.kinds() == [EventKind.DRIFT, EventKind.RETRAINED, EventKind.KEPT]


def test_a_better_plan_is_handed_over_and_predicted_once_it_runs(
    bench: Callable[..., Bench],
) -> None:
    b = bench(lambda: case.choices(GRAPH, *FUSED))
    b.run(3)
    before = b.published.current
    b.target.bandwidth = 2.0
    b.run(4)
    assert b.kinds() == [EventKind.DRIFT, EventKind.RETRAINED, EventKind.PROPOSED]
    now = b.published.current
    assert now.versions == (1, 1)
    assert len(now.group_steps) < len(before.group_steps)
    proposed = b.trainer.events[2].figures
    assert proposed["proposed"] < proposed["current"]
    assert b.run(1)[-1] is not None


def test_of_a_swapped_plan_only_new_groups_are_predicted(
    bench: Callable[..., Bench], monkeypatch: pytest.MonkeyPatch
) -> None:
    b = bench()
    b.run(2)
    before = {step.key for step in b.published.current.group_steps}
    asked: list[str] = []

    def predict(model: Remembered, group: Group, schedule: Schedule) -> float:
        asked.append(group.key)
        return 17.0

    monkeypatch.setattr(Remembered, "predict", predict)
    b.adopt(case.choices(GRAPH, FUSED[0]))
    b.run(1)
    steps = b.published.current.group_steps
    new = {step.key for step in steps} - before
    assert new and before & {step.key for step in steps}
    assert sorted(asked) == sorted(group for group, _ in new)
    assert all((step.predicted_cycles == 17.0) is (step.key in new) for step in steps)


def test_cells_are_priced_by_what_a_search_measured_of_their_twin(
    bench: Callable[..., Bench],
) -> None:
    graph = cells()
    fused = case.choices(graph, ("cut1", "product1"), ("cut2", "product2"))
    alike = representative(fused[0].group, case.SPEC.dram.burst_bytes)
    assert alike.key not in {choice.group.key for choice in fused}

    def searched() -> list[Record]:
        (newest,) = b.store.records(case.SPEC.profile_id, limit=1)
        assert fused[0].schedule is not None
        return [
            replace(
                newest,
                group_key=alike.key,
                group_json=alike.canonical.to_json(),
                schedule_json=fused[0].schedule.to_json(),
                cycles=7,
                source="search",
                created_at=time.time(),
            )
        ]

    b = bench(lambda: fused, graph=graph, measured=searched)
    b.run(3)
    b.target.bandwidth = 2.0
    b.run(3)
    (proposed,) = (e for e in b.trainer.events if e.kind is EventKind.PROPOSED)
    assert proposed.figures["proposed"] == 7 + 7


def test_news_without_drift_is_learned_after_a_while(bench: Callable[..., Bench]) -> None:
    options = OnlineOptions(rule=OPTIONS.rule, routine_runs=4, remeasure=8)
    b = bench(options=options)
    b.run(12)
    assert b.kinds() == [EventKind.RETRAINED, EventKind.KEPT]


def test_drift_during_learning_is_answered_afterwards(bench: Callable[..., Bench]) -> None:
    b: Bench

    def plan_while_the_machine_drifts_on() -> Sequence[Choice]:
        b.target.bandwidth = 1.0
        return case.choices(GRAPH)

    b = bench(plan_while_the_machine_drifts_on)
    b.run(3)
    b.target.bandwidth = 3.0
    after = b.run(12)
    assert b.kinds().count(EventKind.DRIFT) == 2
    assert after[-1] == pytest.approx(0, abs=0.01)


def test_a_routine_search_makes_way_for_drift(bench: Callable[..., Bench]) -> None:
    options = OnlineOptions(rule=OPTIONS.rule, routine_runs=3, remeasure=8)
    b = bench(options=options)
    b.run(5)
    b.learning.until_stopped = True
    b.hand_over(1)
    b.await_event(EventKind.RETRAINED)
    b.target.bandwidth = 2.0
    b.hand_over(6)
    b.await_event(EventKind.DRIFT)
    b.learning.until_stopped = False
    b.trainer.wait_idle(20)
    assert b.kinds()[:3] == [EventKind.RETRAINED, EventKind.DRIFT, EventKind.RETRAINED]


def test_closing_does_not_wait_for_a_search(bench: Callable[..., Bench]) -> None:
    b = bench()
    b.run(3)
    b.learning.until_stopped = True
    b.target.bandwidth = 2.0
    b.hand_over(3)
    b.trainer.close()
    groups = len(b.published.current.group_steps)
    assert len(b.store.records(case.SPEC.profile_id, source="run")) >= 6 * groups


def test_error_that_no_retraining_mends_is_accepted(bench: Callable[..., Bench]) -> None:
    b = bench()
    rng = np.random.default_rng(0)
    for _ in range(30):
        b.target.bandwidth = float(rng.uniform(0.5, 8.0))
        b.run(1)
    assert b.kinds().count(EventKind.DRIFT) <= 3


@pytest.mark.parametrize("kind", [RuntimeError, MemoryError, SystemExit])
def test_learning_that_fails_begins_anew_while_runs_go_on(
    bench: Callable[..., Bench], kind: type[BaseException]
) -> None:
    fails = iter([True])

    def broken() -> Sequence[Choice]:
        if next(fails, False):
            raise kind("no search today")
        return case.choices(GRAPH)

    b = bench(broken)
    b.run(3)
    b.target.bandwidth = 2.0
    with pytest.raises(AutotuneError, match="learning stopped: no search today"):
        b.run(3)
    assert b.kinds()[-1] is EventKind.FAILED
    assert "it begins anew in 0.001 s" in b.trainer.events[-1].text
    b.hand_over(5)
    b.await_event(EventKind.RESTARTED)
    assert b.run(3)[-1] == pytest.approx(0, abs=0.01)
    assert EventKind.KEPT in b.kinds()
    b.trainer.close()


def test_runs_are_stored_once_a_lost_store_is_back(
    bench: Callable[..., Bench], monkeypatch: pytest.MonkeyPatch
) -> None:
    b = bench()
    b.run(3)
    with monkeypatch.context() as lost:

        def add(self: Store, records: Sequence[Record]) -> None:
            raise StoreError("the disk failed; check it")

        lost.setattr(Store, "add", add)
        with pytest.raises(AutotuneError, match="recording stopped: the disk failed; check it"):
            b.run(1)
        b.hand_over(4)
    b.await_event(EventKind.RESTARTED)
    b.run(1)
    groups = len(b.published.current.group_steps)
    assert len(b.store.records(case.SPEC.profile_id, source="run")) == 9 * groups


def test_a_clock_that_is_set_back_makes_nothing_old(
    bench: Callable[..., Bench], monkeypatch: pytest.MonkeyPatch
) -> None:
    b = bench()
    b.run(4)
    wall = time.time()
    monkeypatch.setattr(time, "time", lambda: wall - 1e6)
    b.target.bandwidth = 2.0
    assert b.run(5)[-1] == pytest.approx(0, abs=0.01)
    assert b.kinds() == [EventKind.DRIFT, EventKind.RETRAINED, EventKind.KEPT]


def test_a_model_from_the_future_is_followed_by_what_is_measured_now(tmp_path: Path) -> None:
    b = Bench(tmp_path, Learning(lambda: case.choices(GRAPH)), since_seconds=time.time() + 1e9)
    b.run(3)
    b.target.bandwidth = 2.0
    assert b.run(5)[-1] == pytest.approx(0, abs=0.01)
    b.trainer.close()
    b.store.close()


def test_events_are_bounded(bench: Callable[..., Bench], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trainer, "EVENTS_KEPT", 3)
    b = bench(lambda: case.choices(GRAPH, *FUSED))
    b.run(3)
    b.target.bandwidth = 2.0
    b.run(4)
    b.target.bandwidth = 1.0
    b.run(4)
    assert b.kinds() == [EventKind.DRIFT, EventKind.RETRAINED, EventKind.KEPT]


def test_closing_stores_what_was_handed_over(bench: Callable[..., Bench]) -> None:
    b = bench()
    b.hand_over(20)
    b.trainer.close()
    groups = len(b.published.current.group_steps)
    assert len(b.store.records(case.SPEC.profile_id, source="run")) == 20 * groups


def test_observing_returns_while_the_worker_is_busy(bench: Callable[..., Bench]) -> None:
    release = threading.Event()

    def slow() -> Sequence[Choice]:
        assert release.wait(10)
        return case.choices(GRAPH, *FUSED)

    b = bench(slow)
    b.run(3)
    b.target.bandwidth = 2.0
    b.hand_over(10)
    with pytest.raises(AutotuneError, match="still busy"):
        b.trainer.wait_idle(0.01)
    assert b.published.current.plan_version == 0
    release.set()
    b.trainer.wait_idle(10)
    assert b.published.current.plan_version == 1


def test_a_run_in_flight_finishes_on_the_table_that_it_started_with() -> None:
    target = case.InterpretedTarget(gate=threading.Event())
    cache = ProgramCache()
    published = CurrentTable(compile_table(GRAPH, case.choices(GRAPH), case.SPEC, cache))
    feeds, done = case.inputs(GRAPH), []
    thread = threading.Thread(target=lambda: done.append(execute(published.current, target, feeds)))
    thread.start()
    assert target.started.wait(10)
    fused = compile_table(GRAPH, case.choices(GRAPH, *FUSED), case.SPEC, cache)
    assert published.swap(fused).plan_version == 1
    assert target.gate is not None
    target.gate.set()
    thread.join(10)
    ((outputs, trace),) = done
    assert trace.plan_version == 0
    for name, value in evaluate(GRAPH, feeds).items():
        np.testing.assert_allclose(outputs[name], value, rtol=1e-4, atol=1e-5)
