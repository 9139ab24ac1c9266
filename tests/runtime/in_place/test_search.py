"""The search in place finds faster plans on a noisy clock, and survives what cannot be built, errs or is cut short."""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from optuna.trial import TrialState

from autotune.cost_model.model import CostModel
from autotune.fusion.group import Group
from autotune.graph.graph import Graph
from autotune.runtime.in_place.budget import NO_LIMITS, Budget, Limits
from autotune.runtime.in_place.confirmation import confirm
from autotune.runtime.in_place.kept_times import KeptTimes, Observed
from autotune.runtime.in_place.plan_trials import PlanTrials
from autotune.runtime.in_place.screening import Screening
from autotune.runtime.in_place.search import InPlaceSearch
from autotune.runtime.variants.fusions import merges
from autotune.runtime.variants.heuristic_schedules import HeuristicSchedules
from autotune.runtime.variants.schedules import estimate_of, propose_schedules
from autotune.runtime.variants.tournament import FIRST
from autotune.runtime.variants.variants import Change, Groups, Place, names_of, rescheduled
from autotune.schedule.schedule import Schedule
from autotune.targets.opening import target
from autotune.tuner.choice import Choice
from autotune.tuner.heuristic_plan import heuristic_choices, heuristic_schedule
from autotune.tuner.plan_study import PlanStudy
from autotune.tuner.problem import FusionProblem
from autotune.tuner.progress import silent
from autotune.tuner.schedules import GroupCosts
from tests.runtime.in_place.stand_in import StandIn, drawn_factor
from tests.tuner.search_case import residual

SPEC = target("cpu:1").spec
GRAPH = residual(blocks=1, size=28)
PLAN = heuristic_choices(GRAPH, SPEC)


def scheduled(group: Group) -> Schedule | None:
    return heuristic_schedule(group, SPEC)


def search(
    runs: StandIn,
    seed: int = 0,
    seconds: float = 60.0,
    limits: Limits = NO_LIMITS,
    graph: Graph = GRAPH,
) -> InPlaceSearch:
    rng, estimate = np.random.default_rng(seed), estimate_of(None, SPEC)

    def propose(choice: Choice, count: int) -> tuple[Schedule, ...]:
        assert choice.schedule is not None
        return propose_schedules(choice.group, choice.schedule, SPEC, estimate, count, rng)

    budget = Budget(seconds, 0.0, runs.clock)
    plan = PLAN if graph is GRAPH else heuristic_choices(graph, SPEC)
    return InPlaceSearch(
        graph, runs, plan, propose, scheduled, scheduled, budget, rng, silent, limits=limits
    )


def test_groups_go_to_one_core_where_only_their_neighbours_gain() -> None:
    """A shared group wakes threads, which the step behind it pays for."""
    spec = target("cpu:2").spec
    plan = heuristic_choices(GRAPH, spec)

    def cores(choice: Choice) -> int:
        assert choice.schedule is not None
        return max(nest.cores for nest in choice.schedule.nests)

    assert max(cores(choice) for choice in plan if choice.schedule) == 2
    runs = StandIn(0, lambda choice: 1.0, lambda choice: 0.3 * (cores(choice) - 1))
    budget = Budget(60.0, 0.0, runs.clock)
    alone = HeuristicSchedules(replace(spec, cores=1))
    rng = np.random.default_rng(0)
    one = InPlaceSearch(
        GRAPH, runs, plan, lambda choice, count: (), scheduled, alone, budget, rng, silent
    )
    found = one.run()
    assert max(cores(choice) for choice in found if choice.schedule) == 1


def total(runs: StandIn, plan: tuple[Choice, ...]) -> float:
    return sum(runs.true_seconds(plan))


def test_found_plans_are_faster_and_cover_the_network() -> None:
    runs = StandIn(0)
    found = search(runs, seconds=40.0).run()
    assert total(runs, found) < 0.9 * total(runs, PLAN)
    covered = [name for choice in found for name in names_of(choice)]
    assert sorted(covered) == sorted(op.name for op in GRAPH.ops)


def test_without_anything_to_win_the_plan_hardly_changes() -> None:
    """Of schedules that all take the same time few are adopted, though many are tried."""
    adopted = tried = 0
    for seed in range(2):
        one = search(StandIn(seed, lambda choice: 1.0 * len(choice.group.ops)), seed)
        one.run()
        adopted += sum(c.is_adopted for generation in one.generations for c in generation)
        tried += one.tried
    assert adopted <= 0.05 * tried


def test_a_candidate_that_harms_the_step_behind_is_not_adopted() -> None:
    plan = {(names_of(choice), choice.schedule) for choice in PLAN}

    def is_new(choice: Choice) -> bool:
        return (names_of(choice), choice.schedule) not in plan

    runs = StandIn(
        0, lambda choice: 0.9 if is_new(choice) else 1.0, lambda choice: 0.5 * is_new(choice)
    )
    found = search(runs).run()
    assert total(runs, found) <= 1.02 * total(runs, PLAN)


