"""Fusion by predicted gain alone: merges what the model says gains most, and measures the plan's schedules."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from autotune.tuner.partitioners.climbing import Climbing
from autotune.tuner.strategies.active import ActiveMeasurement
from autotune.tuner.strategies.strategy import Proposal, SearchState

BATCH = 16
"""Measurements between two looks at the costs."""


@dataclass(frozen=True, slots=True)
class Greedy:
    """Starts unfused and takes the moves of the greatest predicted gain, once; then it measures schedules of
    this plan's groups in the order of their predicted gain."""

    name: str = "greedy"

    def proposals(self, state: SearchState) -> Iterator[Proposal]:
        """See ``Strategy``."""
        plan = Climbing().propose(state.problem, state.plans[:1])
        active = ActiveMeasurement(state)
        yield from active.covering(plan)
        while wanted := active.wanted([plan], BATCH):
            yield Proposal(plan, wanted)
