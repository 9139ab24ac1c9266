"""The cheapest partition of all that are looked at, by predicted costs: it is measured, and not planned again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from autotune.tuner.strategies.active import ActiveMeasurement
from autotune.tuner.strategies.strategy import Proposal, SearchState

BATCH = 16
"""Measurements between two looks at the costs."""


@dataclass(frozen=True, slots=True)
class Exact:
    """Proves the best partition for predicted costs (docs/decisions/0049-exact-partition.md), once; then it
    measures schedules of this plan's groups in the order of their predicted gain."""

    name: str = "exact"

    def proposals(self, state: SearchState) -> Iterator[Proposal]:
        """See ``Strategy``."""
        plan = state.prover.prove(state.plans).partition
        active = ActiveMeasurement(state)
        yield from active.covering(plan)
        while wanted := active.wanted([plan], BATCH):
            yield Proposal(plan, wanted)