def test_illegal_and_wrong_candidates_are_left_out() -> None:
    def struck(choice: Choice, seed: int) -> bool:
        assert choice.schedule is not None
        text = f"{seed}{choice.schedule.to_json()}"
        return (names_of(choice), choice.schedule) not in {
            (names_of(one), one.schedule) for one in PLAN
        } and zlib.crc32(text.encode()) % 4 == 0

    runs = StandIn(0, drawn_factor, illegal=lambda c: struck(c, 1), wrong=lambda c: struck(c, 2))
    found = search(runs).run()
    assert total(runs, found) < total(runs, PLAN)
    assert not any(struck(choice, seed) for choice in found if choice.schedule for seed in (1, 2))


def test_an_interrupt_leaves_the_best_plan_so_far() -> None:
    runs = StandIn(0)
    one = search(runs, seconds=60.0)
    runs.stops_after = 40.0
    try:
        one.run()
    except KeyboardInterrupt:
        assert one.generations
    assert total(runs, one.plan) < total(runs, PLAN)


@pytest.mark.parametrize("seconds", [0.001, 2.0])
def test_a_small_budget_ends_soon(seconds: float) -> None:
    runs = StandIn(0)
    search(runs, seconds=seconds).run()
    assert runs.seconds < seconds + 5.0


@pytest.mark.parametrize("build_seconds", [0.5, 2.0])
def test_slow_builds_hardly_overrun_the_budget(build_seconds: float) -> None:
    """A network with many places, of which each takes another candidate: few are built before the clock is asked."""
    graph = residual(blocks=16, size=28)
    runs = StandIn(0, build_seconds=build_seconds)
    one = search(runs, seconds=40.0, graph=graph)
    runs.is_right(one.plan)
    runs.seconds = 0.0
    one.run()
    assert one.tried > 0
    assert runs.seconds < 1.3 * 40.0


def test_a_confirmation_without_time_believes_nothing() -> None:
    """Few runs fit any effects exactly: they would adopt whatever was chosen."""
    runs, groups = StandIn(0), Groups(GRAPH)
    schedule = propose_schedules(
        PLAN[0].group, PLAN[0].schedule, SPEC, estimate_of(None, SPEC), 1, np.random.default_rng(0)
    )[0]
    place = Place(((0,),), (names_of(PLAN[0]),), (rescheduled(PLAN[0].group, schedule),))
    factors = [[Change(place, 0, place.variants[0])]]
    asked = iter([False] * 3 + [True] * 200)
    (effect,) = confirm(
        runs,
        groups,
        PLAN,
        factors,
        np.random.default_rng(0),
        lambda: True,
        lambda: next(asked),
    )
    assert not effect.is_gain(0.0)


def test_variants_are_trials_with_their_states_and_reasons() -> None:
    """What the tournament left is complete, the others are pruned; failed ones say why."""

    def struck(choice: Choice) -> bool:
        assert choice.schedule is not None
        is_new = (names_of(choice), choice.schedule) not in {
            (names_of(one), one.schedule) for one in PLAN
        }
        return is_new and zlib.crc32(choice.schedule.to_json().encode()) % 4 == 0

    one = search(StandIn(0, drawn_factor, illegal=struck))
    problem = FusionProblem(GRAPH, GroupCosts(CostModel.typical(SPEC), SPEC))
    study = PlanStudy.open(problem, "stand-in", "latency", None)
    one.trials = PlanTrials.open(study, "model", 1e6)
    one.run()
    plans = study.study.get_trials()
    assert len(plans) == len(one.history) > 1
    assert [t.value for t in plans] == sorted((t.value or 0.0 for t in plans), reverse=True)
    assert plans[-1].value == pytest.approx(1e6 * one.ratio)
    (name,) = (x for x in study.storage.get_all_studies() if x.study_name.endswith(", candidates"))
    trials = study.storage.get_all_trials(name._study_id)
    states = Counter(t.state for t in trials)
    assert states.keys() == {TrialState.COMPLETE, TrialState.PRUNED, TrialState.FAIL}
    assert states[TrialState.PRUNED] > states[TrialState.COMPLETE]
    failed = [t for t in trials if t.state is TrialState.FAIL]
    assert {t.user_attrs["reason"] for t in failed} == {"a group cannot be built"}
    assert all(t.user_attrs["base"] < len(plans) for t in trials)


