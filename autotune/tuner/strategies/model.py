"""The default: plans by the cost model, measured where they can gain most, and planned again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from autotune.tuner.strategies.active import ActiveMeasurement
from autotune.tuner.strategies.strategy import Proposal, SearchState

ROUNDS = 4
"""Rounds of measurements; each begins with a new plan."""
RELEARN = 2
"""Round before which the model may be retrained, once, since it takes seconds.

Otherwise each group's own measurements correct its predictions."""


@dataclass(frozen=True, slots=True)
class Model:
    """Exact partition finds the best plan for predicted costs. Measurements go where it, or a plan before it, can
    gain most; they correct the costs, and the next round plans again."""

    name: str = "model"

    def proposals(self, state: SearchState) -> Iterator[Proposal]:
        """See ``Strategy``."""
        active = ActiveMeasurement(state)
        prover = state.prover
        plan = prover.prove(state.plans).partition
        pool = list(dict.fromkeys([plan, state.heuristic]))
        yield from active.covering(plan)
        for number in range(ROUNDS):
            if number == RELEARN and active.is_surprised():
                state.relearn()
            plan = prover.prove(pool).partition
            if plan not in pool:
                pool.append(plan)
            yield from active.covering(plan)
            wanted = active.wanted(pool, -(-state.budget // ROUNDS))
            if not wanted:
                return
            yield Proposal(plan, wanted)
