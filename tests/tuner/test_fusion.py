"""The whole search on a small network and the edge machine."""

from dataclasses import replace

import numpy as np
import pytest

from autotune.cost_model.fitting import fit
from autotune.errors import InputError, ScheduleError
from autotune.fusion.greedy import unfused
from autotune.graph.builder import GraphBuilder
from autotune.measure.runner import measure
from autotune.operators.op import OpKind
from autotune.runtime.session.session import Session
from autotune.schedule.candidate import Candidate
from autotune.store.store import Store
from autotune.targets.emulator.target import EmulatorTarget
from autotune.targets.spec import EnergySpec, Memory
from autotune.tuner.fusion import search
from autotune.tuner.heuristic_plan import heuristic_choices
from autotune.tuner.objective import Objective
from autotune.tuner.options import SearchOptions
from autotune.tuner.plan import Plan
from autotune.tuner.progress import SEARCH_STAGES, Whole
from autotune.tuner.result import GraphSearch, PlanResult, SearchResult
from tests.tuner.search_case import EDGE, calibrated, halves, residual, store_with_records

pytestmark = pytest.mark.slow  # trains models

GRAPH = residual(1)
SMALL = SearchOptions(trials=30, measure=48, workers=1)


def found(options: SearchOptions = SMALL, **others: object) -> GraphSearch:
    return search(GRAPH, EDGE, calibrated()[0], options, **others)


def whole(*graphs: GraphSearch) -> SearchResult:
    return SearchResult.of(graphs, EDGE, Objective.LATENCY)


def operators_of(plan: PlanResult) -> tuple[tuple[str, ...], ...]:
    return tuple(tuple(op.name for op in item.group.ops) for item in plan.groups)


@pytest.fixture(scope="module")
def result() -> GraphSearch:
    return found()


def cost(plan: PlanResult, objective: Objective) -> int:
    value = plan.measured_cycles if objective is Objective.LATENCY else plan.energy_fj
    assert value is not None
    return value


def test_the_found_plan_is_not_dearer_than_greedy_or_unfused(result: GraphSearch) -> None:
    assert operators_of(result.unfused) == unfused(GRAPH).groups
    for baseline in (result.unfused, result.greedy):
        assert cost(result.found, Objective.LATENCY) <= cost(baseline, Objective.LATENCY)
    assert cost(result.found, Objective.LATENCY) < cost(result.unfused, Objective.LATENCY)


def test_measured_costs_are_those_of_the_target(result: GraphSearch) -> None:
    groups = [g for g in result.found.groups if g.schedule is not None]
    candidates = [Candidate(g.group, g.schedule, "x") for g in groups if g.schedule is not None]
    for group, again in zip(groups, measure(EDGE, candidates, 1), strict=True):
        execution = again.execution
        assert (group.measured_cycles, group.energy_fj, group.dram_bytes) == (
            execution.cycles,
            execution.energy_fj,
            execution.dram_bytes,
        )


def test_plans_of_a_shifted_cut_cost_what_a_run_of_them_costs() -> None:
    graph = halves()
    result = search(graph, EDGE, calibrated()[0], SMALL)
    for plan in (result.unfused, result.greedy, result.found):
        groups = [g for g in plan.groups if g.schedule is not None]
        candidates = [Candidate(g.group, g.schedule, "x") for g in groups if g.schedule is not None]
        again = list(measure(EDGE, candidates, 1))
        assert [g.measured_cycles for g in groups] == [m.execution.cycles for m in again]
        assert cost(result.found, Objective.LATENCY) <= cost(plan, Objective.LATENCY)
    plan = whole(result).plan
    with Session(graph, EDGE, plan=plan) as session:
        session.run({"x": np.ones((1, 32, 14, 14), np.float32)})
        assert session.last_run.cycles == result.found.measured_cycles == plan.measured_cycles


def test_the_plan_is_the_found_partition(result: GraphSearch) -> None:
    plan = Plan.from_json(whole(result).plan.to_json())
    plan.check_target(EDGE.spec)
    plan.only_graph().check_graph(GRAPH)
    assert tuple(g.operators for g in plan.groups) == operators_of(result.found)
    assert plan.measured_cycles == result.found.measured_cycles
    assert plan.predicted_cycles == pytest.approx(result.found.predicted_cycles)


def test_the_history_descends_and_counts_are_right(result: GraphSearch) -> None:
    best = [trial.best for trial in result.trials]
    assert best == sorted(best, reverse=True)
    assert whole(result).measurements == len(result.records) > 0
    assert result.gap >= 0.0
    keys = [(r.group_key, r.schedule_json) for r in result.records]
    assert len(set(keys)) == len(keys)


def test_equal_seeds_find_equal_plans(result: GraphSearch) -> None:
    assert found().plan == result.plan


def test_energy_can_be_the_objective() -> None:
    energy = found(replace(SMALL, objective=Objective.ENERGY))
    for baseline in (energy.unfused, energy.greedy):
        assert cost(energy.found, Objective.ENERGY) <= cost(baseline, Objective.ENERGY)


def test_without_measurements_nothing_runs() -> None:
    class Idle(EmulatorTarget):
        def time(self, program, parameters=None):
            raise AssertionError("the target was used")

    plan = search(GRAPH, Idle(EDGE.spec), calibrated()[0], replace(SMALL, measure=0))
    assert not plan.records and plan.found.measured_cycles is None
    assert plan.found.predicted_cycles <= plan.greedy.predicted_cycles


