"""What a search strategy is: something that proposes plans to measure, one after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

from autotune.fusion.group import Group
from autotune.fusion.partition import Partition
from autotune.tuner.candidate_evaluator import CandidateEvaluator
from autotune.tuner.exact.prover import Prover
from autotune.tuner.plan_study import Decisions, PlanStudy
from autotune.tuner.problem import FusionProblem
from autotune.tuner.schedules import GroupCosts, ScoredSchedule

Wanted = tuple[Group, ScoredSchedule]
"""A candidate that a strategy wants measured."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """A plan to try, and the candidates to measure for it, the most wanted first.

    ``decisions`` are those of a sampler that proposed the plan.
    """

    partition: Partition
    candidates: tuple[Wanted, ...]
    decisions: Decisions | None = None


@dataclass(frozen=True, slots=True)
class SearchState:
    """What a strategy proposes from: costs by the model and by measurement, trials, plans to begin from.

    ``problem`` expects costs, measured ones where there are any; ``measured`` has no others. ``plans``
    begin with the unfused one; all are legal. ``budget`` is the number of measurements, ``seed`` of everything
    random. ``relearn`` retrains the model from all measurements. ``prover`` knows the groups that were looked at.
    """

    problem: FusionProblem
    measured: FusionProblem
    costs: GroupCosts
    evaluator: CandidateEvaluator
    study: PlanStudy
    plans: tuple[Partition, ...]
    heuristic: Partition
    budget: int
    seed: int
    relearn: Callable[[], None]
    prover: Prover

    def groups(self, partition: Partition) -> tuple[Group, ...]:
        """Return the representatives of a plan's groups, each once; views are left out."""
        alike = (self.costs.representative(self.problem.group(names)) for names in partition.groups)
        return tuple({group.key: group for group in alike if not group.is_view}.values())

    def unmeasured(self, partition: Partition) -> tuple[Group, ...]:
        """Return those of ``groups`` that have no measured cost."""
        return tuple(g for g in self.groups(partition) if self.evaluator.best(g) is None)

    def cover(self, partition: Partition) -> tuple[Wanted, ...]:
        """Return the best expected schedule of every group without a measured cost."""
        wanted = ((group, self.costs.best(group, 1)) for group in self.unmeasured(partition))
        return tuple((group, best[0]) for group, best in wanted if best)


class Strategy(Protocol):
    """Proposes plans. Equal states give equal proposals."""

    @property
    def name(self) -> str:
        """Name on the command line and in the trials."""
        ...

    def proposals(self, state: SearchState) -> Iterator[Proposal]:
        """Yield proposals. Each was measured when the next is asked for, as far as the budget went, and ``state``
        knows it. Ends when there is nothing more to try."""
        ...
