"""Active measurement: measure where a plan can gain most, learn from it, plan again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from autotune.fusion.group import Group
from autotune.fusion.partition import Partition
from autotune.tuner.candidate_evaluator import CandidateEvaluator
from autotune.tuner.problem import FusionProblem
from autotune.tuner.schedules import GroupCosts, ScoredSchedule

ROUNDS = 4
"""Rounds of measurements; each ends with a new plan."""
RELEARN = 2
"""Round before which the model may be retrained, once, since it takes seconds.

Otherwise each group's own measurements correct its predictions."""
SURPRISE = 1.5
"""Retrain when the error on measured schedules is this many times the model's held-out error."""
DEPTH = 6
"""Schedules of one group that one round may measure."""

Wanted = tuple[Group, ScoredSchedule]


@dataclass(frozen=True, slots=True)
class ActiveMeasurement:
    """Spends a budget of measurements on the plans of one problem.

    ``replan`` returns the best partition by the current costs, ``relearn`` retrains the model.
    """

    problem: FusionProblem
    costs: GroupCosts
    evaluator: CandidateEvaluator
    replan: Callable[[Sequence[Partition]], Partition]
    relearn: Callable[[], None]

    def run(self, plans: Sequence[Partition], budget: int) -> tuple[Partition, ...]:
        """Measure ``plans`` and the plans found meanwhile; return all, with every group measured.

        The first measurement of every group does not count; ``budget`` bounds further ones.
        """
        pool = list(dict.fromkeys(plans))
        self.costs.deepen(group for plan in pool for group in self._groups(plan))
        distinct = {group.key for plan in pool for group in self._groups(plan)}
        self.evaluator.expected = len(distinct) + budget
        for plan in pool:
            self._cover(plan)
        left = budget
        for number in range(ROUNDS):
            if number == RELEARN and self._surprised():
                self.relearn()
            proposal = self.replan(pool)
            if proposal not in pool:
                pool.append(proposal)
            self.costs.deepen(self._groups(proposal))
            wanted = self._wanted(pool, -(-budget // ROUNDS) if number < ROUNDS - 1 else left)
            wanted = wanted[:left]
            if not wanted:
                break
            self.evaluator.measure(wanted)
            left -= len(wanted)
        for plan in pool:
            self._cover(plan)
        return tuple(pool)

    def _surprised(self) -> bool:
        """Return True if the model predicts these groups clearly worse than held-out ones."""
        return self.evaluator.mape() > SURPRISE * self.costs.model.metrics.get("mape", 0.0)

    def _cover(self, plan: Partition) -> None:
        """Measure the expected best schedule of every unmeasured group.

        Another follows where one fails.
        """
        self.costs.deepen(self._groups(plan))
        for _ in range(DEPTH):
            missing = {
                group.key: (group, self.costs.best(group, 1)[0])
                for group in self._groups(plan)
                if self.evaluator.best(group) is None and self.costs.best(group, 1)
            }
            if not missing:
                return
            self.evaluator.measure(tuple(missing.values()))

    def _groups(self, plan: Partition) -> Iterable[Group]:
        groups = (self.costs.representative(self.problem.group(names)) for names in plan.groups)
        return (group for group in groups if not group.is_view)

    def _wanted(self, pool: Sequence[Partition], count: int) -> list[Wanted]:
        """Return the ``count`` unmeasured schedules that could gain most.

        The gain is the group's cost minus the least in the prediction's interval, times the group's
        occurrences in a plan. Groups without any measurement come first.
        """
        times: Counter[str] = Counter()
        groups: dict[str, Group] = {}
        for plan in pool:
            here = Counter(group.key for group in self._groups(plan))
            times |= here
            groups |= {group.key: group for group in self._groups(plan)}
        gains: list[tuple[float, float, Wanted]] = []
        for key, group in groups.items():
            gains += self._gains(group, times[key])
        gains.sort(key=lambda entry: (-entry[0], -entry[1]))
        return [wanted for _, _, wanted in gains[:count]]

    def _gains(self, group: Group, times: int) -> list[tuple[float, float, Wanted]]:
        """Return (1 for a first measurement, gain, candidate) of a group's unmeasured schedules."""
        objective = self.costs.objective
        cost = self.evaluator.cost(group)
        unmeasured = [
            s for s in self.costs.best(group) if not self.evaluator.has_measured(group, s)
        ]
        if cost is None:
            return [(1.0, times * s.cost(objective), (group, s)) for s in unmeasured[:1]]
        likely = sorted(unmeasured, key=lambda s: s.cost(objective))[:DEPTH]
        gains = ((times * (cost - s.optimistic(objective)), s) for s in likely)
        return [(0.0, gain, (group, s)) for gain, s in gains if gain > 0]
