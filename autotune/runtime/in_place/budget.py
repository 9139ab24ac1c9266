"""The time that a search may take, by a given clock."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Budget:
    """``seconds`` from ``start_seconds`` on, by ``clock``."""

    seconds: float
    start_seconds: float
    clock: Callable[[], float]

    @property
    def fraction(self) -> float:
        """Share of the time that has passed, 1 at most."""
        return min(1.0, (self.clock() - self.start_seconds) / self.seconds)

    def is_over(self, fraction: float = 1.0) -> bool:
        """Return True once so large a share of the time has passed."""
        return self.clock() - self.start_seconds >= fraction * self.seconds
