"""Live tuning on machines that count cycles: merges, splits and plans of a search, judged by requests as they come."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pytest

from autotune.errors import AutotuneError
from autotune.graph.builder import GraphBuilder
from autotune.graph.evaluation import evaluate
from autotune.graph.graph import Graph
from autotune.operators.op import OpKind
from autotune.operators.tensor import Array
from autotune.runtime.execution.event import EventKind
from autotune.runtime.execution.execution import execute
from autotune.runtime.execution.program_cache import ProgramCache
from autotune.runtime.execution.program_table import CurrentTable, compile_table
from autotune.runtime.online import proposer as proposer_module
from autotune.runtime.online.live_tuner import LiveTuner
from autotune.runtime.online.pace import COUNTED
from autotune.runtime.online.proposer import LocalProposer, Occasion, Version
from autotune.runtime.online.serving import Serving
from autotune.runtime.online.step_drafts import counted_costs
from autotune.runtime.profile.graph_profile import GraphProfile
from autotune.runtime.session.session import Session
from autotune.runtime.variants.edits import (
    Edit,
    Grouping,
    applies,
    choices_of,
    edited,
    edits_between,
    groupings_of,
)
from autotune.runtime.variants.heuristic_schedules import HeuristicSchedules
from autotune.runtime.variants.variants import Groups, Names
from autotune.store.store import Store
from autotune.targets.emulator.target import EmulatorTarget
from autotune.targets.opening import load_spec
from autotune.targets.physical import Drift
from autotune.targets.protocol import Execution
from autotune.tuner.objective import Objective
from tests.runtime.online.live_case import feeds

SPEC = load_spec("edge")


def network() -> Graph:
    """Two products, each with an activation of its own kind."""
    rng = np.random.default_rng(1)
    b = GraphBuilder("chain")
    x = b.input("x", (8, 16))
    for i, kind in enumerate((OpKind.TANH, OpKind.ABS)):
        x = b.add(OpKind.MATMUL, x, b.constant(rng.standard_normal((16, 16)) / 4), name=f"p{i}")
        x = b.add(kind, x, name=f"t{i}")
    return b.build([x])


GRAPH = network()


def grouped(*fused: Names) -> tuple[Grouping, ...]:
    """The plan with these groups, all other operators alone."""
    scheduled, groups = HeuristicSchedules(SPEC), Groups(GRAPH)
    home = {name: names for names in fused for name in names}
    wanted = dict.fromkeys(home.get(op.name, (op.name,)) for op in GRAPH.ops)
    return tuple((names, scheduled(groups.of(names))) for names in wanted)


class Moody(EmulatorTarget):
    """A machine that may take four times as long for merged groups with a tanh, and half for a tanh alone."""

    favours_merges = True

    def run(self, program: Any, tensors: Any, parameters: Any = None) -> Any:
        execution, made = super().run(program, tensors, parameters)
        if self.favours_merges or "tanh" not in program.name:
            return execution, made
        cycles = round(execution.cycles * (4.0 if "+" in program.name else 0.5))
        return (
            Execution(cycles, execution.energy_fj, execution.dram_bytes, execution.counters),
            made,
        )


@dataclass
class Narrow(LocalProposer):
    """Proposes none but ``only``."""

    only: tuple[Edit, ...] = ()

    def propose(self, occasion: Occasion) -> tuple[Version, ...]:
        wishes = occasion.wishes
        if wishes is None:
            open_edits = (one for one in self.only if one.key not in occasion.settled)
            wishes = tuple(one for one in open_edits if applies(occasion.plan, one))
        return LocalProposer.propose(self, replace(occasion, wishes=wishes)) if wishes else ()


class Bench:
    """A tuner on an emulated machine, stepped after each request; ``only`` are the edits that it may try, if given."""

    def __init__(
        self, machine: EmulatorTarget, plan: Sequence[Grouping], only: tuple[Edit, ...] = ()
    ) -> None:
        cache = ProgramCache()
        choices = choices_of(Groups(GRAPH), plan)
        self.published = CurrentTable(compile_table(GRAPH, choices, SPEC, cache))
        self.machine, self.profiler = machine, GraphProfile()
        costs = counted_costs(Objective.LATENCY, SPEC)
        self.serving = Serving(self.published, machine, COUNTED, costs)
        kind: Any = partial(Narrow, only=only) if only else LocalProposer
        proposer = kind(GRAPH, EmulatorTarget(SPEC), SPEC, {}, cache=cache)
        self.tuner = LiveTuner(self.serving, machine, proposer, self.profiler.pairs)
        self.feeds = feeds(GRAPH)

    def run(self, count: int) -> None:
        """Serve requests, and check each answer."""
        for _ in range(count):
            outputs, trace = self.serving.run(self.feeds)
            self.profiler.record(trace, 0, trace.cycles)
            for name, value in evaluate(GRAPH, self.feeds).items():
                np.testing.assert_allclose(outputs[name], value, rtol=1e-3, atol=1e-5)
            while self.tuner.step():
                pass

    def cycles(self) -> int:
        """Cycles of the plan in use on the machine as it is now."""
        return execute(self.published.current, self.machine, self.feeds)[1].cycles

    def kinds(self) -> list[EventKind]:
        """Events so far."""
        return [event.kind for event in self.tuner.events]


def test_operators_that_run_one_by_one_are_merged_by_the_profile() -> None:
    b = Bench(EmulatorTarget(SPEC), grouped())
    before = b.cycles()
    b.run(400)
    assert EventKind.SWAPPED in b.kinds()
    assert len(b.published.current.group_steps) < len(GRAPH.ops)
    assert b.cycles() < 0.9 * before
    assert b.tuner.budget.spent_share <= 0.01


def test_a_machine_that_changes_to_and_fro_brings_one_reversal_at_most_for_each_change() -> None:
    machine = Moody(SPEC)
    b = Bench(machine, grouped(), only=edits_between(grouped(), grouped(("p0", "t0"))))
    b.run(100)
    assert b.published.current.plan_version == 1
    reversals = []
    for turn in range(6):
        machine.favours_merges = bool(turn % 2)
        before = b.published.current.plan_version
        b.run(600)
        reversals.append(b.published.current.plan_version - before)
        groups = {names for names, _ in groupings_of(b.published.current.choices)}
        assert (("p0", "t0") in groups) == (turn % 2 == 1)
    assert reversals == [1] * 6
    assert b.kinds().count(EventKind.SPLIT) == 3


def test_edits_between_two_plans_make_one_of_the_other_and_each_stands_alone() -> None:
    one, other = grouped(("p0", "t0")), grouped(("t0", "p1"), ("t1",))
    edits = edits_between(one, other)
    assert set(edited(one, edits)) == set(other)
    assert edits_between(one, one) == ()
    apart = edits_between(grouped(), grouped(("p0", "t0"), ("p1", "t1")))
    assert len(apart) == 2
    assert all(len(edit.removed) == 2 and len(edit.added) == 1 for edit in apart)


def test_a_plan_that_a_search_found_is_tried_before_all_else() -> None:
    b = Bench(EmulatorTarget(SPEC), grouped())
    b.run(COUNTED.window_runs)
    b.tuner.consider(grouped(("p0", "t0"), ("p1", "t1")))
    b.run(COUNTED.window_runs)
    assert b.kinds()[:1] == [EventKind.PROPOSED]
    assert EventKind.SWAPPED in b.kinds()
    assert {("p0", "t0"), ("p1", "t1")} <= {x for x, _ in groupings_of(b.published.current.choices)}


def test_an_edit_that_computes_other_numbers_never_serves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proposer_module, "agree_in_scale", lambda *_: False)
    monkeypatch.setattr(proposer_module, "agree", lambda *_: False)
    b = Bench(EmulatorTarget(SPEC), grouped())
    b.run(300)
    assert set(b.kinds()) == {EventKind.REFUSED}, "nothing was left to try"
    assert b.published.current.plan_version == 0


def test_the_size_of_a_gain_decides_within_few_pairs_on_a_noisy_machine() -> None:
    for noise, most in ((0.01, 4.0), (0.03, 12.0)):
        machine = EmulatorTarget(SPEC)
        machine.drift(Drift(noise=noise))
        b = Bench(machine, grouped())
        b.run(100)
        pairs = [x.figures["pairs"] for x in b.tuner.events if "pairs" in x.figures]
        assert b.kinds().count(EventKind.SWAPPED) == 1
        assert pairs and pairs[0] <= most


def test_energy_is_what_a_plan_for_energy_is_judged_by() -> None:
    table = compile_table(GRAPH, choices_of(Groups(GRAPH), grouped()), SPEC, ProgramCache())
    trace = execute(table, EmulatorTarget(SPEC), feeds(GRAPH))[1]
    paid = counted_costs(Objective.ENERGY, SPEC)(trace)
    assert paid.tolist() == [run.execution.energy_fj for run in trace.groups]
    nanoseconds = counted_costs(Objective.LATENCY, SPEC)(trace)
    assert nanoseconds.sum() == pytest.approx(trace.cycles * 1e9 / SPEC.clock_hz, rel=0.01)


def test_an_online_session_merges_and_waits_for_it_where_it_is_asked_to() -> None:
    with Store.memory() as store, Session(GRAPH, EmulatorTarget(SPEC), store, online=True) as one:
        fed: dict[str, Array] = feeds(GRAPH)
        first = one.table
        for _ in range(60):
            one.run(fed)
            one.wait_idle(60)
        assert one.table.predicted_cycles is not None
        kinds = {event.kind for event in one.events}
        assert EventKind.PROPOSED in kinds
        assert len(one.table.group_steps) <= len(first.group_steps)


def test_versions_of_an_occasion_are_counted_tables() -> None:
    plan = grouped()
    wishes = edits_between(plan, grouped(("p0", "t0")))
    occasion = Occasion(
        plan, {names: 1e-5 for names, _ in plan}, {}, frozenset(), [feeds(GRAPH)], wishes
    )
    made: tuple[Version, ...] = LocalProposer(GRAPH, EmulatorTarget(SPEC), SPEC, {}).propose(
        occasion
    )
    (version,) = made
    table = version.draft.table(GRAPH, EmulatorTarget(SPEC))
    assert version.edits == wishes and table.executable is None
    assert len(version.draft.programs) == len(table.group_steps) == 3


def test_a_proposal_ends_before_its_next_check_once_it_is_given_up() -> None:
    proposer = LocalProposer(GRAPH, EmulatorTarget(SPEC), SPEC, {})
    proposer.give_up()
    plan = grouped()
    wishes = edits_between(plan, grouped(("p0", "t0")))
    occasion = Occasion(plan, {}, {}, frozenset(), [feeds(GRAPH)], wishes)
    with pytest.raises(AutotuneError, match="closed"):
        proposer.propose(occasion)
