"""The partitioners, in order: each begins from what those before it found."""

from __future__ import annotations

from collections.abc import Sequence

from autotune.fusion.partition import Partition
from autotune.tuner.partitioners.climbing import Climbing
from autotune.tuner.partitioners.dynamic import Dynamic
from autotune.tuner.partitioners.partitioner import Partitioner
from autotune.tuner.partitioners.rule import Rule
from autotune.tuner.problem import FusionProblem

PARTITIONERS: tuple[Partitioner, ...] = (Rule(), Dynamic(), Climbing())


def best_partition(problem: FusionProblem, start: Sequence[Partition]) -> Partition:
    """Return the cheapest partition that the partitioners find from ``start`` on, which have costs."""
    plans = list(start)
    for partitioner in PARTITIONERS:
        proposal = partitioner.propose(problem, plans)
        if proposal not in plans:
            plans.append(proposal)
    return min(plans, key=problem.legal_cost)
