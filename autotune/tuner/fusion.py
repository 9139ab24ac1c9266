"""Fusion search: finds a partition and schedules with the model, then measures the best of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

from autotune.cost_model.dataset import MIN_RECORDS
from autotune.cost_model.fitting import fit_model
from autotune.cost_model.model import CostModel
from autotune.cost_model.version import FEATURE_VERSION
from autotune.errors import ScheduleError, TargetError
from autotune.fusion.carry import carry_groups
from autotune.fusion.greedy import greedy, unfused
from autotune.fusion.partition import Names, Partition
from autotune.graph.accuracy import accuracy_of
from autotune.graph.graph import Graph
from autotune.store.records import Outcome, Record
from autotune.store.store import Store
from autotune.targets.protocol import Target
from autotune.tuner.bound.bound import has_bound, network_bound
from autotune.tuner.candidate_evaluator import CandidateEvaluator
from autotune.tuner.carried import Carried
from autotune.tuner.caution import CautiousCosts
from autotune.tuner.choice import Choice
from autotune.tuner.exact.certificate import Certificate
from autotune.tuner.exact.prover import Prover
from autotune.tuner.graph_plan import GraphPlan
from autotune.tuner.heuristic_plan import heuristic_choices
from autotune.tuner.interruption import SearchInterrupted
from autotune.tuner.neighbour import machine_name, remember_machine
from autotune.tuner.options import SearchOptions
from autotune.tuner.plan_study import PlanStudy
from autotune.tuner.problem import FusionProblem, TriedPlan
from autotune.tuner.progress import Progress, silent
from autotune.tuner.rankings import Rankings
from autotune.tuner.records import in_fixed_order
from autotune.tuner.result import GraphSearch, PlanResult, measured_choices, plan_result
from autotune.tuner.schedules import GroupCosts
from autotune.tuner.strategies.strategy import Proposal, SearchState, Strategy, Wanted
from autotune.tuner.strategies.table import STRATEGIES

if TYPE_CHECKING:
    from optuna.storages import BaseStorage

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
    storage: BaseStorage | None = None,
    rankings: Rankings | None = None,
    alike: Sequence[Sequence[Names]] = (),
) -> GraphSearch:
    """Find fusion groups and schedules for ``graph`` on ``target``.

    If ``options`` allow measuring, every group of the unfused, the greedy, the heuristic and the found plan is
    measured. The found plan is never dearer by these measurements than the other three. Machines that count
    cycles measure the groups themselves, not their equivalence classes.

    With a ``store``, its measurements override predictions. New ones enter it batch by batch (an
    interrupt loses nothing), with the retrained model. ``start`` are partitions to begin from besides
    those of the strategies, and ``alike`` groups of plans whose operators have the same names. ``rankings`` are shared
    by searches of one seed, objective and machine. ``known`` are measurements in place of the store's, such as the fresh ones of a
    machine that has drifted. A machine without any in the ``store`` begins from the nearest known one's plans
    and schedules, if there is one. Raises ``ScheduleError`` when an operator has no legal schedule on the
    target, and ``InputError`` for energy on a machine that does not measure it. Ctrl-C raises
    ``SearchInterrupted`` with the result so far, once there is a plan; a target that hangs ends the measuring, and
    the result says so.
    """
    wanted = options or SearchOptions()
    wanted.check(target.spec)
    heard = silent if progress is None else progress
    is_new = False
    if known is None:
        known = () if store is None else store.records(target.spec.profile_id)
        is_new = store is not None and all(one.outcome is not Outcome.OK for one in known)
    if store is not None and wanted.measure:
        remember_machine(store, target)
    workers = wanted.workers
    costs = GroupCosts(model, target.spec, wanted.objective, wanted.seed, known, workers, rankings)
    evaluator = CandidateEvaluator(
        target, costs, graph.name, store, heard, workers, wanted.time_limit_seconds
    )
    problem = FusionProblem(graph, costs, heard)
    start = (*start, *(carry_groups(one, graph, problem.may_try) for one in alike))
    return _Search(problem, evaluator, wanted, storage, is_new).run(start)


@dataclass(frozen=True, slots=True)
class _Search:
    """One search: a network's fusion problem, its evaluator, its options, and where its study lives."""

    problem: FusionProblem
    evaluator: CandidateEvaluator
    options: SearchOptions
    storage: BaseStorage | None
    is_new: bool = False
    """True for a machine that the store has no measurement of."""

    @property
    def costs(self) -> GroupCosts:
        """Costs of groups, measured or predicted."""
        return self.evaluator.costs

    @property
    def target(self) -> Target:
        """The machine."""
        return self.evaluator.target

    def run(self, start: Sequence[Partition]) -> GraphSearch:
        """Measure what the strategy proposes; compare the plans."""
        problem, graph = self.problem, self.problem.graph
        alone = unfused(graph)
        problem.report("prepare", 0, 3)
        problem.prepare(alone.groups)
        _require_legal(problem, alone, self.target)
        problem.report("prepare", 1, 3)
        rule = greedy(graph, problem.fits)
        problem.report("prepare", 2, 3)
        choices = heuristic_choices(graph, self.target.spec)
        heuristic = _partition_of(graph, choices)
        problem.report("prepare", 3, 3)
        carried = self._carried((alone, heuristic))
        theirs = () if carried is None else carried.plans
        state = self._state(alone, heuristic, (rule, *start, *theirs))
        baselines = (alone, rule)
        history: list[TriedPlan] = []
        stop: KeyboardInterrupt | TargetError | None = None
        certificate: Certificate | None
        opening = None if carried is None else self._opening(state)
        try:
            self._try_all(state, choices, opening, baselines, history)
            if carried is not None and opening is not None:
                plans = (opening.partition, *carried.plans[:1], heuristic)
                left = self._end(state, baselines) - len(self.evaluator.records)
                self.costs.heed_neighbour(True)
                carried.measure(problem, self.evaluator, plans, left)
            self._cover(state, baselines)
            best = self._best(state, _partitions(history), (*baselines, heuristic))
            found = self._result(best)
            certificate = self._certificate(state, found, best)
            problem.report("measure", 1, 1)
        except (KeyboardInterrupt, TargetError) as reason:
            stop, tried, certificate = reason, _partitions(history), None
            found = self._found_so_far(state, choices, tried, stop)
        result = GraphSearch(
            plan=self._plan(found),
            unfused=self._result(alone),
            greedy=self._result(rule),
            found=found,
            records=tuple(self.evaluator.records),
            trials=tuple(problem.trials),
            history=tuple(history),
            certificate=certificate,
            model=self.costs.model,
            accuracy=accuracy_of(graph),
            heuristic=measured_choices(self.evaluator, choices) if self.options.measure else None,
            bound=network_bound(graph, self.target.spec) if has_bound(self.target.spec) else None,
            curves=state.study.curves(self.options.strategy),
            stopped="" if stop is None else str(stop) or "interrupted",
            began_from="" if carried is None else carried.line(problem, self.evaluator, heuristic),
        )
        if isinstance(stop, KeyboardInterrupt):
            raise SearchInterrupted(result) from None
        return result

    def _found_so_far(
        self,
        state: SearchState,
        choices: Sequence[Choice],
        tried: Sequence[Partition],
        stop: BaseException,
    ) -> PlanResult:
        """Return the cheapest plan by measurements, once the heuristic plan is among those that have them.

        Until then it is the heuristic plan: predictions alone do not show that another one is faster. Raises
        ``ScheduleError`` if every measurement failed.
        """
        records = self.evaluator.records
        if records and all(record.outcome is not Outcome.OK for record in records):
            raise self._unmeasured()
        measured, heuristic = state.measured, measured_choices(self.evaluator, choices)
        covered = [p for p in (*state.plans, *tried) if measured.cost(p) is not None]
        has_failed = any(self.evaluator.has_failed(one.group, one.schedule) for one in choices)
        if not has_failed and (not self.options.measure or state.heuristic not in covered):
            return heuristic
        if not covered:  # what the heuristic plan met may meet the others, too
            return self._result(min((*state.plans, *tried), key=self.problem.legal_cost))
        best = min(covered, key=measured.legal_cost)
        if has_failed:
            return self._result(best)
        is_best = self._is_no_dearer(measured, best, state.heuristic, stop)
        if is_best is None:
            return heuristic
        return self._result(best if is_best else state.heuristic)

    def _is_no_dearer(
        self, measured: FusionProblem, plan: Partition, other: Partition, stop: BaseException
    ) -> bool | None:
        """Return True if a plan costs no more than the other one, with every group measured itself.

        Groups of one equivalence class begin in other rows and banks, which may be all that plans differ in.
        Another Ctrl-C leaves that open: None. A target that hangs is not asked again.
        """
        if plan == other:
            return True
        if isinstance(stop, KeyboardInterrupt) and not self.target.spec.timed:
            try:
                for one in (plan, other):
                    self.evaluator.measure_exact(measured.group(names) for names in one.groups)
            except (KeyboardInterrupt, TargetError):
                return None
        return measured.legal_cost(plan) <= measured.legal_cost(other)

    def _unmeasured(self) -> ScheduleError:
        """Return the error of a search without a measured plan."""
        failed = next(r for r in self.evaluator.records if r.outcome is not Outcome.OK)
        name = self.problem.graph.name
        return ScheduleError(f"{name}: no plan could be measured: {failed.reason}")

    def _state(
        self, alone: Partition, heuristic: Partition, others: Sequence[Partition]
    ) -> SearchState:
        """Return what the strategy begins from, with the best plans of earlier searches."""
        problem, options = self.problem, self.options
        profile = self.target.spec.profile_id
        machine = machine_name(self.target.name, profile)
        study = PlanStudy.open(problem, machine, options.objective.name, self.storage)
        plans = dict.fromkeys((heuristic, *others, *study.best_partitions()))
        legal = (plan for plan in plans if plan != alone and problem.cost(plan) is not None)
        return SearchState(
            problem,
            FusionProblem(problem.graph, self.evaluator),
            self.costs,
            self.evaluator,
            study,
            (alone, *legal),
            heuristic,
            options.measure,
            options.seed,
            self._relearn,
            Prover(problem),
        )

    def _carried(self, compared: Sequence[Partition]) -> Carried | None:
        if (
            not self.is_new or not self.costs.model.is_shared
        ):  # a model of one machine prices no other
            return None
        return Carried.find(self.problem, self.evaluator, self.options, self.storage, compared)

    def _opening(self, state: SearchState) -> Proposal | None:
        """Return the plan that a neighbour's measurements let expect; None where nothing is measured."""
        if not self.options.measure:
            return None
        plan = state.prover.prove(state.plans).partition
        return Proposal(plan, state.cover(plan))

    def _end(self, state: SearchState, baselines: Sequence[Partition]) -> int:
        """Return after how many measurements only those of the ``baselines`` follow."""
        return self.options.measure - self._reserved(state, baselines)

    def _reserved(self, state: SearchState, plans: Sequence[Partition]) -> int:
        """Return how many measurements to keep for ``plans`` that are compared; 0 where that is over half of them."""
        groups = {group.key for plan in plans for group in state.groups(plan)}
        return len(groups) if 2 * len(groups) <= self.options.measure else 0

    def _cover(self, state: SearchState, plans: Sequence[Partition]) -> None:
        """Measure the expected best schedules of plans, where the measurements last: a strategy may have
        measured poor ones alone."""
        groups = {group.key: group for plan in plans for group in state.groups(plan)}
        best = ((group, self.costs.best(group, 1)) for group in groups.values())
        likely = [(group, rows[0]) for group, rows in best if rows]
        wanted = {
            group.key: (group, s)
            for group, s in likely
            if not self.evaluator.has_measured(group, s)
        }
        left = self.options.measure - len(self.evaluator.records)
        if len(wanted) <= left:
            self.evaluator.measure(wanted.values())

    def _try_all(
        self,
        state: SearchState,
        choices: Sequence[Choice],
        opening: Proposal | None,
        baselines: Sequence[Partition],
        tried: list[TriedPlan],
    ) -> None:
        """Try the proposals of the strategy until the trials or the measurements are spent; ``tried`` takes them.

        Before them the heuristic ``choices`` are measured. Measurements of the ``baselines`` are kept for the end.
        """
        options, evaluator = self.options, self.evaluator
        strategy = STRATEGIES[options.strategy]
        proposals = strategy.proposals(state)
        first = next(proposals)
        evaluator.expected = options.measure
        if options.measure:
            _measure_heuristic(evaluator, choices)
        end = self._end(state, baselines)
        tries = self._proposals(state, strategy, chain((first,), proposals), opening)
        for number, proposal in enumerate(tries):
            left = end - len(evaluator.records)
            free, paid = self._split(proposal.candidates)
            wanted = (*free, *paid[: max(0, left)])
            trial = state.study.begin(
                strategy.name, proposal.partition, proposal.decisions, len(wanted) - len(free)
            )
            if proposal.decisions is not None and state.study.is_taken(trial):
                state.study.give_up(trial)
                continue
            evaluator.measure(wanted)
            cost = (state.measured if options.measure else self.problem).cost(proposal.partition)
            state.study.end(trial, cost)
            tried.append(TriedPlan(proposal.partition, strategy.name, len(evaluator.records), cost))
            if number + 1 >= options.trials or (left <= len(paid) and options.measure):
                break

    def _proposals(
        self,
        state: SearchState,
        strategy: Strategy,
        proposals: Iterator[Proposal],
        opening: Proposal | None,
    ) -> Iterator[Proposal]:
        """Yield the ``opening``, what the strategy proposes, then the plan that a search without a neighbour begins with,
        and what the strategy makes of it.

        A neighbour may make a plan look poor that is best here. So measurements that are left doubt it.
        """
        if opening is None:
            yield from proposals
            return
        yield opening
        yield from proposals
        self.costs.heed_neighbour(False)
        yield self._alone(state)
        yield from strategy.proposals(state)

    def _alone(self, state: SearchState) -> Proposal:
        """Return the plan that the model alone expects to be best, as if nothing were measured."""
        costs = self.costs.unmeasured()
        plan = Prover(FusionProblem(self.problem.graph, costs)).prove(state.plans).partition
        best = ((group, costs.best(group, 1)) for group in state.groups(plan))
        return Proposal(plan, tuple((group, rows[0]) for group, rows in best if rows))

    def _split(self, candidates: Sequence[Wanted]) -> tuple[list[Wanted], list[Wanted]]:
        """Return candidates that earlier measurements answer for, and those that have to be measured."""
        fresh = [c for c in candidates if not self.evaluator.has_measured(*c)]
        free = [c for c in fresh if self.evaluator.recalls(*c)]
        return free, [c for c in fresh if c not in free]

    def _best(
        self, state: SearchState, tried: Sequence[Partition], baselines: Sequence[Partition]
    ) -> Partition:
        """Return the cheapest plan: by measurements alone, or by the model where nothing is measured, and then
        with novel groups at their worst."""
        if not self.options.measure:
            cautious = FusionProblem(self.problem.graph, CautiousCosts(self.costs))
            return min((*state.plans, *tried), key=cautious.legal_cost)
        measured = state.measured
        covered = [p for p in (*state.plans, *tried) if measured.cost(p) is not None]
        if not covered:
            raise self._unmeasured()
        best = Prover(measured).prove(covered).partition
        if self.target.spec.timed:  # a second time would differ too
            return best
        compared = [best, *(plan for plan in baselines if plan in covered)]
        for plan in compared:
            self.evaluator.measure_exact(measured.group(names) for names in plan.groups)
        return min(compared, key=measured.legal_cost)

    def _relearn(self) -> None:
        """Retrain from all records of the machine; without a store the model stays as it is."""
        store, spec, costs = self.evaluator.store, self.target.spec, self.costs
        if store is None:
            return
        records = in_fixed_order(store.records(spec.profile_id))
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

    def _certificate(
        self, state: SearchState, found: PlanResult, partition: Partition
    ) -> Certificate:
        """Return what is proved of the found plan, by its measured cost where it was measured."""
        measured = found.measured_cost(self.options.objective)
        certificate = state.prover.prove([partition]).certificate
        return certificate if measured is None else certificate.of(measured)


def _require_legal(problem: FusionProblem, alone: Partition, target: Target) -> None:
    for names in alone.groups:
        if problem.group_cost(names) is None:
            raise ScheduleError(
                f"{problem.graph.name}: operator {names[0]} has no legal schedule on {target.name} "
                f"({target.spec.tile_elements} elements of scratchpad); take a larger target"
            )


def _partitions(history: Sequence[TriedPlan]) -> tuple[Partition, ...]:
    """Return the plans that were tried, each once."""
    return tuple(dict.fromkeys(trial.partition for trial in history))


def _partition_of(graph: Graph, choices: Sequence[Choice]) -> Partition:
    return Partition.of(graph, [[op.name for op in choice.group.ops] for choice in choices])


def _measure_heuristic(evaluator: CandidateEvaluator, choices: Sequence[Choice]) -> None:
    """Measure the heuristic plan, so that the found plan is never slower."""
    heuristic = [(choice.group, choice.schedule) for choice in choices]
    predict = evaluator.costs.predict
    evaluator.measure([(group, predict(group, s)) for group, s in heuristic if s is not None])
