"""Fusion search: finds a partition and schedules with the model, then measures the best of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from autotune.cost_model.hpm import MIN_RECORDS, CostModel
from autotune.cost_model.version import FEATURE_VERSION
from autotune.errors import InputError, ScheduleError
from autotune.fusion.candidates import greedy, unfused
from autotune.fusion.partition import Partition
from autotune.graph.accuracy import accuracy_of
from autotune.graph.graph import Graph
from autotune.search.active import ActiveMeasurement
from autotune.search.by_rule import ruled_choices
from autotune.search.choice import Choice
from autotune.search.laboratory import Laboratory
from autotune.search.objective import Objective
from autotune.search.observations import Observations
from autotune.search.plan import NetworkFile, Plan
from autotune.search.problem import FusionProblem
from autotune.search.progress import Progress, silent
from autotune.search.result import PlanResult, SearchResult, plan_result, ruled_result
from autotune.search.schedules import GroupCosts
from autotune.search.strategies.climbing import Climbing
from autotune.search.strategies.table import STRATEGIES
from autotune.store.records import Record
from autotune.store.store import Store
from autotune.targets.protocol import Target

__all__ = ["DEFAULT_MEASURE", "DEFAULT_TRIALS", "SearchResult", "search"]

DEFAULT_TRIALS = 200
DEFAULT_MEASURE = 64


def search(
    graph: Graph,
    target: Target,
    model: CostModel,
    *,
    trials: int = DEFAULT_TRIALS,
    measure: int = DEFAULT_MEASURE,
    objective: Objective | str = Objective.LATENCY,
    seed: int = 0,
    progress: Progress | None = None,
    store: Store | None = None,
    network_file: NetworkFile | None = None,
    workers: int | None = None,
    start: Sequence[Partition] = (),
    known: Sequence[Record] | None = None,
) -> SearchResult:
    """Fusion groups and schedules for ``graph`` on ``target``.

    ``trials`` bounds the partitions that Optuna tries on the model. With ``measure`` 0 nothing
    runs on the target; otherwise every group of the unfused, the greedy and the found plan is
    measured, and ``measure`` bounds the measurements beyond those. The found plan is never dearer,
    by the measurements of its groups, than the other two, nor on a machine that works in place
    than the plan by rule that runs there without a search. With a ``store``, known measurements
    override predictions, and what is measured goes there batch by batch (an interrupt loses
    nothing), with the retrained model. ``start`` are partitions to begin from besides those of the strategies, ``known`` the
    measurements that count instead of the store's (of a machine that has drifted, the fresh ones).
    Raises ``ScheduleError`` when an operator has no legal schedule on the target, and
    ``InputError`` for an unknown objective, or energy on a machine that does not tell it.
    """
    goal = Objective.parse(objective)
    if goal is Objective.ENERGY and not target.spec.energy.known:
        raise InputError(f"{target.name} does not measure energy; search for {Objective.LATENCY}")
    heard = silent if progress is None else progress
    if known is None:
        known = () if store is None else store.records(target.spec.profile_id)
    costs = GroupCosts(model, target.spec, goal, seed, Observations(known), workers)
    problem = FusionProblem(graph, costs, heard)
    laboratory = Laboratory(target, costs, graph.name, store, heard, workers)
    alone = unfused(graph)
    problem.prepare(alone.groups)
    _require_legal(problem, alone, target)
    rule = greedy(graph, problem.fits)
    choices = ruled_choices(graph, target.spec) if target.spec.in_place else ()
    ruled = [_partition_of(graph, choices)] if choices else []
    plans = _proposed(problem, alone, (*start, *ruled), trials, seed)
    if measure > 0:
        _measure_rule(costs, laboratory, choices)
    best = min(plans, key=lambda plan: _known_cost(problem, plan))
    if measure > 0:
        best = _measured(
            problem,
            costs,
            laboratory,
            [alone, rule, *ruled, best],
            measure,
            _relearning(costs, target, store, seed),
        )
    found = plan_result(problem, costs, laboratory, best)
    return SearchResult(
        plan=_plan(graph, target, goal, network_file, found),
        unfused=plan_result(problem, costs, laboratory, alone),
        greedy=plan_result(problem, costs, laboratory, rule),
        found=found,
        records=tuple(laboratory.records),
        trials=tuple(problem.trials),
        gap=_gap(problem, found, plans, goal),
        model=costs.model,
        ruled=ruled_result(laboratory, ruled[0], choices) if ruled and measure > 0 else None,
    )


def _require_legal(problem: FusionProblem, alone: Partition, target: Target) -> None:
    for names in alone.groups:
        if problem.group_cost(names) is None:
            raise ScheduleError(
                f"{problem.graph.name}: operator {names[0]} has no legal schedule on {target.name} "
                f"({target.spec.tile_elements} elements of scratchpad); take a larger target"
            )


def _proposed(
    problem: FusionProblem,
    alone: Partition,
    others: Sequence[Partition],
    trials: int,
    seed: int,
) -> list[Partition]:
    """Every operator by itself, those of the ``others`` that are legal, and what each strategy makes of
    the plans before it."""
    legal = (p for p in dict.fromkeys(others) if p != alone and problem.cost(p) is not None)
    plans = [alone, *legal]
    for strategy in STRATEGIES:
        proposal = strategy.propose(problem, plans, trials, seed)
        if proposal not in plans:
            plans.append(proposal)
    return plans


def _partition_of(graph: Graph, choices: Sequence[Choice]) -> Partition:
    return Partition.of(graph, [[op.name for op in choice.group.ops] for choice in choices])


def _measure_rule(costs: GroupCosts, laboratory: Laboratory, choices: Sequence[Choice]) -> None:
    """What runs without a search takes part in it: the found plan is then never slower."""
    ruled = [(choice.group, choice.schedule) for choice in choices]
    laboratory.take([(group, costs.scored(group, s)) for group, s in ruled if s is not None])


def _known_cost(problem: FusionProblem, plan: Partition) -> float:
    cost = problem.cost(plan)
    assert cost is not None, "strategies propose partitions that have a cost"
    return cost


def _measured(
    problem: FusionProblem,
    costs: GroupCosts,
    laboratory: Laboratory,
    plans: Sequence[Partition],
    budget: int,
    relearn: Callable[[], None],
) -> Partition:
    """The cheapest partition by measurements alone, after active measurement of ``plans``."""

    def replan(pool: Sequence[Partition]) -> Partition:
        return Climbing().propose(problem, pool, 0, 0)

    pool = ActiveMeasurement(problem, costs, laboratory, replan, relearn).run(plans, budget)
    measured = FusionProblem(problem.graph, laboratory)
    covered = [plan for plan in pool if measured.cost(plan) is not None]
    if not covered:
        failed = next(r for r in laboratory.records if r.outcome != "ok")
        raise ScheduleError(f"{problem.graph.name}: no plan could be measured: {failed.reason}")
    return Climbing().propose(measured, covered, 0, 0)


def _relearning(
    costs: GroupCosts, target: Target, store: Store | None, seed: int
) -> Callable[[], None]:
    """Retrains from all records of the machine; without a store the model stays as it is."""

    def relearn() -> None:
        if store is None:
            return
        profile = target.spec.profile_id
        records = store.records(profile)
        if sum(record.outcome == "ok" for record in records) < MIN_RECORDS:
            return
        costs.retrained(CostModel.fit(records, target.spec, seed=seed))
        store.save_model(profile, costs.model.to_bytes(), costs.model.metrics, FEATURE_VERSION)

    return relearn


def _plan(
    graph: Graph,
    target: Target,
    objective: Objective,
    network_file: NetworkFile | None,
    found: PlanResult,
) -> Plan:
    return Plan(
        graph.name,
        network_file,
        graph.fingerprint,
        target.name,
        target.spec.profile_id,
        objective,
        tuple(group.planned() for group in found.groups),
        accuracy_of(graph),
    )


def _gap(
    problem: FusionProblem, found: PlanResult, plans: Sequence[Partition], objective: Objective
) -> float:
    """Cost of the found plan over the least that any plan is expected to cost, minus one."""
    measured = found.measured_cycles if objective is Objective.LATENCY else found.energy_fj
    least = min(_known_cost(problem, plan) for plan in (*plans, found.partition))
    return 0.0 if measured is None else max(0.0, measured / least - 1.0)
