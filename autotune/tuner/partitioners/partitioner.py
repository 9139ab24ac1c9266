"""What a partitioner is: something that finds a partition by the prices of groups, given others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from autotune.fusion.partition import Partition
from autotune.tuner.problem import FusionProblem


class Partitioner(Protocol):
    """Finds partitions by the costs of a problem. Equal problems and starts give equal partitions."""

    @property
    def name(self) -> str:
        """Name in the history of partitions tried."""
        ...

    def propose(self, problem: FusionProblem, start: Sequence[Partition]) -> Partition:
        """Return a partition with a cost. ``start`` are partitions to begin from, which have
        costs. What was tried is entered with ``problem.tried``."""
        ...
