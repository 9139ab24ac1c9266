"""Finds the cheapest partition of a network, with proof: grow groups, choose, look closer, choose again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from autotune.fusion.partition import Partition
from autotune.tuner.exact.blocks import Solution, cheapest
from autotune.tuner.exact.certificate import Certificate
from autotune.tuner.exact.family import Family
from autotune.tuner.exact.wiring import Wiring
from autotune.tuner.problem import FusionProblem

HOPE = 0.9
"""Share of a price by a quick look that may remain after a deep one."""
ROUNDS = 30
"""Rounds of looking closer at the groups of the cheapest partition before the search ends with a gap."""


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
        self._family = Family(problem, self._wiring, HOPE)

    def prove(self, start: Sequence[Partition]) -> Proof:
        """Return the cheapest partition into groups that grow from single operators, or stand in ``start``.

        ``start`` are partitions with costs, at least one. By these costs the partition is no dearer than
        any of them.
        """
        family, wiring = self._family, self._wiring
        family.refresh()
        family.grow(1 << at for at in range(len(self.problem.graph.ops)))
        family.grow(wiring.members(names) for plan in start for names in plan.groups)
        found = cheapest(wiring, family.columns)
        for _ in range(ROUNDS):
            if found.groups is None or not family.deepen(map(family.kind, found.groups)):
                break
            family.regrow()
            found = cheapest(wiring, family.columns)
        return self._proof(found, start)

    def _proof(self, found: Solution, start: Sequence[Partition]) -> Proof:
        """Return the proof of a solution, or of the best start where it has a bound alone."""
        problem, plans = self.problem, list(start)
        if found.groups is not None:
            groups = [self._wiring.names(members) for members in found.groups]
            plans.insert(0, Partition.of(problem.graph, groups))
        best = min(plans, key=problem.legal_cost)
        cost = problem.legal_cost(best)
        problem.tried("exact", cost)
        bound = min(cost, found.bound)
        return Proof(best, Certificate(cost, bound, self._family.groups, self._family.kinds))
