"""A search on this machine: heuristic plan → measuring in place → contest of whole plans → result."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from autotune.cost_model.model import CostModel
from autotune.errors import StoreError
from autotune.fusion.greedy import unfused
from autotune.fusion.group import Group
from autotune.fusion.partition import Partition
from autotune.graph.accuracy import accuracy_of
from autotune.graph.graph import Graph
from autotune.graph.ranges import Ranges, intervals_by_input
from autotune.measure.measurement import Measured
from autotune.operators.interval import Interval
from autotune.runtime.builder.limits import NO_LIMITS, BuildLimits
from autotune.runtime.estimated_plans import EstimatedPlans
from autotune.runtime.in_place.budget import NO_LIMITS as UNLIMITED
from autotune.runtime.in_place.budget import Budget, Limits
from autotune.runtime.in_place.kept_times import KeptTimes, TimeKeeper
from autotune.runtime.in_place.plan_evaluator import PlanEvaluator
from autotune.runtime.in_place.plan_trials import PlanTrials
from autotune.runtime.in_place.resuming import resumed
from autotune.runtime.in_place.search import InPlaceSearch
from autotune.runtime.in_place.strategy_search import StrategySearch
from autotune.runtime.in_place.whole_runs import WholeRuns
from autotune.runtime.network_roofline import network_roofline
from autotune.runtime.session.opening import open_model
from autotune.runtime.session.plan_contest import draw_inputs, keep_faster_plan, with_heuristic_plan
from autotune.runtime.variants.heuristic_schedules import HeuristicSchedules
from autotune.runtime.variants.schedules import Estimate, estimate_of, propose_schedules
from autotune.runtime.variants.variants import Groups, Names, names_of
from autotune.schedule.candidate import Candidate
from autotune.schedule.schedule import Schedule
from autotune.store.records import Record
from autotune.store.store import Store
from autotune.targets.protocol import Execution, Target
from autotune.targets.spec import HardwareSpec
from autotune.tuner.choice import Choice
from autotune.tuner.exact.prover import Prover
from autotune.tuner.heuristic_plan import heuristic_choices
from autotune.tuner.neighbour import machine_name
from autotune.tuner.options import DEFAULT_STRATEGY, SearchOptions
from autotune.tuner.plan_study import RESUMED, PlanStudy
from autotune.tuner.problem import FusionProblem, Trial
from autotune.tuner.progress import Progress, silent
from autotune.tuner.records import to_record
from autotune.tuner.result import GraphSearch, GroupResult, PlanResult
from autotune.tuner.schedules import GroupCosts
from autotune.tuner.strategies.strategy import SearchState

if TYPE_CHECKING:
    from optuna.storages import BaseStorage

Plan = tuple[Choice, ...]

LEAST_SECONDS, MOST_SECONDS = 15.0, 50.0
"""Bounds of the time of a search whose user names none."""
RUNS = 600
"""Runs of the network that such a search has time for, between the bounds."""
CONTEST_RUNS = 80
"""Runs of the network that are left to the contest, ``CONTEST_SECONDS`` at most."""
CONTEST_SECONDS = 10.0
COMPARED = 5
"""Turns of both plans whose times the result tells, group by group."""


@dataclass(frozen=True, slots=True)
class Allowance:
    """Time of a search over several graphs: ``seconds`` from ``start_seconds`` on by ``time.monotonic`` (None: by each
    graph's own time), shared by the ``graphs`` that are left. Plans are built within ``build``; each graph has the
    ``limits`` of its own."""

    start_seconds: float
    seconds: float | None
    graphs: int = 1
    build: BuildLimits = NO_LIMITS
    limits: Limits = UNLIMITED

    def budget(self, run_seconds: float, now_seconds: float) -> Budget:
        """Return the time of the next graph, whose run takes ``run_seconds``, without that of its contest."""
        if self.seconds is None:
            start = self.start_seconds if self.graphs == 1 else now_seconds
            wanted = min(MOST_SECONDS, max(LEAST_SECONDS, RUNS * run_seconds))
        else:
            start = now_seconds
            wanted = (self.start_seconds + self.seconds - now_seconds) / self.graphs
        kept = min(CONTEST_SECONDS, CONTEST_RUNS * run_seconds, 0.5 * wanted)
        return Budget(max(1e-3, wanted - kept), start, time.monotonic)


@dataclass(frozen=True, slots=True)
class GraphOutcome:
    """A search with one line about its source of proposals; ``is_interrupted`` if Ctrl-C ended the measuring."""

    search: GraphSearch
    origin: str
    is_interrupted: bool


def timed_search(
    graph: Graph,
    target: Target,
    store: Store,
    ranges: Ranges,
    options: SearchOptions,
    allowance: Allowance,
    progress: Progress | None = None,
    storage: BaseStorage | None = None,
) -> GraphOutcome:
    """Find a plan in place; the heuristic plan stays unless a contest shows that the other one is faster.

    What was tried is a study in ``storage`` (None: in memory), from whose best plan the search goes on.
    A machine that was never calibrated needs no model: an analytic estimate proposes schedules. Raises
    ``ScheduleError`` for an operator without a legal schedule, ``InputError`` for energy.
    """
    options.check(target.spec)
    model, origin = _proposer(store, target)
    heard = silent if progress is None else progress
    bounds = intervals_by_input(graph, ranges)
    search = _TimedSearch(graph, target, model, bounds, options, allowance, heard, store, storage)
    found, is_interrupted = search.run()
    return GraphOutcome(found, origin, is_interrupted)


def _proposer(store: Store, target: Target) -> tuple[CostModel | None, str]:
    """Return the calibrated model and what it says of itself; None without any."""
    try:
        answer = open_model(store, target)
    except StoreError:
        return None, (
            f"{target.name}: schedules proposed by an analytic estimate and measured in place; "
            f"'autotune calibrate --target {target.name}' makes a model that predicts them"
        )
    return answer.model, answer.line


@dataclass(frozen=True, slots=True)
class _TimedSearch:
    graph: Graph
    target: Target
    model: CostModel | None
    ranges: Mapping[str, Interval]
    options: SearchOptions
    allowance: Allowance
    progress: Progress
    store: Store
    storage: BaseStorage | None

    def run(self) -> tuple[GraphSearch, bool]:
        """Search; return the result, and whether Ctrl-C ended the measuring."""
        spec, seed = self.target.spec, self.options.seed
        self.progress("prepare", 0, 1)
        heuristic = heuristic_choices(self.graph, spec)
        inputs = draw_inputs(self.graph, self.ranges, seed)
        runs = WholeRuns(self.graph, self.target, inputs, self.allowance.build)
        run_seconds = sum(runs.run(heuristic, 2).least.values())
        self.progress("prepare", 1, 1)
        estimate = estimate_of(self.model, spec)
        keeper = TimeKeeper(self.store, self.target, self.graph.name)
        budget = self.allowance.budget(run_seconds, time.monotonic())
        is_default = self.options.strategy == DEFAULT_STRATEGY
        make = self._in_place if is_default else self._by_strategy
        search = make(runs, heuristic, keeper, budget, run_seconds)
        is_interrupted = False
        try:
            search.run()
        except KeyboardInterrupt:
            is_interrupted = True
        plans = EstimatedPlans(self.graph, spec, estimate)
        found = self._compared(runs, plans, heuristic, search)
        found = replace(found, records=(*keeper.records, *found.records))
        try:
            return self._settled(found), is_interrupted
        except KeyboardInterrupt:
            return with_heuristic_plan(found), True

    def _in_place(
        self, runs: WholeRuns, heuristic: Plan, keeper: TimeKeeper, budget: Budget, seconds: float
    ) -> InPlaceSearch:
        """Return the default search: variants of one plan, and of what it becomes."""
        spec, rng = self.target.spec, np.random.default_rng(self.options.seed)
        costs = GroupCosts(self.model or CostModel.typical(spec), spec, seed=self.options.seed)
        trials = self._trials(FusionProblem(self.graph, costs), seconds)
        plan, ratio = resumed(runs, heuristic, trials.best_plans(Groups(self.graph), 1))
        return InPlaceSearch(
            self.graph,
            runs,
            plan,
            partial(self._propose, estimate_of(self.model, spec), rng),
            HeuristicSchedules(spec),
            HeuristicSchedules(replace(spec, cores=1)),
            budget,
            rng,
            self.progress,
            KeptTimes.read(self.store, self.target, self.graph.name),
            keeper,
            self.allowance.limits,
            trials,
            ratio,
        )

    def _by_strategy(
        self, runs: WholeRuns, heuristic: Plan, keeper: TimeKeeper, budget: Budget, seconds: float
    ) -> StrategySearch:
        """Return a search that runs the plans of a strategy of the tuner."""
        spec, options = self.target.spec, self.options
        costs = GroupCosts(self.model or CostModel.typical(spec), spec, seed=options.seed)
        problem = FusionProblem(self.graph, costs)
        evaluator = PlanEvaluator(self.target, costs, self.graph.name, keeper)
        trials = self._trials(problem, seconds)
        state = SearchState(
            problem,
            FusionProblem(self.graph, evaluator),
            costs,
            evaluator,
            trials.study,
            _legal(problem, heuristic),
            _partition(self.graph, heuristic),
            options.measure,
            options.seed,
            _stay,
            Prover(problem),
        )
        return StrategySearch(
            state,
            runs,
            heuristic,
            HeuristicSchedules(spec),
            evaluator,
            trials,
            budget,
            self.progress,
            self.allowance.limits,
            trials.best_plans(Groups(self.graph), RESUMED),
        )

    def _trials(self, problem: FusionProblem, run_seconds: float) -> PlanTrials:
        """Open the study of the network on this machine."""
        spec, options = self.target.spec, self.options
        machine = machine_name(self.target.name, spec.profile_id)
        study = PlanStudy.open(problem, machine, options.objective.name, self.storage)
        return PlanTrials.open(study, options.strategy, run_seconds * spec.clock_hz)

    def _settled(self, found: GraphSearch) -> GraphSearch:
        """Return the result with the plan that wins the contest."""
        return keep_faster_plan(
            found,
            self.graph,
            self.target,
            self.ranges,
            self.options.seed,
            self.progress,
            self.allowance.build,
        )

    def _propose(
        self, estimate: Estimate, rng: np.random.Generator, choice: Choice, count: int
    ) -> Sequence[Schedule]:
        assert choice.schedule is not None
        spec = self.target.spec
        return propose_schedules(choice.group, choice.schedule, spec, estimate, count, rng)

    def _compared(
        self,
        runs: WholeRuns,
        plans: EstimatedPlans,
        heuristic: Sequence[Choice],
        search: InPlaceSearch | StrategySearch,
    ) -> GraphSearch:
        """Return the result before the contest, with the times of both plans' groups in turns."""
        times: dict[str, list[Mapping[Names, float]]] = {"heuristic": [], "found": []}
        if search.plan == tuple(heuristic):
            times["found"] = times["heuristic"]
        for _ in range(COMPARED):
            times["heuristic"].append(runs.run(heuristic, 1).least)
            times["found"].append(runs.run(search.plan, 1).least)
        result = plans.result(search.plan, times["found"])
        compared = plans.result(heuristic, times["heuristic"])
        return GraphSearch(
            plan=plans.plan(result),
            unfused=plans.unfused,
            greedy=plans.greedy,
            found=result,
            records=self._records((result, compared)),
            trials=_trials_of(search, compared.measured_cycles or 0, self.target.spec),
            model=self.model,
            accuracy=accuracy_of(self.graph),
            heuristic=compared,
            bound=network_roofline(self.graph, self.target.spec),
        )

    def _records(self, plans: Sequence[PlanResult]) -> tuple[Record, ...]:
        """Return what was measured in place, as sessions keep their runs; the store gets it."""
        records = {
            (item.group.key, item.schedule): self._record(item.group, item.schedule, item)
            for plan in plans
            for item in plan.groups
            if item.schedule is not None
        }
        self.store.add(tuple(records.values()))
        return tuple(records.values())

    def _record(self, group: Group, schedule: Schedule, item: GroupResult) -> Record:
        execution = Execution(item.measured_cycles or 0, 0, 0, {})
        candidate = Candidate(group, schedule, self.graph.name)
        return to_record(Measured(candidate, execution), self.target, "run")


def _partition(graph: Graph, plan: Sequence[Choice]) -> Partition:
    return Partition.of(graph, [names_of(choice) for choice in plan])


def _legal(problem: FusionProblem, heuristic: Sequence[Choice]) -> tuple[Partition, ...]:
    """Return the unfused and the heuristic plan, as far as they have predicted costs."""
    alone = unfused(problem.graph)
    problem.prepare(alone.groups)
    plans = (alone, _partition(problem.graph, heuristic))
    return tuple(plan for plan in dict.fromkeys(plans) if problem.cost(plan) is not None)


def _stay() -> None:
    """Keep the model as it is: a search on this CPU has no time to train one."""


def _trials_of(
    search: InPlaceSearch | StrategySearch, heuristic_cycles: int, spec: HardwareSpec
) -> tuple[Trial, ...]:
    """Return the heuristic plan and the plan of each generation, as fresh runs judged its changes; of a strategy, the
    plans that it proposed."""
    if isinstance(search, StrategySearch):
        return tuple(search.told)
    cost = best = float(heuristic_cycles)
    trials = [Trial(0, "heuristic", cost, best)]
    for number, confirmed in enumerate(search.generations, 1):
        cost += sum(one.effect.seconds for one in confirmed if one.is_adopted) * spec.clock_hz
        best = min(best, cost)
        trials.append(Trial(number, "in place", cost, best))
    return tuple(trials)
