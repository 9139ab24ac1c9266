"""The time that a search may take, by a given clock, and what it may try in it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from autotune.runtime.variants.variants import Place


@dataclass(frozen=True, slots=True)
class Budget:
    """``seconds`` from ``start_seconds`` on, by ``clock``, with ``kept_seconds`` behind them for the contest."""

    seconds: float
    start_seconds: float
    clock: Callable[[], float]
    kept_seconds: float = 0.0

    @property
    def contest_seconds(self) -> float:
        """Seconds from now until the contest has to end, half of those that are kept for it at least."""
        end = self.start_seconds + self.seconds + self.kept_seconds
        return max(0.5 * self.kept_seconds, end - self.clock())

    @property
    def fraction(self) -> float:
        """Share of the time that has passed, 1 at most."""
        return min(1.0, (self.clock() - self.start_seconds) / self.seconds)

    def is_over(self, fraction: float = 1.0) -> bool:
        """Return True once so large a share of the time has passed."""
        return self.clock() - self.start_seconds >= fraction * self.seconds


@dataclass(frozen=True, slots=True)
class Limits:
    """What a search may try at most: changed ``plans``, one a generation, and ``candidates`` that it measures."""

    plans: int = sys.maxsize
    candidates: int = sys.maxsize

    @classmethod
    def of(cls, plans: int | None, candidates: int | None) -> Limits:
        """Return limits; None leaves a count to the time."""
        most = sys.maxsize
        return cls(most if plans is None else plans, most if candidates is None else candidates)

    def first(self, places: Sequence[Place], tried: int) -> list[Place]:
        """Return the first places, with as many variants as may be measured after the ``tried`` ones."""
        left, out = self.candidates - tried, []
        for place in places:
            variants = place.variants[: max(0, left)]
            left -= len(variants)
            if variants:
                out.append(Place(place.sites, place.names, variants))
        return out


NO_LIMITS = Limits()
