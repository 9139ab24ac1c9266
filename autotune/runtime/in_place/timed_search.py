"""A search on this machine: heuristic plan → measuring in place → contest of whole plans → result."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from autotune.cost_model.model import CostModel
from autotune.errors import StoreError
from autotune.fusion.group import Group
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
from autotune.runtime.in_place.search import Confirmed, InPlaceSearch
from autotune.runtime.in_place.whole_runs import WholeRuns
from autotune.runtime.network_roofline import network_roofline
from autotune.runtime.session.opening import open_model
from autotune.runtime.session.plan_contest import draw_inputs, keep_faster_plan, with_heuristic_plan
from autotune.runtime.variants.heuristic_schedules import HeuristicSchedules
from autotune.runtime.variants.schedules import Estimate, estimate_of, propose_schedules
from autotune.runtime.variants.variants import Names
from autotune.schedule.candidate import Candidate
from autotune.schedule.schedule import Schedule
from autotune.store.records import Record
from autotune.store.store import Store
from autotune.targets.protocol import Execution, Target
from autotune.targets.spec import HardwareSpec
from autotune.tuner.choice import Choice
from autotune.tuner.heuristic_plan import heuristic_choices
from autotune.tuner.options import SearchOptions
from autotune.tuner.problem import Trial
from autotune.tuner.progress import Progress, silent
from autotune.tuner.records import to_record
from autotune.tuner.result import GraphSearch, GroupResult, PlanResult

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
) -> GraphOutcome:
    """Find a plan in place; the heuristic plan stays unless a contest shows that the other one is faster.

    A machine that was never calibrated needs no model: an analytic estimate proposes schedules. Raises
    ``ScheduleError`` for an operator without a legal schedule, ``InputError`` for energy.
    """
    options.check(target.spec)
    model, origin = _proposer(store, target)
    heard = silent if progress is None else progress
    bounds = intervals_by_input(graph, ranges)
    search = _TimedSearch(graph, target, model, bounds, options.seed, allowance, heard, store)
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
    seed: int
    allowance: Allowance
    progress: Progress
    store: Store

    def run(self) -> tuple[GraphSearch, bool]:
        """Search; return the result, and whether Ctrl-C ended the measuring."""
        spec, rng = self.target.spec, np.random.default_rng(self.seed)
        self.progress("prepare", 0, 1)
        heuristic = heuristic_choices(self.graph, spec)
        inputs = draw_inputs(self.graph, self.ranges, self.seed)
        runs = WholeRuns(self.graph, self.target, inputs, self.allowance.build)
        run_seconds = sum(runs.run(heuristic, 2).least.values())
        self.progress("prepare", 1, 1)
        estimate = estimate_of(self.model, spec)
        keeper = TimeKeeper(self.store, self.target, self.graph.name)
        search = InPlaceSearch(
            self.graph,
            runs,
            heuristic,
            partial(self._propose, estimate, rng),
            HeuristicSchedules(spec),
            HeuristicSchedules(replace(spec, cores=1)),
            self.allowance.budget(run_seconds, time.monotonic()),
            rng,
            self.progress,
            KeptTimes.read(self.store, self.target, self.graph.name),
            keeper,
            self.allowance.limits,
        )
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

    def _settled(self, found: GraphSearch) -> GraphSearch:
        """Return the result with the plan that wins the contest."""
        return keep_faster_plan(
            found,
            self.graph,
            self.target,
            self.ranges,
            self.seed,
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
        search: InPlaceSearch,
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
            trials=_trials(search.generations, compared.measured_cycles or 0, self.target.spec),
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


def _trials(
    generations: Sequence[Sequence[Confirmed]], heuristic_cycles: int, spec: HardwareSpec
) -> tuple[Trial, ...]:
    """Return the heuristic plan and the plan of each generation, as fresh runs judged its changes."""
    cost = best = float(heuristic_cycles)
    trials = [Trial(0, "heuristic", cost, best)]
    for number, confirmed in enumerate(generations, 1):
        cost += sum(one.effect.seconds for one in confirmed if one.is_adopted) * spec.clock_hz
        best = min(best, cost)
        trials.append(Trial(number, "in place", cost, best))
    return tuple(trials)
