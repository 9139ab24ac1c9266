"""A tournament of variants: paired log ratios of time, halved round by round, shrunk by their spread.

Every run of the network measures many variants at once. A variant's ratio is its time over that of the plan in use,
which runs beside it. The least of many noisy ratios is too good to be true: estimates shrink towards 0,
the more the fewer and the noisier the ratios are (empirical Bayes, James and Stein 1961).
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

V = TypeVar("V", bound=Hashable)

LEAST_NOISE = 0.004
"""Standard deviation of a ratio's logarithm, at least: two equal ratios do not make certainty."""
FIRST, SLOWER = 2, math.log(1.15)
"""Ratios after which a variant is hopeless, if the least of them is above: ratios repeat within 3 to 5 %, and two slow
spells in a row are rare."""
_TO_DEVIATION = 1.4826
"""A normal distribution's standard deviation over its median absolute deviation."""
_MEDIAN_ERROR = 1.2533
"""Standard error of a median over that of a mean."""


@dataclass(slots=True)
class Entry(Generic[V]):
    """A variant with its ratios' logarithms so far."""

    variant: V
    ratios: list[float] = field(default_factory=list)

    @property
    def center(self) -> float:
        """Median logarithm; 0 without any."""
        return statistics.median(self.ratios) if self.ratios else 0.0


class Tournament(Generic[V]):
    """Variants of one place in a network, or of equal places. Ratios below 0 are faster than the plan in use."""

    def __init__(self, variants: Iterable[V]) -> None:
        self.entries = {variant: Entry(variant) for variant in variants}
        self.alive = list(self.entries)

    def add(self, variant: V, log_ratio: float) -> None:
        """Take in one paired measurement."""
        self.entries[variant].ratios.append(log_ratio)

    def is_hopeless(self, variant: V) -> bool:
        """Return True if a variant was clearly slower than the plan in use in each of its first ratios."""
        ratios = self.entries[variant].ratios
        return len(ratios) >= FIRST and min(ratios) > SLOWER

    def halve(self, least: int = 1) -> None:
        """Keep the better half of the variants that are left, ``least`` at least."""
        ranked = sorted(self.alive, key=lambda v: self.entries[v].center)
        self.alive = ranked[: max(least, len(ranked) // 2)]

    def estimate(self, variant: V) -> float:
        """Return the shrunk logarithm of a variant's time over that of the plan in use."""
        entry = self.entries[variant]
        if not entry.ratios:
            return 0.0
        error, spread = self.error(variant), self._spread(self.noise)
        return entry.center * spread / (spread + error * error) if spread else 0.0

    def error(self, variant: V) -> float:
        """Return the standard error of a measured variant's median logarithm."""
        return self.noise * _MEDIAN_ERROR / math.sqrt(len(self.entries[variant].ratios))

    @property
    def best(self) -> tuple[V, float] | None:
        """Return the best variant that is left, with its shrunk estimate; None without any measured."""
        measured = [v for v in self.alive if self.entries[v].ratios]
        if not measured:
            return None
        found = min(measured, key=self.estimate)
        return found, self.estimate(found)

    @property
    def noise(self) -> float:
        """Standard deviation of one ratio's logarithm, pooled over the variants."""
        apart = [
            abs(x - entry.center)
            for entry in self.entries.values()
            if len(entry.ratios) > 1
            for x in entry.ratios
        ]
        # of two numbers the median lies halfway: the deviations are too small by the square root of two
        return max(LEAST_NOISE, _TO_DEVIATION * statistics.median(apart) * 1.2) if apart else 0.05

    def _spread(self, noise: float) -> float:
        """Return the variance of the variants' true effects: what noise does not explain of the seen one."""
        seen = [e for e in self.entries.values() if e.ratios]
        square = statistics.fmean(e.center**2 for e in seen)
        error = statistics.fmean((noise * _MEDIAN_ERROR) ** 2 / len(e.ratios) for e in seen)
        return max(0.0, square - error)
