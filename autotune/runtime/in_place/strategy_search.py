"""A search by a strategy of the tuner: its plans run whole, in turns with the heuristic plan, and are trials of a study."""

from __future__ import annotations

import math
import statistics
from collections import defaultdict, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from autotune.errors import AutotuneError
from autotune.fusion.group import Group
from autotune.fusion.partition import Partition
from autotune.runtime.in_place.budget import NO_LIMITS, Budget, Limits
from autotune.runtime.in_place.plan_evaluator import PlanEvaluator
from autotune.runtime.in_place.plan_trials import PlanTrials
from autotune.runtime.in_place.screening import RUNS
from autotune.runtime.in_place.whole_runs import Surroundings, Timed
from autotune.runtime.variants.fusions import Scheduled
from autotune.runtime.variants.variants import Names, names_of
from autotune.schedule.schedule import Schedule
from autotune.tuner.choice import Choice
from autotune.tuner.exact.prover import Prover
from autotune.tuner.problem import Trial
from autotune.tuner.progress import Progress
from autotune.tuner.schedules import ScoredSchedule
from autotune.tuner.strategies.strategy import Proposal, SearchState, Wanted
from autotune.tuner.strategies.table import STRATEGIES

PHASE = "in place"
TURNS = 4
"""Times that a plan runs in turns with the heuristic plan, of which the median counts."""
SLOWER = 0.10
"""Logarithm of a plan's time over the best one's from which it is clearly slower in one turn; over the square root of
the turns in more. Ratios of a turn repeat within 2 to 5 %."""
COMPOSED = 16
"""Measurements after which the best groups so far run as one plan, and again each time they doubled."""
FAR = 3.0
"""A plan's time over the best one's from which one run says enough. Others run a whole turn: a group's least time of
three runs compares with that of other plans, and the fastest groups make the next plan."""
ENOUGH = 0.9
"""Share of the time after which no plan begins."""
SPARE = 3
"""Proposals in a row with nothing new to measure, after which a strategy has nothing more to say."""

Plan = tuple[Choice, ...]


