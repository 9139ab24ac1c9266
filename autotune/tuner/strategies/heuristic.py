"""The strategy of not searching: the heuristic plan, which every search measures first."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from autotune.tuner.strategies.strategy import Proposal, SearchState


@dataclass(frozen=True, slots=True)
class Heuristic:
    """Proposes the plan that a session without a search runs."""

    name: str = "heuristic"

    def proposals(self, state: SearchState) -> Iterator[Proposal]:
        """See ``Strategy``."""
        yield Proposal(state.heuristic, ())
