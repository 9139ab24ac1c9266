"""Fusion search: finds a partition and schedules with the model, then measures the best of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from autotune.cost_model.model import MIN_RECORDS, CostModel
from autotune.cost_model.shipped import fit_model
from autotune.cost_model.version import FEATURE_VERSION
from autotune.errors import ScheduleError
from autotune.fusion.greedy import greedy, unfused
from autotune.fusion.partition import Partition
from autotune.graph.accuracy import accuracy_of
from autotune.graph.graph import Graph
from autotune.store.records import Outcome, Record
from autotune.store.store import Store
from autotune.targets.protocol import Target
from autotune.tuner.active import ActiveMeasurement
from autotune.tuner.bound.bound import has_bound, network_bound
from autotune.tuner.candidate_evaluator import CandidateEvaluator
from autotune.tuner.choice import Choice
from autotune.tuner.heuristic_plan import heuristic_choices
from autotune.tuner.objective import Objective
from autotune.tuner.options import SearchOptions
from autotune.tuner.plan import GraphPlan
from autotune.tuner.problem import FusionProblem
from autotune.tuner.progress import Progress, silent
from autotune.tuner.result import GraphSearch, PlanResult, measured_choices, plan_result
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
    """Find fusion groups and schedules for ``graph`` on ``target``.

    If ``options`` allow measuring, every group of the unfused, the greedy, the heuristic and the found plan is
    measured. The found plan is never dearer by these measurements than the other three. Machines that count
    cycles measure the groups themselves, not their equivalence classes.

    With a ``store``, its measurements override predictions. New ones enter it batch by batch (an
    interrupt loses nothing), with the retrained model. ``start`` are partitions to begin from besides
    those of the strategies. ``known`` are measurements in place of the store's, such as the fresh ones of a
    machine that has drifted. Raises ``ScheduleError`` when an operator has no legal schedule on the
    target, and ``InputError`` for energy on a machine that does not measure it.
    """
    wanted = options or SearchOptions()
    wanted.check(target.spec)
    heard = silent if progress is None else progress
    if known is None:
        known = () if store is None else store.records(target.spec.profile_id)
    workers = wanted.workers
    costs = GroupCosts(model, target.spec, wanted.objective, wanted.seed, known, workers)
    evaluator = CandidateEvaluator(
        target, costs, graph.name, store, heard, workers, wanted.time_limit_seconds
    )
    problem = FusionProblem(graph, costs, heard)
    return _Search(problem, evaluator, wanted).run(start)


@dataclass(frozen=True, slots=True)
class _Search:
    """One search: a network's fusion problem, its evaluator and its options."""

    problem: FusionProblem
    evaluator: CandidateEvaluator
    options: SearchOptions

    @property
    def costs(self) -> GroupCosts:
        """Costs of groups, measured or predicted."""
        return self.evaluator.costs

    @property
    def target(self) -> Target:
        """The machine."""
        return self.evaluator.target

    def run(self, start: Sequence[Partition]) -> GraphSearch:
        """Propose plans, measure the best of them, and compare."""
        problem, graph, spec = self.problem, self.problem.graph, self.target.spec
        alone = unfused(graph)
        problem.report("prepare", 0, 3)
        problem.prepare(alone.groups)
        _require_legal(problem, alone, self.target)
        problem.report("prepare", 1, 3)
        rule = greedy(graph, problem.fits)
        problem.report("prepare", 2, 3)
        choices = heuristic_choices(graph, spec)
        heuristic = _partition_of(graph, choices)
        problem.report("prepare", 3, 3)
        plans = self._propose(alone, (*start, heuristic))
        if self.options.measure:
            self.evaluator.expected = len(alone.groups) + self.options.measure
            _measure_heuristic(self.evaluator, choices)
        best = min(plans, key=problem.legal_cost)
        if self.options.measure:
            best = self._measure([alone, rule, heuristic, best])
        found = self._result(best)
        return GraphSearch(
            plan=self._plan(found),
            unfused=self._result(alone),
            greedy=self._result(rule),
            found=found,
            records=tuple(self.evaluator.records),
            trials=tuple(problem.trials),
            gap=self._gap(found, (*plans, best)),
            model=self.costs.model,
            accuracy=accuracy_of(graph),
            heuristic=measured_choices(self.evaluator, choices) if self.options.measure else None,
            bound=network_bound(graph, spec) if has_bound(spec) else None,
        )

    def _propose(self, alone: Partition, others: Sequence[Partition]) -> list[Partition]:
        """Return the unfused plan, the legal ones among ``others``, and a proposal of each strategy."""
        problem, options = self.problem, self.options
        legal = (p for p in dict.fromkeys(others) if p != alone and problem.cost(p) is not None)
        plans = [alone, *legal]
        for strategy in STRATEGIES:
            proposal = strategy.propose(problem, plans, options.trials, options.seed)
            if proposal not in plans:
                plans.append(proposal)
        return plans

    def _measure(self, plans: Sequence[Partition]) -> Partition:
        """Return the cheapest partition by measurements alone, after active measurement of ``plans``."""

        def replan(pool: Sequence[Partition]) -> Partition:
            return Climbing().propose(self.problem, pool, 0, 0)

        active = ActiveMeasurement(self.problem, self.costs, self.evaluator, replan, self._relearn)
        pool = active.run(plans, self.options.measure)
        measured = FusionProblem(self.problem.graph, self.evaluator)
        covered = [plan for plan in pool if measured.cost(plan) is not None]
        if not covered:
            failed = next(r for r in self.evaluator.records if r.outcome is not Outcome.OK)
            name = self.problem.graph.name
            raise ScheduleError(f"{name}: no plan could be measured: {failed.reason}")
        best = Climbing().propose(measured, covered, 0, 0)
        if self.target.spec.timed:  # a second time would differ too
            return best
        compared = [best, *(plan for plan in plans if plan in covered)]
        for plan in compared:
            self.evaluator.measure_exact(measured.group(names) for names in plan.groups)
        return min(compared, key=measured.legal_cost)

    def _relearn(self) -> None:
        """Retrain from all records of the machine; without a store the model stays as it is."""
        store, spec, costs = self.evaluator.store, self.target.spec, self.costs
        if store is None:
            return
        records = store.records(spec.profile_id)
        if sum(record.outcome is Outcome.OK for record in records) < MIN_RECORDS:
            return
        model = fit_model(records, spec, seed=self.options.seed)
        costs.retrain(model.with_verifier(costs.model.verifier))
        model = costs.model
        store.save_model(spec.profile_id, model.to_bytes(), model.metrics, FEATURE_VERSION)

    def _result(self, partition: Partition) -> PlanResult:
        return plan_result(self.problem, self.costs, self.evaluator, partition)

    def _plan(self, found: PlanResult) -> GraphPlan:
        graph = self.problem.graph
        return GraphPlan(
            graph.name, graph.fingerprint, tuple(group.planned() for group in found.groups)
        )

    def _gap(self, found: PlanResult, plans: Sequence[Partition]) -> float:
        """Return the found plan's cost over the least expected cost of any plan, minus one."""
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


def _measure_heuristic(evaluator: CandidateEvaluator, choices: Sequence[Choice]) -> None:
    """Measure the heuristic plan, so that the found plan is never slower."""
    heuristic = [(choice.group, choice.schedule) for choice in choices]
    predict = evaluator.costs.predict
    evaluator.measure([(group, predict(group, s)) for group, s in heuristic if s is not None])
