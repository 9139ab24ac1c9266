"""Active measurement: measure where a plan can gain most, learn from it, plan again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from autotune.fusion.group import Group
from autotune.fusion.partition import Partition
from autotune.tuner.strategies.strategy import Proposal, SearchState, Wanted

SURPRISE = 1.5
"""Retrain when the error on measured schedules is this many times the model's held-out error."""
DEPTH = 6
"""Schedules of one group that one round may measure."""


@dataclass(frozen=True, slots=True)
class ActiveMeasurement:
    """Chooses what to measure for plans of one search."""

    state: SearchState

    def covering(self, plan: Partition) -> Iterator[Proposal]:
        """Propose the expected best schedule of every unmeasured group of a plan; others where they fail."""
        self.state.costs.deepen(self.state.groups(plan))
        yield Proposal(plan, self.state.cover(plan))
        for _ in range(DEPTH - 1):
            if wanted := self.state.cover(plan):
                yield Proposal(plan, wanted)

    def is_surprised(self) -> bool:
        """Return True if the model predicts these groups clearly worse than held-out ones."""
        state = self.state
        return state.evaluator.mape() > SURPRISE * state.costs.model.metrics.get("mape", 0.0)

    def wanted(self, pool: Sequence[Partition], count: int) -> tuple[Wanted, ...]:
        """Return the ``count`` unmeasured schedules that could gain most.

        The gain is the group's cost minus the least in the prediction's interval, times the group's
        occurrences in a plan. Groups without any measurement come first, novel ones at the upper end of
        their interval: what the model does not know is measured and not trusted.
        """
        times: Counter[str] = Counter()
        groups: dict[str, Group] = {}
        for plan in pool:
            here = Counter(group.key for group in self._members(plan))
            times |= here
            groups |= {group.key: group for group in self._members(plan)}
        gains: list[tuple[float, float, Wanted]] = []
        for key, group in groups.items():
            gains += self._gains(group, times[key])
        gains.sort(key=lambda entry: (-entry[0], -entry[1]))
        return tuple(wanted for _, _, wanted in gains[:count])

    def _members(self, plan: Partition) -> Iterable[Group]:
        """Return the representative of every group of a plan; equal groups as often as they occur."""
        problem, costs = self.state.problem, self.state.costs
        alike = (costs.representative(problem.group(names)) for names in plan.groups)
        return (group for group in alike if not group.is_view)

    def _gains(self, group: Group, times: int) -> list[tuple[float, float, Wanted]]:
        """Return (1 for a first measurement, gain, candidate) of a group's unmeasured schedules."""
        objective = self.state.costs.objective
        cost = self.state.evaluator.cost(group)
        unmeasured = [
            s
            for s in self.state.costs.best(group)
            if not self.state.evaluator.has_measured(group, s)
        ]
        if cost is None:
            caution = self.state.costs.caution
            return [
                (1.0, times * s.cost(objective) * caution(group, s), (group, s))
                for s in unmeasured[:1]
            ]
        likely = sorted(unmeasured, key=lambda s: s.cost(objective))[:DEPTH]
        gains = ((times * (cost - s.optimistic(objective)), s) for s in likely)
        return [(0.0, gain, (group, s)) for gain, s in gains if gain > 0]