def test_measurements_and_a_retrained_model_go_into_the_store() -> None:
    with store_with_records() as store:
        before = store.count(EDGE.spec.profile_id)
        stored = found(store=store)
        assert store.count(EDGE.spec.profile_id, "search") == len(stored.records)
        assert store.count(EDGE.spec.profile_id) == before + len(stored.records)


def test_a_result_shows_its_plans_side_by_side(result: GraphSearch) -> None:
    shown = whole(result)
    assert repr(shown).startswith(f"<SearchResult {GRAPH.name} on edge: found cycles ")
    page = shown._repr_html_()
    assert all(f"<td>{name}</td>" in page for name in ("unfused", "greedy", "heuristic", "found"))
    assert repr(result.found).startswith("<PlanResult: groups ")


def test_the_result_of_a_network_sums_the_costs_of_its_graphs(result: GraphSearch) -> None:
    two = whole(result, result)
    for one, both in ((result.found, two.found), (result.greedy, two.greedy)):
        assert both.measured_cycles == 2 * cost(one, Objective.LATENCY)
    assert two.measurements == 2 * len(result.records)
    assert two.plan.measured_cycles == two.found.measured_cycles
    assert two.heuristic.measured_cycles == 2 * cost(result.heuristic, Objective.LATENCY)


def test_known_measurements_are_used(result: GraphSearch) -> None:
    with Store.memory() as store:
        store.add(result.records)
        again = found(replace(SMALL, measure=1), store=store)
        assert cost(again.found, Objective.LATENCY) <= cost(result.found, Objective.LATENCY)


def test_an_interrupt_leaves_what_was_measured_in_the_store() -> None:
    def interrupt(phase: str, done: int, total: int, best: float | None = None) -> None:
        if phase == "measure" and done == 3:
            raise KeyboardInterrupt

    with Store.memory() as store:
        with pytest.raises(KeyboardInterrupt):
            found(store=store, progress=interrupt)
        assert store.count(EDGE.spec.profile_id, "search") == 3


def test_progress_never_goes_beyond_its_total() -> None:
    heard = []
    found(progress=lambda *step: heard.append(step))
    assert {phase for phase, *_ in heard} >= {"fuse", "measure"}
    assert all(0 <= done <= total for _, done, total, *_ in heard)
    bests = [step[3] for step in heard if len(step) == 4 and step[3] is not None]
    assert bests and bests[-1] <= bests[0]
    first = next(step for step in heard if step[0] == "measure")
    assert first[2] >= SMALL.measure  # the first batch is not taken for the whole
    whole = Whole(SEARCH_STAGES)
    fractions = [whole.reached(*step[:3]) for step in heard]
    assert fractions == sorted(fractions) and 0.99 < fractions[-1] <= 1


def test_energy_is_refused_where_it_is_not_known() -> None:
    silent = replace(EDGE.spec, energy=EnergySpec(*(0,) * 11))
    with pytest.raises(InputError, match="edge does not measure energy; search for latency"):
        search(
            GRAPH,
            EmulatorTarget(silent),
            calibrated()[0],
            replace(SMALL, objective=Objective.ENERGY),
        )


def test_an_unknown_objective_is_refused() -> None:
    with pytest.raises(InputError, match="latency, energy"):
        Objective.parse("speed")


def test_a_machine_without_room_is_refused() -> None:
    spec = replace(EDGE.spec, scratchpad=replace(EDGE.spec.scratchpad, size_bytes=1024))
    with pytest.raises(ScheduleError, match="no legal schedule"):
        search(residual(1, 40), EmulatorTarget(spec), calibrated()[0], SMALL)


def test_where_operands_are_in_place_the_plan_of_a_session_by_rule_takes_part() -> None:
    machine = EmulatorTarget(replace(EDGE.spec, memory=Memory.CACHED))
    model = fit(calibrated()[1], machine.spec, seed=0)
    b = GraphBuilder("attention")
    scores = b.add(OpKind.MATMUL, b.input("q", (2, 24, 8)), b.input("k", (2, 8, 24)))
    weights = b.add(OpKind.SOFTMAX, scores, axis=-1)
    graph = b.build([b.add(OpKind.MATMUL, weights, b.input("v", (2, 24, 8)))])
    result = search(graph, machine, model, SMALL)
    assert result.heuristic is not None
    ruled = heuristic_choices(graph, machine.spec)
    assert [(g.group, g.schedule) for g in result.heuristic.groups] == [
        (choice.group, choice.schedule) for choice in ruled
    ]
    assert len(ruled) == 1
    assert len(result.greedy.groups) == 3
    for baseline in (result.heuristic, result.greedy, result.unfused):
        assert cost(result.found, Objective.LATENCY) <= cost(baseline, Objective.LATENCY)


def test_where_operands_are_loaded_the_heuristic_plan_takes_part_too() -> None:
    graph = residual()
    result = search(graph, EDGE, calibrated()[0], SMALL)
    ruled = heuristic_choices(graph, EDGE.spec)
    assert result.heuristic is not None
    assert result.heuristic.scheduled == tuple((c.group, c.schedule) for c in ruled)
    assert cost(result.found, Objective.LATENCY) <= cost(result.heuristic, Objective.LATENCY)


def test_without_measurements_no_plan_is_by_rule() -> None:
    assert search(residual(), EDGE, calibrated()[0], replace(SMALL, measure=0)).heuristic is None
