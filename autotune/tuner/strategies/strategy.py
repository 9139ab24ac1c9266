"""What a fusion strategy is: something that proposes a partition, given those found before."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from autotune.fusion.partition import Partition
from autotune.tuner.problem import FusionProblem


class Strategy(Protocol):
    """Proposes partitions. Equal problem, seeds and seed give an equal proposal."""

    @property
    def name(self) -> str:
        """Name in the history of trials."""
        ...

    def propose(
        self, problem: FusionProblem, seeds: Sequence[Partition], trials: int, seed: int
    ) -> Partition:
        """A partition with a cost, at most ``trials`` of them tried; ``seeds`` are those known so
        far and have costs. What was tried is entered with ``problem.tried``."""
        ...
