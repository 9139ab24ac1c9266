"""Costs for choices that nothing confirms: novel groups that were not measured cost the upper end of their interval.

A search looks for the plan that is predicted cheapest, and so for the predictions that are wrong in its favour. Where
it may measure, measurements find them out; where it may not, a novel prediction has to be cheap at its worst.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from autotune.fusion.group import Group
from autotune.tuner.schedules import GroupCosts


@dataclass(frozen=True, slots=True)
class CautiousCosts:
    """Costs of groups as ``costs`` has them, novel ones at their worst; a source of costs for ``FusionProblem``."""

    costs: GroupCosts

    def legal(self, group: Group) -> bool:
        """Return True if the group can be one program on the machine."""
        return self.costs.legal(group)

    def prepare(self, groups: Iterable[Group]) -> None:
        """Prepare the costs of these groups: many at once are cheaper."""
        self.costs.prepare(groups)

    def deepen(self, groups: Iterable[Group]) -> None:
        """Look at many more schedules of these groups: their costs may fall."""
        self.costs.deepen(groups)

    def cost(self, group: Group) -> float | None:
        """Return cycles or femtojoules of the group's best schedule; None without one."""
        best = () if group.is_view else self.costs.best(group, 1)
        if not best:
            return self.costs.cost(group)
        return best[0].cost(self.costs.objective) * self.costs.caution(group, best[0])
