"""Finds the cheapest partition of a network, with proof: grow groups, choose, look closer, choose again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from autotune.fusion.partition import Partition
from autotune.tuner.exact.blocks import Solution, cheapest
from autotune.tuner.exact.certificate import Certificate
from autotune.tuner.exact.family import Family
from autotune.tuner.exact.neighbourhood import Neighbourhood
from autotune.tuner.exact.wiring import Wiring
from autotune.tuner.problem import FusionProblem

ROUNDS = 60
"""Rounds of looking closer at the groups of the cheapest partition before the search ends with a gap."""
FEW, GAP = 400, 0.01
"""With more kinds of groups than ``FEW``, the search ends once the best partition is proved to this share. On
`lstm_layer` the first round found the partition that 17 more, and 170 more close looks, proved optimal."""


WORTHWHILE = 0.01
"""A prover looks beside partitions until a look gains less than this share."""


@dataclass(frozen=True, slots=True)
class Proof:
    """The cheapest partition that is known, and what is proved of it."""

    partition: Partition
    certificate: Certificate


class Prover:
    """Proves partitions of one problem; groups that it has priced stay known to it."""

    def __init__(self, problem: FusionProblem) -> None:
        self.problem = problem
        self._wiring = Wiring(problem.graph)
        self._family = Family(problem, self._wiring)
        self._looks_beside = True

    def prove(self, start: Sequence[Partition]) -> Proof:
        """Return the cheapest partition into groups that grow from single operators, or stand in ``start``.

        ``start`` are partitions with costs, at least one. By these costs the partition is no dearer than
        any of them.
        """
        family, wiring = self._family, self._wiring
        family.refresh()
        family.grow(1 << at for at in range(len(self.problem.graph.ops)))
        family.include(wiring.members(names) for plan in start for names in plan.groups)
        found = cheapest(wiring, family.columns)
        plans = list(start)
        for _ in range(ROUNDS):
            plans += self._partition(found)
            if found.groups is None:
                break
            if self._is_near(plans, found.bound) or not self._looks_closer(found.groups):
                beside = self._beside(found.groups)
                if beside is None or beside.groups is None:
                    break
                self._looks_beside = beside.bound <= (1.0 - WORTHWHILE) * found.bound
                if self._looks_beside:
                    family.grow_on(beside.groups)
            else:
                family.regrow()
            found = cheapest(wiring, family.columns)
        return self._proof(plans, found.bound)

    def _looks_closer(self, groups: Sequence[int]) -> bool:
        """Look more closely at the groups of a partition; return False where nothing is left to look at."""
        family = self._family
        return family.deepen(map(family.kind, groups)) or self._hopes_for_more()

    def _beside(self, groups: Sequence[int]) -> Solution | None:
        """Return the cheapest partition once what lies beside one has prices; None where nothing there is priced."""
        if not (self._looks_beside and Neighbourhood(self._wiring, groups).look(self._family)):
            return None
        return cheapest(self._wiring, self._family.columns)

    def _partition(self, found: Solution) -> list[Partition]:
        """Return the partition of a solution, if it has one."""
        groups = None if found.groups is None else map(self._wiring.names, found.groups)
        return [] if groups is None else [Partition.of(self.problem.graph, list(groups))]

    def _is_near(self, plans: Sequence[Partition], bound: float) -> bool:
        """Return True where many kinds of groups are known, and a plan is within ``GAP`` of the bound."""
        if self._family.kinds <= FEW:
            return False
        return min(map(self.problem.legal_cost, plans)) <= (1.0 + GAP) * bound

    def _hopes_for_more(self) -> bool:
        """Expect more of closer looks, once, where few kinds of groups are known."""
        return self._family.kinds <= FEW and self._family.hope()

    def _proof(self, plans: Sequence[Partition], bound: float) -> Proof:
        """Return the cheapest of some plans, with what a bound proves of it."""
        best = min(reversed(plans), key=self.problem.legal_cost)
        cost = self.problem.legal_cost(best)
        self.problem.tried("exact", cost)
        certificate = Certificate(cost, min(cost, bound), self._family.groups, self._family.kinds)
        return Proof(best, certificate)
