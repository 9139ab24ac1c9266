"""Random plans with random schedules: what every other strategy has to beat."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from autotune.tuner.strategies.schedule_space import ScheduleSpaces
from autotune.tuner.strategies.strategy import Proposal, SearchState


@dataclass(frozen=True, slots=True)
class Random:
    """Fuses a random share of the edges, and draws a legal schedule for each group of the plan."""

    name: str = "random"

    def proposals(self, state: SearchState) -> Iterator[Proposal]:
        """See ``Strategy``."""
        spaces = ScheduleSpaces(state)
        while True:
            rng = np.random.default_rng([state.seed, state.study.count])
            share = rng.random()
            decisions = {name: bool(rng.random() < share) for name in state.study.distributions}
            partition = state.study.partition(decisions)
            drawn = (spaces.drawn(group, rng) for group in state.groups(partition))
            wanted = tuple(candidate for candidate in drawn if candidate is not None)
            yield Proposal(partition, wanted, decisions)
