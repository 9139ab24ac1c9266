"""Strategies of the tuner search in place: plans run whole, are trials, and clearly slower ones end early."""

from __future__ import annotations

import json
import statistics
from pathlib import Path

import optuna
import pytest
from optuna.trial import FrozenTrial, TrialState

from autotune.cost_model.model import CostModel
from autotune.runtime.in_place.budget import Budget, Limits
from autotune.runtime.in_place.kept_times import TimeKeeper
from autotune.runtime.in_place.plan_evaluator import PlanEvaluator
from autotune.runtime.in_place.plan_trials import PlanTrials
from autotune.runtime.in_place.search_setup import legal_partitions, partition_of
from autotune.runtime.in_place.strategy_search import TURNS, StrategySearch
from autotune.runtime.variants.heuristic_schedules import HeuristicSchedules
from autotune.runtime.variants.variants import Groups, names_of
from autotune.store.store import Store
from autotune.targets.opening import target
from autotune.tuner.choice import Choice
from autotune.tuner.exact.prover import Prover
from autotune.tuner.heuristic_plan import heuristic_choices
from autotune.tuner.plan_study import PlanStudy
from autotune.tuner.problem import FusionProblem
from autotune.tuner.progress import silent
from autotune.tuner.schedules import GroupCosts
from autotune.tuner.strategies.strategy import SearchState
from autotune.tuner.study_storage import open_storage
from tests.runtime.in_place.stand_in import StandIn, drawn_factor
from tests.tuner.search_case import residual

CPU = target("cpu:1")
GRAPH = residual(blocks=1, size=28)
PLAN = heuristic_choices(GRAPH, CPU.spec)
IN_USE = {(names_of(choice), choice.schedule) for choice in PLAN}


def search(
    runs: StandIn,
    strategy: str = "random",
    place: Path | None = None,
    candidates: int = 40,
    plans: int = 1000,
) -> StrategySearch:
    spec = CPU.spec
    costs = GroupCosts(CostModel.typical(spec), spec)
    problem = FusionProblem(GRAPH, costs)
    storage = None if place is None else open_storage(place)
    study = PlanStudy.open(problem, "stand-in", "latency", storage)
    trials = PlanTrials.open(study, strategy, 1e6)
    evaluator = PlanEvaluator(CPU, costs, GRAPH.name, TimeKeeper(Store.memory(), CPU, GRAPH.name))
    state = SearchState(
        problem,
        FusionProblem(GRAPH, evaluator),
        costs,
        evaluator,
        study,
        legal_partitions(problem, PLAN),
        partition_of(GRAPH, PLAN),
        candidates,
        0,
        lambda: None,
        Prover(problem),
    )
    return StrategySearch(
        state,
        runs,
        PLAN,
        HeuristicSchedules(spec),
        evaluator,
        trials,
        Budget(60.0, 0.0, runs.clock),
        silent,
        Limits(plans, candidates),
        trials.best_plans(Groups(GRAPH), 2),
    )


def total(runs: StandIn, plan: tuple[Choice, ...]) -> float:
    return sum(runs.true_seconds(plan))


def trials_of(one: StrategySearch) -> list[FrozenTrial]:
    return one.trials.study.study.get_trials()


@pytest.mark.parametrize("strategy", ["random", "tpe", "gp", "greedy", "heuristic"])
def test_every_strategy_covers_the_network_and_its_plans_are_trials(strategy: str) -> None:
    runs = StandIn(0)
    one = search(runs, strategy)
    found = one.run()
    covered = [name for choice in found for name in names_of(choice)]
    assert sorted(covered) == sorted(op.name for op in GRAPH.ops)
    assert total(runs, found) <= 1.03 * total(runs, PLAN)
    trials = trials_of(one)
    assert {t.user_attrs["strategy"] for t in trials} <= {strategy}
    assert bool(trials) or strategy == "heuristic"
    for trial in trials:
        written = json.loads(trial.user_attrs["schedules"])
        assert sorted(i for where, _ in written for i in where) == list(range(len(GRAPH.ops)))