def test_clearly_slower_variants_take_few_runs() -> None:
    """Half of the variants take thrice the time: after two ratios each they run no more."""
    plan = {(names_of(choice), choice.schedule) for choice in PLAN}

    def factor(choice: Choice) -> float:
        assert choice.schedule is not None
        is_new = (names_of(choice), choice.schedule) not in plan
        is_slow = is_new and zlib.crc32(choice.schedule.to_json().encode()) % 2 == 0
        return len(choice.group.ops) * (3.0 if is_slow else 1.0)

    runs = StandIn(0, factor)
    groups = Groups(GRAPH)
    schedules = propose_schedules(
        PLAN[0].group, PLAN[0].schedule, SPEC, estimate_of(None, SPEC), 16, np.random.default_rng(0)
    )
    variants = tuple(rescheduled(PLAN[0].group, one) for one in schedules)
    place = Place(((0,),), (names_of(PLAN[0]),), variants)
    screening = Screening(runs, groups, PLAN, [place], np.random.default_rng(0))
    screening.measure(lambda: False, 1e3)
    ((_, tournament),) = screening.fields
    taken = {True: [], False: []}
    for variant, entry in tournament.entries.items():
        ((_, schedule),) = variant.parts
        taken[factor(Choice(PLAN[0].group, schedule)) > 2 * len(PLAN[0].group.ops)].append(
            len(entry.ratios)
        )
    assert taken[True] and set(taken[True]) == {FIRST}
    assert min(taken[False]) > FIRST
    assert screening.spared > 0


def kept_of(observed: list[Observed]) -> KeptTimes:
    cpu = target("cpu:1")
    return KeptTimes(one.record(cpu, GRAPH.name) for one in observed)


def test_a_search_begins_with_what_an_interrupted_one_kept() -> None:
    observed: list[Observed] = []
    runs = StandIn(0)
    first = search(runs)
    first.keep, runs.stops_after = observed.extend, 20.0
    with pytest.raises(KeyboardInterrupt):
        first.run()
    kept = kept_of(observed)
    slower = [
        one
        for one in observed
        for used in PLAN
        if used.group.key == one.group.key
        and used.schedule is not None
        and kept.is_slower(one.group, one.schedule, used.schedule)
    ]
    assert slower
    few = Limits(plans=1, candidates=4)
    seen: list[Observed] = []
    seconds = []
    for begins_with in (KeptTimes(), kept):
        took = 0.0
        for seed in range(1, 4):
            again = StandIn(seed)
            second = search(again, seed, seconds=20.0, limits=few)
            second.kept, second.keep = begins_with, seen.extend
            if begins_with is not kept:
                second.keep = lambda observed: None
            took += total(again, second.run())
        seconds.append(took)
    assert seconds[1] < seconds[0]
    measured = {(one.group.key, one.schedule) for one in seen}
    alone = {(one.group.key, one.schedule) for one in slower if _is_not_alone(one)}
    assert not measured & alone


def _is_not_alone(observed: Observed) -> bool:
    """Return True for schedules that only a proposal brings: merges and cuts bring heuristic ones."""
    return observed.schedule != scheduled(observed.group)


@pytest.mark.parametrize("candidates", [0, 1, 7])
def test_no_more_candidates_are_measured_than_wanted(candidates: int) -> None:
    runs = StandIn(0)
    one = search(runs, limits=Limits(candidates=candidates))
    seen: list[Observed] = []
    one.keep = seen.extend
    one.run()
    assert one.tried <= candidates
    new = {(x.group.key, x.schedule) for x in seen} - {(x.group.key, x.schedule) for x in PLAN}
    assert len(new) <= candidates


def test_no_more_plans_are_tried_than_wanted() -> None:
    one = search(StandIn(0), limits=Limits(plans=2))
    one.run()
    assert len(one.generations) == 2


def test_ranking_ends_with_its_share_of_the_time() -> None:
    """Where proposing takes long, the groups that take most have schedules, and others are measured all the same."""
    runs = StandIn(0)
    one = search(runs, seconds=20.0, limits=Limits(plans=1))
    propose, asked = one.propose, Counter[str]()

    def slow(choice: Choice, count: int) -> Sequence[Schedule]:
        runs.seconds += 2.0
        asked[choice.group.key] += 1
        return propose(choice, count)

    one.propose = slow
    one.run()
    assert one.tried > 0
    assert runs.seconds < 25.0
    assert 0 < len(asked) < len({choice.group.key for choice in PLAN if choice.schedule})


def test_merging_ends_with_its_share_of_the_time() -> None:
    """Each pair of neighbours asks for a schedule of the merged group; once the time is over, none is asked for."""
    graph = residual(blocks=4, size=28)
    groups, plan = Groups(graph), heuristic_choices(graph, SPEC)
    asked: list[str] = []

    def slow(group: Group) -> Schedule | None:
        asked.append(group.key)
        return scheduled(group)

    seconds = [1.0] * len(plan)
    every = merges(groups, plan, slow, 16, seconds)
    assert len(asked) == len(every) > 1
    asked.clear()
    first = merges(groups, plan, slow, 16, seconds, is_over=lambda: bool(asked))
    assert len(asked) == 1
    assert first == every[:1]
