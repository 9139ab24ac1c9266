"""The fusion problem of one network on one machine: strategies read costs here and report trials."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from autotune.fusion.edges import FusionChoice, choices
from autotune.fusion.greedy import LARGEST
from autotune.fusion.group import Group
from autotune.fusion.partition import Names, Partition
from autotune.graph.graph import Graph
from autotune.tuner.progress import Progress, silent

Curve = tuple[tuple[int, float], ...]
"""Measurements of a strategy and the least cost of its plans after them, at every fall and at the end."""


class Pricing(Protocol):
    """Source of costs of groups: ``GroupCosts`` expects, ``CandidateEvaluator`` measures."""

    def legal(self, group: Group) -> bool:
        """Return True if the group can be one program on the machine."""
        ...

    def prepare(self, groups: Iterable[Group]) -> None:
        """Prepare the costs of these groups: many at once are cheaper."""
        ...

    def deepen(self, groups: Iterable[Group]) -> None:
        """Look at many more schedules of these groups: their costs may fall."""
        ...

    def cost(self, group: Group) -> float | None:
        """Return cycles or femtojoules of the group's best schedule; None without one."""
        ...


@dataclass(frozen=True, slots=True)
class Trial:
    """One partition that was tried: its number, who proposed it, its expected cost in cycles or
    femtojoules, and the least cost up to this trial."""

    number: int
    strategy: str
    cost: float
    best: float


@dataclass(frozen=True, slots=True)
class TriedPlan:
    """A plan that a strategy proposed, with its cost after so many ``measurements`` of the search: as measured,
    None where a group has none; as predicted where nothing is measured."""

    partition: Partition
    strategy: str
    measurements: int
    cost: float | None


class FusionProblem:
    """Costs of groups and partitions of ``graph`` by ``costs``, and the history of trials."""

    def __init__(self, graph: Graph, costs: Pricing, progress: Progress = silent) -> None:
        self.graph = graph
        self.costs = costs
        self.progress = progress
        self.choices: tuple[FusionChoice, ...] = choices(graph)
        self.position = {op.name: i for i, op in enumerate(graph.ops)}
        self.trials: list[Trial] = []
        self._groups: dict[Names, Group] = {}

    def group(self, names: Names) -> Group:
        """Return the fusion group of the named operators."""
        if names not in self._groups:
            self._groups[names] = Group.from_graph(self.graph, names)
        return self._groups[names]

    def fits(self, names: Names) -> bool:
        """Return True if the operators can be one program on the machine."""
        return self.costs.legal(self.group(names))

    def may_try(self, names: Names) -> bool:
        """Return True if the operators fit and are at most ``LARGEST``."""
        return len(names) <= LARGEST and self.fits(names)

    def prepare(self, groups: Iterable[Names]) -> None:
        """Prepare the costs of groups, all at once."""
        self.costs.prepare(self.group(names) for names in groups)

    def deepen(self, groups: Iterable[Names]) -> None:
        """Price groups as closely as those of a plan, all at once."""
        self.costs.deepen(self.group(names) for names in groups)

    def group_cost(self, names: Names) -> float | None:
        """Return the expected cost of the operators as one group; None when no schedule is legal."""
        return self.costs.cost(self.group(names))

    def cost(self, partition: Partition) -> float | None:
        """Return the expected cost of one run, group after group; None when a group is not legal."""
        return self.total(partition.groups)

    def legal_cost(self, partition: Partition) -> float:
        """Return the cost of a legal partition; strategies propose no other."""
        cost = self.cost(partition)
        assert cost is not None, f"a group of {partition.groups} is not legal"
        return cost

    def total(self, groups: Sequence[Names]) -> float | None:
        """Return the expected cost of groups together; None when one is not legal."""
        total = 0.0
        for names in groups:
            cost = self.group_cost(names)
            if cost is None:
                return None
            total += cost
        return total

    def report(self, phase: str, done: int, total: int) -> None:
        """Report progress, with the cost of the best partition that was tried so far."""
        self.progress(phase, done, total, self.trials[-1].best if self.trials else None)

    def tried(self, strategy: str, cost: float) -> None:
        """Enter a trial into the history."""
        best = min(cost, self.trials[-1].best) if self.trials else cost
        self.trials.append(Trial(len(self.trials), strategy, cost, best))
