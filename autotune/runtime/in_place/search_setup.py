"""The making of a search on this machine: heuristic plan, whole runs, study, and the default search or a strategy's."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from autotune.cost_model.model import CostModel
from autotune.fusion.greedy import unfused
from autotune.fusion.partition import Partition
from autotune.graph.graph import Graph
from autotune.operators.interval import Interval
from autotune.runtime.builder.limits import NO_LIMITS, BuildLimits
from autotune.runtime.execution.program_table import running_order
from autotune.runtime.in_place.budget import NO_LIMITS as UNLIMITED
from autotune.runtime.in_place.budget import Budget, Limits
from autotune.runtime.in_place.kept_times import KeptTimes, TimeKeeper
from autotune.runtime.in_place.plan_evaluator import PlanEvaluator
from autotune.runtime.in_place.plan_trials import PlanTrials
from autotune.runtime.in_place.resuming import frugal_start, resumed
from autotune.runtime.in_place.search import InPlaceSearch
from autotune.runtime.in_place.strategy_search import StrategySearch
from autotune.runtime.in_place.whole_runs import WholeRuns
from autotune.runtime.session.plan_contest import draw_inputs
from autotune.runtime.variants.frugal import frugal_plans, loads_of
from autotune.runtime.variants.heuristic_schedules import HeuristicSchedules
from autotune.runtime.variants.schedules import Estimate, estimate_of, propose_schedules
from autotune.runtime.variants.variants import Groups, names_of
from autotune.schedule.schedule import Schedule
from autotune.store.store import Store
from autotune.targets.protocol import Target
from autotune.tuner.choice import Choice
from autotune.tuner.exact.prover import Prover
from autotune.tuner.heuristic_plan import heuristic_choices
from autotune.tuner.neighbour import machine_name
from autotune.tuner.options import DEFAULT_STRATEGY, SearchOptions
from autotune.tuner.plan_study import RESUMED, PlanStudy
from autotune.tuner.problem import FusionProblem
from autotune.tuner.progress import Progress
from autotune.tuner.schedules import GroupCosts
from autotune.tuner.strategies.strategy import SearchState

if TYPE_CHECKING:
    from optuna.storages import BaseStorage

LEAST_SECONDS, MOST_SECONDS = 15.0, 50.0
"""Bounds of the time of a search whose user names none."""
RUNS = 600
"""Runs of the network that such a search has time for, between the bounds."""
CONTEST_RUNS = 80
"""Runs of the network that are left to the contest, ``CONTEST_SECONDS`` at most."""
CONTEST_SECONDS = 10.0

Plan = tuple[Choice, ...]


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
        return Budget(max(1e-3, wanted - kept), start, time.monotonic, max(0.0, kept))


@dataclass(frozen=True, slots=True)
class BegunSearch:
    """A search that can run, with the plan to beat, whole runs of the network, and what keeps times."""

    heuristic: Plan
    runs: WholeRuns
    keeper: TimeKeeper
    search: InPlaceSearch | StrategySearch


@dataclass(frozen=True, slots=True)
class SearchSetup:
    """What a search of one graph on this machine needs; ``storage`` is that of the study (None: in memory)."""

    graph: Graph
    target: Target
    model: CostModel | None
    ranges: Mapping[str, Interval]
    options: SearchOptions
    allowance: Allowance
    progress: Progress
    store: Store
    storage: BaseStorage | None = None

    def begin(self) -> BegunSearch:
        """Build the heuristic plan, run it, open the study."""
        spec, seed = self.target.spec, self.options.seed
        self.progress("prepare", 0, 1)
        heuristic = heuristic_choices(self.graph, spec)
        inputs = draw_inputs(self.graph, self.ranges, seed)
        runs = WholeRuns(self.graph, self.target, inputs, self.allowance.build)
        run_seconds = sum(runs.run(heuristic, 2).least.values())
        self.progress("prepare", 1, 1)
        keeper = TimeKeeper(self.store, self.target, self.graph.name)
        is_default = self.options.strategy == DEFAULT_STRATEGY
        make = self._in_place if is_default else self._by_strategy
        return BegunSearch(heuristic, runs, keeper, make(runs, heuristic, keeper, run_seconds))

    def _in_place(
        self, runs: WholeRuns, heuristic: Plan, keeper: TimeKeeper, seconds: float
    ) -> InPlaceSearch:
        """Return the default search: variants of one plan, and of what it becomes."""
        spec, rng = self.target.spec, np.random.default_rng(self.options.seed)
        costs = GroupCosts(self.model or CostModel.typical(spec), spec, seed=self.options.seed)
        trials = self._trials(FusionProblem(self.graph, costs), seconds)
        plan, ratio = self._start(runs, heuristic, trials)
        return InPlaceSearch(
            self.graph,
            runs,
            plan,
            partial(self._propose, estimate_of(self.model, spec), rng),
            HeuristicSchedules(spec),
            HeuristicSchedules(replace(spec, cores=1)),
            self.allowance.budget(seconds, time.monotonic()),
            rng,
            self.progress,
            KeptTimes.read(self.store, self.target, self.graph.name),
            keeper,
            self.allowance.limits,
            trials,
            ratio,
            self._admission(plan),
        )

    def _start(self, runs: WholeRuns, heuristic: Plan, trials: PlanTrials) -> tuple[Plan, float]:
        """Return the plan to begin with, and its time over the heuristic plan's: the best of earlier searches, or the first
        within the bound of peak memory that merges reach."""
        groups = Groups(self.graph)
        most = self.options.objective.most_bytes
        if most is None:
            return resumed(runs, heuristic, trials.best_plans(groups, 1))
        plans = frugal_plans(groups, heuristic, HeuristicSchedules(self.target.spec))
        within = [plan for plan in plans if loads_of(plan).peak_bytes <= most]
        first = within[0] if within else plans[-1]
        return frugal_start(runs, heuristic, plans[: plans.index(first) + 1])

    def _admission(self, start: Plan) -> Callable[[Plan], bool]:
        """Return which plans are tried: all, or those within the bound of peak memory, where the first one is."""
        most = self.options.objective.most_bytes
        if most is None:
            return lambda other: True
        bound = max(most, loads_of(running_order(self.graph, start)).peak_bytes)
        return lambda other: loads_of(running_order(self.graph, other)).peak_bytes <= bound

    def _by_strategy(
        self, runs: WholeRuns, heuristic: Plan, keeper: TimeKeeper, seconds: float
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
            legal_partitions(problem, heuristic),
            partition_of(self.graph, heuristic),
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
            self.allowance.budget(seconds, time.monotonic()),
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

    def _propose(
        self, estimate: Estimate, rng: np.random.Generator, choice: Choice, count: int
    ) -> Sequence[Schedule]:
        assert choice.schedule is not None
        spec = self.target.spec
        return propose_schedules(choice.group, choice.schedule, spec, estimate, count, rng)


def partition_of(graph: Graph, plan: Sequence[Choice]) -> Partition:
    return Partition.of(graph, [names_of(choice) for choice in plan])


def legal_partitions(problem: FusionProblem, heuristic: Sequence[Choice]) -> tuple[Partition, ...]:
    """Return the unfused and the heuristic plan, as far as they have predicted costs."""
    alone = unfused(problem.graph)
    problem.prepare(alone.groups)
    plans = (alone, partition_of(problem.graph, heuristic))
    return tuple(plan for plan in dict.fromkeys(plans) if problem.cost(plan) is not None)


def _stay() -> None:
    """Keep the model as it is: a search on this CPU has no time to train one."""