@dataclass(slots=True)
class StrategySearch:
    """Runs the plans that a strategy proposes, within a budget of time.

    ``heuristic`` is the plan to beat; ``scheduled`` gives heuristic schedules. ``prunes`` stops plans that are clearly
    slower than the best one. ``plan`` is the best plan so far, at any time, and ``ratio`` its time over the heuristic plan's.
    ``history`` has the best plans, each with the measurements until then; ``told`` are all trials, ``ran`` the groups that were timed.
    """

    state: SearchState
    runs: Surroundings
    heuristic: Plan
    scheduled: Scheduled
    evaluator: PlanEvaluator
    trials: PlanTrials
    budget: Budget
    progress: Progress
    limits: Limits = NO_LIMITS
    starts: Sequence[Plan] = ()
    prunes: bool = True
    ratio: float = 1.0
    pruned: int = 0
    history: list[tuple[int, Plan]] = field(default_factory=list)
    told: list[Trial] = field(default_factory=list)
    ran: set[Names] = field(default_factory=set)
    _scored: dict[tuple[str, Schedule], ScoredSchedule] = field(default_factory=dict)
    _best: Plan | None = None
    _before: Timed | None = None
    _seconds: float = 0.0

    @property
    def plan(self) -> Plan:
        """The best plan so far."""
        return self.heuristic if self._best is None else self._best

    @property
    def tried(self) -> int:
        """Number of candidates that ran."""
        return len(self.evaluator.records)

    def run(self) -> Plan:
        """Try what the strategy proposes until time, trials or measurements are spent."""
        self.runs.is_right(self.heuristic)
        self._before = self.runs.run(self.heuristic, RUNS)
        self._seconds = _total(self._before)
        self._learn(self.heuristic, self._before, 1.0)
        self.told.append(Trial(0, "heuristic", self.trials.anchor, self.trials.anchor))
        self.history.append((0, self.heuristic))
        for plan in self.starts:
            self._try(plan, None, may_prune=True)
        self._propose()
        self._compose()
        return self.plan

    def _propose(self) -> None:
        start, idle, composed_at = self.tried, 0, COMPOSED
        for proposal in STRATEGIES[self.trials.strategy].proposals(self.state):
            before = self.tried
            for plan in self._plans(proposal, self.limits.candidates + start - before):
                self._try(plan, proposal, may_prune=True)
                if self._is_over(start):
                    return
            idle = 0 if self.tried > before else idle + 1
            if idle == SPARE:
                return
            if self.tried - start >= composed_at:
                composed_at *= 2
                self._compose()

    def _is_over(self, start: int) -> bool:
        self.progress(PHASE, round(100 * self.budget.fraction), 100)
        return (
            self.budget.is_over(ENOUGH)
            or self.tried - start >= self.limits.candidates
            or len(self.told) > self.limits.plans
        )

    def _plans(self, proposal: Proposal, limit: int) -> Iterator[Plan]:
        """Give plans of a proposal's groups until all its candidates ran, ``limit`` at most; groups without one run by
        the best schedule so far."""
        waiting: dict[str, deque[ScoredSchedule]] = defaultdict(deque)
        for group, scored in self.evaluator.fresh(proposal.candidates)[: max(0, limit)]:
            waiting[group.key].append(scored)
        is_first = True
        while is_first or any(waiting.values()):
            left = sum(map(len, waiting.values()))
            plan = self._planned(proposal.partition, waiting)
            if plan is None or (not is_first and left == sum(map(len, waiting.values()))):
                return
            yield plan
            is_first = False

    def _planned(
        self, partition: Partition, waiting: dict[str, deque[ScoredSchedule]]
    ) -> Plan | None:
        """Return a plan of the partition that takes one waiting candidate for each group; None if one has no schedule."""
        plan = []
        for names in partition.groups:
            group = self.state.problem.group(names)
            queue = waiting[self._alike(group).key]
            if group.is_view:
                plan.append(Choice(group, None))
                continue
            known = self.evaluator.best(group)
            schedule = queue.popleft().schedule if queue else None
            schedule = schedule or (known.schedule if known else self.scheduled(group))
            if schedule is None:
                return None
            plan.append(Choice(group, schedule))
        return tuple(plan)

    def _alike(self, group: Group) -> Group:
        return self.state.costs.representative(group)

    def _try(self, plan: Plan, proposal: Proposal | None, *, may_prune: bool) -> None:
        """Run a plan in turns; enter its trial."""
        fresh = self.evaluator.fresh(self._candidates(plan))
        decisions = None if proposal is None else proposal.decisions
        trial, number = self.trials.begin(plan, decisions, len(fresh))
        if decisions is not None and self.trials.study.is_taken(trial):
            self.trials.study.give_up(trial)
            return
        try:
            ratios = self._ratios(plan, may_prune=may_prune and self.prunes)
            is_pruned = len(ratios) < TURNS
            is_right = is_pruned or self.runs.is_right(plan)
        except AutotuneError as error:
            self.trials.fail(trial, str(error))
            self.evaluator.fail(fresh, str(error))
            return
        if not is_right:
            reason = "its outputs differ from the heuristic plan's"
            self.trials.fail(trial, reason)
            self.evaluator.fail(fresh, reason)
            return
        value = self.trials.end(trial, ratios, is_pruned=is_pruned)
        self.pruned += is_pruned
        ratio = statistics.median(ratios)
        if not is_pruned and ratio < self.ratio:
            self.ratio, self._best = ratio, plan
            self.history.append((self.tried, plan))
        best = min(value, self.told[-1].best)
        self.told.append(Trial(number, self.trials.strategy, value, best))

    def _ratios(self, plan: Plan, *, may_prune: bool) -> list[float]:
        """Return the plan's time over the heuristic plan's, turn by turn; fewer than ``TURNS`` if it is clearly slower."""
        ratios: list[float] = []
        seen: list[tuple[Timed, float]] = []
        if may_prune and self._before is not None:
            once, base = self.runs.run(plan, 1), _total(self._before)
            if _total(once) > FAR * self.ratio * base:
                self._learn_turns(plan, [(once, self._seconds / base)])
                return [_total(once) / base]
        while len(ratios) < TURNS:
            before = self._before or self.runs.run(self.heuristic, RUNS)
            timed = self.runs.run(plan, RUNS)
            after = self._before = self.runs.run(self.heuristic, RUNS)
            base = math.sqrt(_total(before) * _total(after))
            ratios.append(_total(timed) / base)
            seen.append((timed, self._seconds / base))
            if may_prune and len(ratios) < TURNS and self._is_slower(ratios):
                break
        self._learn_turns(plan, seen)
        return ratios

    def _is_slower(self, ratios: Sequence[float]) -> bool:
        """Return True for a plan that is clearly slower than the best one."""
        above = math.log(statistics.median(ratios) / self.ratio)
        return above > SLOWER / math.sqrt(len(ratios))

    def _learn_turns(self, plan: Plan, seen: Sequence[tuple[Timed, float]]) -> None:
        """Take in the median seconds of each group over some turns, as if the machine had kept its first speed."""
        seconds: dict[str, list[float]] = defaultdict(list)
        self.ran.update(map(names_of, plan))
        for choice in plan:
            if choice.schedule is not None:
                key = self._alike(choice.group).key
                seconds[key] += [t.least[names_of(choice)] * factor for t, factor in seen]
        self.evaluator.observe(
            self._candidates(plan), {key: statistics.median(x) for key, x in seconds.items()}
        )

    def _learn(self, plan: Plan, timed: Timed, factor: float) -> None:
        self._learn_turns(plan, [(timed, factor)])

    def _candidates(self, plan: Plan) -> list[Wanted]:
        """Return the groups of a plan with their predicted schedules."""
        return [
            (self._alike(choice.group), self._predicted(choice.group, choice.schedule))
            for choice in plan
            if choice.schedule is not None
        ]

    def _predicted(self, group: Group, schedule: Schedule) -> ScoredSchedule:
        key = self._alike(group).key, schedule
        if key not in self._scored:
            self._scored[key] = self.state.costs.predict(group, schedule)
        return self._scored[key]

    def _compose(self) -> None:
        """Run the cheapest plan by the times of its groups, whatever plans they ran in."""
        measured = self.state.measured
        covered = [p for p in self.state.plans if measured.cost(p) is not None]
        if not covered:
            return
        partition = Prover(measured).prove(covered).partition
        plan = self._planned(partition, defaultdict(deque))
        if plan is not None and plan not in {self.heuristic, self.plan}:
            self._try(plan, None, may_prune=True)


def _total(timed: Timed) -> float:
    return sum(timed.least.values())