def test_schedules_of_different_plans_make_a_faster_one() -> None:
    runs = StandIn(1)
    found = search(runs, "random", candidates=200).run()
    assert total(runs, found) < 0.97 * total(runs, PLAN)


def test_values_are_times_over_the_heuristic_plans_by_their_median() -> None:
    one = search(StandIn(0), "random", candidates=60)
    one.run()
    for trial in trials_of(one):
        steps = list(trial.intermediate_values.values())
        assert trial.value == pytest.approx(statistics.median(steps))
        assert (len(steps) == TURNS) == (trial.state is TrialState.COMPLETE)
    best = min(t.value or 0.0 for t in trials_of(one) if t.state is TrialState.COMPLETE)
    assert one.ratio == pytest.approx(min(1.0, best / one.trials.anchor))


def test_clearly_slower_plans_end_early_and_nothing_is_lost() -> None:
    def slower(choice: Choice) -> float:
        is_new = (names_of(choice), choice.schedule) not in IN_USE
        return len(choice.group.ops) * (2.0 if is_new else 1.0)

    pruning, patient = (search(StandIn(0, slower), "random", candidates=40) for _ in range(2))
    patient.prunes = False
    found, other = pruning.run(), patient.run()
    assert {t.state for t in trials_of(patient)} == {TrialState.COMPLETE}
    assert pruning.pruned == sum(t.state is TrialState.PRUNED for t in trials_of(pruning)) > 0
    assert len(trials_of(pruning)) == len(trials_of(patient))
    assert isinstance(pruning.runs, StandIn) and isinstance(patient.runs, StandIn)
    assert pruning.runs.seconds < 0.6 * patient.runs.seconds
    assert found == other == PLAN


def test_plans_that_cannot_run_or_compute_otherwise_fail_with_the_reason() -> None:
    numbers: dict[tuple[str, str], int] = {}

    def struck(choice: Choice, place: int) -> bool:
        """Whether it is the first of eight different new choices, or the second, in the order in which they are asked about."""
        assert choice.schedule is not None
        if (names_of(choice), choice.schedule) in IN_USE:
            return False
        key = choice.group.key, choice.schedule.to_json()
        return numbers.setdefault(key, len(numbers)) % 8 == place

    runs = StandIn(
        0,
        lambda choice: 0.9 + 0.0 * drawn_factor(choice),
        illegal=lambda c: struck(c, 1),
        wrong=lambda c: struck(c, 2),
    )
    one = search(runs, "random", candidates=120)
    found = one.run()
    reasons = {t.user_attrs["reason"] for t in trials_of(one) if t.state is TrialState.FAIL}
    assert reasons == {"a group cannot be built", "its outputs differ from the heuristic plan's"}
    assert not any(struck(choice, place) for choice in found if choice.schedule for place in (1, 2))


def test_limits_of_plans_and_candidates_take_effect() -> None:
    assert len(trials_of(_ran(search(StandIn(0), "random", plans=3)))) <= 4  # and a composed one
    few = _ran(search(StandIn(0), "random", candidates=5))
    assert few.tried <= 5 + 2 * len(GRAPH.ops)  # the plan that reached the limit ran whole


def _ran(one: StrategySearch) -> StrategySearch:
    one.run()
    return one


def test_a_later_search_begins_with_the_best_plan_and_its_numbers_go_on(tmp_path: Path) -> None:
    place, runs = tmp_path / "studies.db", StandIn(1)
    first = search(runs, "random", place, candidates=100)
    best = first.run()
    assert best != PLAN
    before = len(trials_of(first))
    again = search(StandIn(2), "heuristic", place)
    found = again.run()
    assert total(runs, found) <= 1.03 * total(runs, best)
    later = trials_of(again)[before:]
    assert {t.user_attrs["strategy"] for t in later} == {"heuristic"}
    names = optuna.get_all_study_names(f"sqlite:///{place}")
    assert len([name for name in names if "candidates" not in name]) == 1
