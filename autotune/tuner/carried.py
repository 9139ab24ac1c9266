"""Plans carried over from the nearest known machine, measured first on a machine that is new."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, zip_longest
from typing import TYPE_CHECKING

from autotune.fusion.group import Group
from autotune.fusion.partition import Partition
from autotune.tuner.candidate_evaluator import CandidateEvaluator
from autotune.tuner.neighbour import Neighbour, nearest_machine
from autotune.tuner.options import SearchOptions
from autotune.tuner.plan_study import PlanStudy
from autotune.tuner.problem import FusionProblem
from autotune.tuner.transfer import Transfer

if TYPE_CHECKING:
    from optuna.storages import BaseStorage

MEASURED = 2
"""Schedules of each group that are measured first."""


@dataclass(frozen=True, slots=True)
class Carried:
    """A neighbour of a machine without measurements, the best plans that it had for the network, and what its
    measurements say."""

    neighbour: Neighbour
    plans: tuple[Partition, ...]
    transfer: Transfer

    @classmethod
    def find(
        cls,
        problem: FusionProblem,
        evaluator: CandidateEvaluator,
        options: SearchOptions,
        storage: BaseStorage | None,
        compared: Sequence[Partition],
    ) -> Carried | None:
        """Return what a neighbour has for the groups of the ``compared`` plans; None without one."""
        store, spec = evaluator.store, evaluator.target.spec
        if store is None:
            return None
        groups = (group for plan in compared for group in _groups(problem, plan))
        keys = {evaluator.costs.representative(group).key for group in groups}
        neighbour = nearest_machine(store, spec, options.objective, keys)
        if neighbour is None:
            return None
        objective = options.objective.name
        plans = PlanStudy.best_known(problem, neighbour.machine, objective, storage)
        records = store.records(neighbour.profile_id)
        return cls(neighbour, plans, evaluator.costs.carry(records, neighbour.spec))

    def measure(
        self,
        problem: FusionProblem,
        evaluator: CandidateEvaluator,
        plans: Sequence[Partition],
        limit: int,
    ) -> None:
        """Measure the groups of some plans, at most ``limit`` candidates.

        Of each group the schedules count that are expected to be best: carried ones, repaired ones, or others.
        """
        groups = {g.key: g for plan in plans for g in _groups(problem, plan)}
        best = evaluator.costs.best
        rows = [[(group, one) for one in best(group, MEASURED)] for group in groups.values()]
        turns = chain.from_iterable(zip_longest(*rows))
        evaluator.measure(list(filter(None, turns))[: max(0, limit)])

    def line(self, problem: FusionProblem, evaluator: CandidateEvaluator, other: Partition) -> str:
        """Say where the search began, and how many schedules of the neighbour's plan fit, or of the ``other`` one."""
        near, groups = self.neighbour, tuple(_groups(problem, (*self.plans, other)[0]))
        alike = {g.key: evaluator.costs.representative(g) for g in groups}
        fitting = sum(self.transfer.hints(group).fits for group in alike.values())
        return (
            f"{evaluator.target.name} was never measured: the search began from {near.name} at distance "
            f"{near.distance:.2f}, of whose schedules {fitting} of {len(alike)} fit"
        )


def _groups(problem: FusionProblem, plan: Partition) -> Iterator[Group]:
    groups = (problem.group(names) for names in plan.groups)
    return (group for group in groups if not group.is_view)
