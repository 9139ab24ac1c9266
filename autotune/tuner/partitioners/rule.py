"""The plan of a rule-based compiler: element-wise operators join their producers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from autotune.fusion.greedy import greedy
from autotune.fusion.partition import Partition
from autotune.tuner.problem import FusionProblem


@dataclass(frozen=True, slots=True)
class Rule:
    """Producer-consumer fusion by rule; the model is not asked whether it pays."""

    name: str = "greedy"

    def propose(self, problem: FusionProblem, start: Sequence[Partition]) -> Partition:
        """See ``Partitioner``."""
        partition = greedy(problem.graph, problem.fits)
        cost = problem.cost(partition)
        if cost is None:
            return start[0]
        problem.tried(self.name, cost)
        return partition
