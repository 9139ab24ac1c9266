"""Intervals of numbers: the values that a tensor may hold."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Interval:
    """Numbers from ``low`` to ``high``."""

    low: float
    high: float

    def __post_init__(self) -> None:
        assert self.low <= self.high

    @property
    def extreme(self) -> float:
        """The largest magnitude."""
        return max(abs(self.low), abs(self.high))

    def within(self, low: float, high: float) -> bool:
        """Return True if no number lies outside."""
        return low <= self.low and self.high <= high

    def __add__(self, other: Interval) -> Interval:
        low, high = self.low + other.low, self.high + other.high  # ∞ − ∞ may be anything
        return Interval(
            -math.inf if math.isnan(low) else low, math.inf if math.isnan(high) else high
        )

    def __or__(self, other: Interval) -> Interval:
        return Interval(min(self.low, other.low), max(self.high, other.high))

    def __neg__(self) -> Interval:
        return Interval(-self.high, -self.low)

    def __mul__(self, other: Interval) -> Interval:
        products = [a * b for a in (self.low, self.high) for b in (other.low, other.high)]
        real = [0.0 if math.isnan(p) else p for p in products]  # 0 · ∞: the end is not reached
        return Interval(min(real), max(real))


ANYTHING = Interval(-math.inf, math.inf)
TRUTH = Interval(0.0, 1.0)
