"""Plans carried over from the nearest known machine, measured first on a machine that is new."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from autotune.fusion.group import Group
from autotune.fusion.partition import Partition
from autotune.tuner.candidate_evaluator import CandidateEvaluator
from autotune.tuner.neighbour import Neighbour, nearest_machine
from autotune.tuner.options import SearchOptions
from autotune.tuner.plan_study import PlanStudy
from autotune.tuner.problem import FusionProblem

if TYPE_CHECKING:
    from optuna.storages import BaseStorage


@dataclass(frozen=True, slots=True)
class Carried:
    """A neighbour of a machine without measurements, and the best plans that it had for the network."""

    neighbour: Neighbour
    plans: tuple[Partition, ...]

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
        if store is None or not options.measure:
            return None
        groups = (group for plan in compared for group in _groups(problem, plan))
        keys = {evaluator.costs.representative(group).key for group in groups}
        neighbour = nearest_machine(store, spec, options.objective, keys)
        if neighbour is None:
            return None
        objective = options.objective.name
        return cls(neighbour, PlanStudy.best_known(problem, neighbour.machine, objective, storage))

    def measure(
        self,
        problem: FusionProblem,
        evaluator: CandidateEvaluator,
        heuristic: Partition,
        limit: int,
    ) -> str:
        """Measure the neighbour's best plan, at most ``limit`` candidates; return what was done in one line.

        Without a plan the schedules are tried on the ``heuristic`` one. A group whose schedule does not fit
        the machine gets the one that is expected to be best.
        """
        costs, spec, near = evaluator.costs, evaluator.target.spec, self.neighbour
        groups = {g.key: g for g in _groups(problem, (*self.plans, heuristic)[0])}
        fitting = {
            key: costs.predict(group, schedule)
            for key, group in groups.items()
            if (schedule := near.schedule(group, costs.representative(group), spec)) is not None
        }
        others = {key: costs.best(g, 1) for key, g in groups.items() if key not in fitting}
        wanted = [(groups[key], scored) for key, scored in fitting.items()]
        wanted += [(groups[key], rows[0]) for key, rows in others.items() if rows]
        evaluator.measure(wanted[: max(0, limit)])
        return (
            f"{evaluator.target.name} was never measured: the search began from {near.name} at distance "
            f"{near.distance:.2f}, of whose schedules {len(fitting)} of {len(groups)} fit"
        )


def _groups(problem: FusionProblem, plan: Partition) -> Iterator[Group]:
    groups = (problem.group(names) for names in plan.groups)
    return (group for group in groups if not group.is_view)
