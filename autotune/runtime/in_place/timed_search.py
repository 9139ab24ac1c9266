"""A search on this machine: heuristic plan → measuring in place → contest of whole plans → result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from autotune.cost_model.model import CostModel
from autotune.errors import StoreError
from autotune.fusion.group import Group
from autotune.graph.accuracy import accuracy_of
from autotune.graph.graph import Graph
from autotune.graph.ranges import Ranges, intervals_by_input
from autotune.measure.measurement import Measured
from autotune.runtime.estimated_plans import EstimatedPlans
from autotune.runtime.in_place.budget import Budget
from autotune.runtime.in_place.proof import certify
from autotune.runtime.in_place.search import InPlaceSearch
from autotune.runtime.in_place.search_setup import Allowance, SearchSetup
from autotune.runtime.in_place.strategy_search import StrategySearch
from autotune.runtime.in_place.whole_runs import WholeRuns
from autotune.runtime.network_roofline import network_roofline
from autotune.runtime.session.opening import open_model
from autotune.runtime.session.plan_contest import keep_faster_plan, with_heuristic_plan
from autotune.runtime.variants.schedules import estimate_of
from autotune.runtime.variants.variants import Names
from autotune.schedule.candidate import Candidate
from autotune.schedule.schedule import Schedule
from autotune.store.records import RUN, Record
from autotune.store.store import Store
from autotune.targets.protocol import Execution, Target
from autotune.targets.spec import HardwareSpec
from autotune.tuner.choice import Choice
from autotune.tuner.contest import SECONDS
from autotune.tuner.options import SearchOptions
from autotune.tuner.problem import Curve, Trial
from autotune.tuner.progress import Progress, silent
from autotune.tuner.records import to_record
from autotune.tuner.result import GraphSearch, GroupResult, PlanResult

if TYPE_CHECKING:
    from optuna.storages import BaseStorage

COMPARED = 5
"""Turns of both plans whose times the result tells, group by group."""


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
    setup = SearchSetup(graph, target, model, bounds, options, allowance, heard, store, storage)
    found, is_interrupted = _TimedSearch(setup).run()
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
    setup: SearchSetup

    def run(self) -> tuple[GraphSearch, bool]:
        """Search; return the result, and whether Ctrl-C ended the measuring."""
        spec, begun = self.setup.target.spec, self.setup.begin()
        heuristic, runs, keeper, search = begun.heuristic, begun.runs, begun.keeper, begun.search
        estimate = estimate_of(self.setup.model, spec)
        is_interrupted = False
        try:
            search.run()
        except KeyboardInterrupt:
            is_interrupted = True
        plans = EstimatedPlans(self.setup.graph, spec, estimate)
        found = self._compared(runs, plans, heuristic, search)
        found = replace(found, records=(*keeper.records, *found.records))
        try:
            return self._certified(self._settled(found, search.budget), search), is_interrupted
        except KeyboardInterrupt:
            return with_heuristic_plan(found), True

    def _certified(self, found: GraphSearch, search: InPlaceSearch | StrategySearch) -> GraphSearch:
        """Return the result with what is proved of its plan's partition."""
        graph = self.setup.graph
        plan = [Choice(one.group, one.schedule) for one in found.found.groups]
        return replace(found, certificate=certify(graph, plan, search.ran, found.records))

    def _settled(self, found: GraphSearch, budget: Budget) -> GraphSearch:
        """Return the result with the plan that wins the contest, or that takes less memory where the heuristic plan takes
        too much."""
        heuristic, most = found.heuristic, self.setup.options.objective.most_bytes
        is_large = heuristic is not None and most is not None and heuristic.peak_bytes > most
        if is_large and heuristic and found.found.peak_bytes < heuristic.peak_bytes:
            return found
        return keep_faster_plan(
            found,
            self.setup.graph,
            self.setup.target,
            self.setup.ranges,
            self.setup.options.seed,
            self.setup.progress,
            self.setup.allowance.build,
            min(SECONDS, budget.contest_seconds),
        )

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
        for turn in range(COMPARED):
            if turn and search.budget.is_over():
                break
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
            trials=_trials_of(search, compared.measured_cycles or 0, self.setup.target.spec),
            model=self.setup.model,
            accuracy=accuracy_of(self.setup.graph),
            heuristic=compared,
            bound=network_roofline(self.setup.graph, self.setup.target.spec),
            curves=self._curves(search),
        )

    def _curves(self, search: InPlaceSearch | StrategySearch) -> Mapping[str, Curve]:
        trials = search.trials
        return {} if trials is None else trials.study.curves(trials.strategy)

    def _records(self, plans: Sequence[PlanResult]) -> tuple[Record, ...]:
        """Return what was measured in place, as sessions keep their runs; the store gets it."""
        records = {
            (item.group.key, item.schedule): self._record(item.group, item.schedule, item)
            for plan in plans
            for item in plan.groups
            if item.schedule is not None
        }
        self.setup.store.add(tuple(records.values()))
        return tuple(records.values())

    def _record(self, group: Group, schedule: Schedule, item: GroupResult) -> Record:
        execution = Execution(item.measured_cycles or 0, 0, 0, {})
        candidate = Candidate(group, schedule, self.setup.graph.name)
        return to_record(Measured(candidate, execution), self.setup.target, RUN)


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
