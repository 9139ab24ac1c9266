"""Repeated timing of one thing: how often, and what the repeats say together."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

LEAST_REPEATS = 5
ENOUGH_NANOSECONDS = 5_000_000
"""Repeats go on until they took so long in all, and are as many as ``LEAST_REPEATS`` …"""

MOST_NANOSECONDS = 200_000_000
"""… but not longer than this: the repeat that passes it is the last."""

BATCH_NANOSECONDS = 500_000
BATCH_LIMIT = 64
"""Short programs repeat within one call, about this long and so many times at most."""

NOISY_PPM = 100_000
"""Spread above which a measurement says that it is noisy."""


@dataclass(frozen=True, slots=True)
class Sample:
    """Nanoseconds of every repeat [n], n ≥ 1."""

    nanoseconds: npt.NDArray[np.int64]

    def __post_init__(self) -> None:
        assert self.nanoseconds.size, "a sample of nothing"

    @property
    def median(self) -> int:
        """Nanoseconds of the middle repeat."""
        return max(1, round(float(np.median(self.nanoseconds))))

    @property
    def least(self) -> int:
        """Nanoseconds of the fastest repeat."""
        return max(1, int(self.nanoseconds.min()))

    @property
    def spread_ppm(self) -> int:
        """(Third quartile − minimum) / minimum: how far the usual repeat is from the undisturbed
        one, in parts per million."""
        upper = float(np.percentile(self.nanoseconds, 75))
        return round((upper - self.least) / self.least * 1e6) if upper > self.least else 0

    @property
    def counters(self) -> dict[str, int]:
        """As an execution carries them."""
        return {
            "nanoseconds": self.median,
            "nanoseconds_min": self.least,
            "spread_ppm": self.spread_ppm,
            "repeats": self.nanoseconds.size,
            "noisy": int(self.spread_ppm > NOISY_PPM),
        }


def batch_of(nanoseconds: int) -> int:
    """How often a program that takes ``nanoseconds`` is repeated within one call."""
    return min(BATCH_LIMIT, max(1, BATCH_NANOSECONDS // max(1, nanoseconds)))


def sampled(run: Callable[[], npt.NDArray[np.int64]]) -> Sample:
    """Repeat until the repeats are enough; ``run`` gives the nanoseconds of those it did [≥ 1]."""
    found: list[npt.NDArray[np.int64]] = []
    count = spent = 0
    while (count < LEAST_REPEATS or spent < ENOUGH_NANOSECONDS) and spent < MOST_NANOSECONDS:
        times = run()
        found.append(times)
        count += times.size
        spent += max(times.size, int(times.sum()))  # a clock may stand still
    return Sample(np.concatenate(found))
