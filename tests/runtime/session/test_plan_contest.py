"""A search on a timed machine ends with whole runs; its plan stays only where it is shown to be faster."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
import pytest

from autotune.cost_model.fitting import fit
from autotune.graph.builder import GraphBuilder
from autotune.graph.evaluation import evaluate
from autotune.graph.graph import Graph
from autotune.operators.interval import Interval
from autotune.operators.op import OpKind
from autotune.operators.tensor import Array
from autotune.runtime.execution.execution import RunTrace, execute
from autotune.runtime.execution.program_table import ProgramTable
from autotune.runtime.session import plan_contest
from autotune.runtime.session.plan_contest import keep_faster_plan
from autotune.targets.emulator.target import EmulatorTarget
from autotune.targets.protocol import Target
from autotune.targets.spec import Memory
from autotune.tuner.contest import SECONDS, Contest
from autotune.tuner.fusion import search
from autotune.tuner.options import SearchOptions
from autotune.tuner.result import GraphSearch
from tests.tuner.search_case import EDGE, calibrated

CACHED = EmulatorTarget(replace(EDGE.spec, memory=Memory.CACHED))
WON, LOST = Contest(16, 16, 1.2, True), Contest(16, 3, 0.9, False)
NO_RANGES: Mapping[str, Interval] = {}


@pytest.fixture(scope="module")
def graph() -> Graph:
    b = GraphBuilder("attention")
    scores = b.add(OpKind.MATMUL, b.input("q", (2, 24, 8)), b.input("k", (2, 8, 24)))
    weights = b.add(OpKind.SOFTMAX, scores, axis=-1)
    return b.build([b.add(OpKind.MATMUL, weights, b.input("v", (2, 24, 8)))])


@pytest.fixture(scope="module")
def unlike(graph: Graph) -> GraphSearch:
    """A search whose plan is the unfused one: another than the heuristic plan."""
    model = fit(calibrated()[1], CACHED.spec, seed=0)
    found = search(graph, CACHED, model, SearchOptions(trials=6, measure=8, workers=1))
    assert found.heuristic is not None
    assert found.heuristic.scheduled != found.unfused.scheduled
    groups = tuple(group.planned() for group in found.unfused.groups)
    return replace(found, found=found.unfused, plan=replace(found.plan, groups=groups))


def outcome(monkeypatch: pytest.MonkeyPatch, contest: Contest) -> list[tuple[float, float]]:
    """Replace the contest; return the seconds of a run of both plans, heuristic first."""
    taken: list[tuple[float, float]] = []

    def decided(
        champion: Callable[[], float], challenger: Callable[[], float], *, seconds: float
    ) -> Contest:
        assert 0.0 < seconds <= SECONDS
        taken.append((champion(), challenger()))
        return contest

    monkeypatch.setattr(plan_contest, "hold_contest", decided)
    return taken


def test_a_plan_that_wins_stays(
    graph: Graph, unlike: GraphSearch, monkeypatch: pytest.MonkeyPatch
) -> None:
    seconds = outcome(monkeypatch, WON)
    settled = keep_faster_plan(unlike, graph, CACHED, NO_RANGES, 0)
    assert settled.plan is unlike.plan
    assert settled.found is unlike.found
    assert settled.contest == WON
    assert min(seconds[0]) > 0


def test_a_plan_that_loses_gives_way_to_the_heuristic_one(
    graph: Graph, unlike: GraphSearch, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcome(monkeypatch, LOST)
    settled = keep_faster_plan(unlike, graph, CACHED, NO_RANGES, 0)
    assert settled.found is unlike.heuristic
    planned = tuple((choice.group, choice.schedule) for choice in settled.plan.choices(graph))
    assert planned == unlike.heuristic.scheduled
    assert settled.contest == LOST


@pytest.mark.parametrize("wrong", [True, False])
def test_a_plan_with_other_outputs_than_the_reference_loses(
    graph: Graph, unlike: GraphSearch, monkeypatch: pytest.MonkeyPatch, wrong: bool
) -> None:
    """Where only the heuristic plan is wrong, the contest is held."""
    outcome(monkeypatch, WON)

    def altered(
        table: ProgramTable, target: Target, inputs: Mapping[str, Array]
    ) -> tuple[dict[str, Array], RunTrace]:
        outputs, trace = execute(table, target, inputs)
        fused = len(table.steps) == len(unlike.heuristic.groups)
        return {x: y + (fused != wrong) for x, y in outputs.items()}, trace

    monkeypatch.setattr(plan_contest, "execute", altered)
    settled = keep_faster_plan(unlike, graph, CACHED, NO_RANGES, 0)
    assert settled.contest == (None if wrong else WON)
    assert settled.found is (unlike.heuristic if wrong else unlike.found)


def test_equal_plans_hold_no_contest(graph: Graph, unlike: GraphSearch) -> None:
    same = replace(unlike, found=unlike.heuristic)
    assert keep_faster_plan(same, graph, CACHED, NO_RANGES, 0) is same


def test_inputs_are_within_their_ranges(
    graph: Graph, unlike: GraphSearch, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcome(monkeypatch, WON)
    fed: list[Mapping[str, Array]] = []

    def heard(
        table: ProgramTable, target: Target, inputs: Mapping[str, Array]
    ) -> tuple[dict[str, Array], RunTrace]:
        fed.append(inputs)
        return execute(table, target, inputs)

    monkeypatch.setattr(plan_contest, "execute", heard)
    keep_faster_plan(unlike, graph, CACHED, {"q": Interval(0.0, 0.5)}, 0)
    assert all(x["q"].min() >= 0.0 and x["q"].max() <= 0.5 for x in fed)
    assert np.isfinite(evaluate(graph, fed[0])[graph.outputs[0]]).all()
