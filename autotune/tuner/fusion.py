"""Fusion search: finds a partition and schedules with the model, then measures the best of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from autotune.cost_model.model import MIN_RECORDS, CostModel
from autotune.cost_model.version import FEATURE_VERSION
from autotune.errors import ScheduleError
from autotune.fusion.greedy import greedy, unfused
from autotune.fusion.partition import Partition
from autotune.graph.accuracy import accuracy_of
from autotune.graph.graph import Graph
from autotune.store.records import Outcome, Record
from autotune.store.store import Store
from autotune.targets.protocol import Target
from autotune.targets.spec import Memory
from autotune.tuner.active import ActiveMeasurement
from autotune.tuner.candidate_evaluator import Laboratory
from autotune.tuner.choice import Choice
from autotune.tuner.heuristic_plan import ruled_choices
from autotune.tuner.objective import Objective
from autotune.tuner.options import SearchOptions
from autotune.tuner.plan import GraphPlan
from autotune.tuner.problem import FusionProblem
from autotune.tuner.progress import Progress, silent
from autotune.tuner.result import GraphSearch, PlanResult, plan_result, ruled_result
from autotune.tuner.schedules import GroupCosts
from autotune.tuner.strategies.climbing import Climbing
from autotune.tuner.strategies.table import STRATEGIES

__all__ = ["GraphSearch", "search"]


def search(
    graph: Graph,
    target: Target,
    model: CostModel,
    options: SearchOptions | None = None,
    *,
    progress: Progress | None = None,
    store: Store | None = None,
    start: Sequence[Partition] = (),
    known: Sequence[Record] | None = None,
) -> GraphSearch:
    """Fusion groups and schedules for ``graph`` on ``target``.

    If ``options`` allow measuring, every group of the unfused, the greedy and the found plan is
    measured: the found plan is never dearer, by the measurements of its groups, than the other two,
    nor on a machine that works in place than the plan by rule that runs there without a search. On
    machines that count cycles these are measurements of the groups themselves, not of twins. With
    a ``store``, known measurements override predictions, and what is measured goes there batch by
    batch (an interrupt loses nothing), with the retrained model. ``start`` are partitions to begin
    from besides those of the strategies, ``known`` the measurements that count instead of the
    store's (of a machine that has drifted, the fresh ones). Raises ``ScheduleError`` when an
    operator has no legal schedule on the target, and ``InputError`` for energy on a machine that
    does not tell it.
    """
    wanted = options or SearchOptions()
    wanted.check(target.spec)
    heard = silent if progress is None else progress
    if known is None:
        known = () if store is None else store.records(target.spec.profile_id)
    workers = wanted.workers
    costs = GroupCosts(model, target.spec, wanted.objective, wanted.seed, known, workers)
    laboratory = Laboratory(target, costs, graph.name, store, heard, workers)
    problem = FusionProblem(graph, costs, heard)
    return _Search(problem, laboratory, wanted).run(start)


@dataclass(frozen=True, slots=True)
class _Search:
    """One search: a network's fusion problem, where it measures, and what was asked for."""

    problem: FusionProblem
    laboratory: Laboratory
    options: SearchOptions

    @property
    def costs(self) -> GroupCosts:
        """Of groups, as far as they are known."""
        return self.laboratory.costs

    @property
    def target(self) -> Target:
        """The machine."""
        return self.laboratory.target

    def run(self, start: Sequence[Partition]) -> GraphSearch:
        """Proposes plans, measures the best of them, and compares."""
        problem, graph, spec = self.problem, self.problem.graph, self.target.spec
        alone = unfused(graph)
        problem.report("prepare", 0, 3)
        problem.prepare(alone.groups)
        _require_legal(problem, alone, self.target)
        problem.report("prepare", 1, 3)
        rule = greedy(graph, problem.fits)
        problem.report("prepare", 2, 3)
        choices = ruled_choices(graph, spec) if spec.memory is Memory.CACHED else ()
        ruled = [_partition_of(graph, choices)] if choices else []
        problem.report("prepare", 3, 3)
        plans = self._proposed(alone, (*start, *ruled))
        if self.options.measure:
            self.laboratory.expected = len(alone.groups) + self.options.measure
            _measure_rule(self.laboratory, choices)
        best = min(plans, key=problem.legal_cost)
        if self.options.measure:
            best = self._measured([alone, rule, *ruled, best])
        found = self._result(best)
        return GraphSearch(
            plan=self._plan(found),
            unfused=self._result(alone),
            greedy=self._result(rule),
            found=found,
            records=tuple(self.laboratory.records),
            trials=tuple(problem.trials),
            gap=self._gap(found, (*plans, best)),
            model=self.costs.model,
            accuracy=accuracy_of(graph),
            ruled=ruled_result(self.laboratory, choices)
            if ruled and self.options.measure
            else None,
        )

    def _proposed(self, alone: Partition, others: Sequence[Partition]) -> list[Partition]:
        """Every operator by itself, those of the ``others`` that are legal, and what each strategy
        makes of the plans before it."""
        problem, options = self.problem, self.options
        legal = (p for p in dict.fromkeys(others) if p != alone and problem.cost(p) is not None)
        plans = [alone, *legal]
        for strategy in STRATEGIES:
            proposal = strategy.propose(problem, plans, options.trials, options.seed)
            if proposal not in plans:
                plans.append(proposal)
        return plans

    def _measured(self, plans: Sequence[Partition]) -> Partition:
        """The cheapest partition by measurements alone, after active measurement of ``plans``."""

        def replan(pool: Sequence[Partition]) -> Partition:
            return Climbing().propose(self.problem, pool, 0, 0)

        active = ActiveMeasurement(self.problem, self.costs, self.laboratory, replan, self._relearn)
        pool = active.run(plans, self.options.measure)
        measured = FusionProblem(self.problem.graph, self.laboratory)
        covered = [plan for plan in pool if measured.cost(plan) is not None]
        if not covered:
            failed = next(r for r in self.laboratory.records if r.outcome is not Outcome.OK)
            name = self.problem.graph.name
            raise ScheduleError(f"{name}: no plan could be measured: {failed.reason}")
        best = Climbing().propose(measured, covered, 0, 0)
        if self.target.spec.timed:  # a second time would differ too
            return best
        compared = [best, *(plan for plan in plans if plan in covered)]
        for plan in compared:
            self.laboratory.settle(measured.group(names) for names in plan.groups)
        return min(compared, key=measured.legal_cost)

    def _relearn(self) -> None:
        """Retrains from all records of the machine; without a store the model stays as it is."""
        store, spec, costs = self.laboratory.store, self.target.spec, self.costs
        if store is None:
            return
        records = store.records(spec.profile_id)
        if sum(record.outcome is Outcome.OK for record in records) < MIN_RECORDS:
            return
        costs.retrained(CostModel.fit(records, spec, seed=self.options.seed))
        model = costs.model
        store.save_model(spec.profile_id, model.to_bytes(), model.metrics, FEATURE_VERSION)

    def _result(self, partition: Partition) -> PlanResult:
        return plan_result(self.problem, self.costs, self.laboratory, partition)

    def _plan(self, found: PlanResult) -> GraphPlan:
        graph = self.problem.graph
        return GraphPlan(
            graph.name, graph.fingerprint, tuple(group.planned() for group in found.groups)
        )

    def _gap(self, found: PlanResult, plans: Sequence[Partition]) -> float:
        """Cost of the found plan over the least that any plan is expected to cost, minus one."""
        latency = self.options.objective is Objective.LATENCY
        measured = found.measured_cycles if latency else found.energy_fj
        least = min(self.problem.legal_cost(plan) for plan in plans)
        return 0.0 if measured is None else max(0.0, measured / least - 1.0)


def _require_legal(problem: FusionProblem, alone: Partition, target: Target) -> None:
    for names in alone.groups:
        if problem.group_cost(names) is None:
            raise ScheduleError(
                f"{problem.graph.name}: operator {names[0]} has no legal schedule on {target.name} "
                f"({target.spec.tile_elements} elements of scratchpad); take a larger target"
            )


def _partition_of(graph: Graph, choices: Sequence[Choice]) -> Partition:
    return Partition.of(graph, [[op.name for op in choice.group.ops] for choice in choices])


def _measure_rule(laboratory: Laboratory, choices: Sequence[Choice]) -> None:
    """What runs without a search takes part in it: the found plan is then never slower."""
    ruled = [(choice.group, choice.schedule) for choice in choices]
    scored = laboratory.costs.scored
    laboratory.take([(group, scored(group, s)) for group, s in ruled if s is not None])
