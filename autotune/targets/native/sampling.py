"""Repeated timing of one thing: how often, and what the repeats say together."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

LEAST_REPEATS = 5
ENOUGH_NANOSECONDS = 5_000_000
"""Repeats go on until they took so long in all, are as many as ``LEAST_REPEATS``, and have settled …"""

SETTLED_REPEATS = 3
SETTLED_PPM = 30_000
"""… which so many of them have when the fastest are within this of each other …"""

MOST_NANOSECONDS = 200_000_000
"""… but not longer than this: the repeat that passes it is the last."""

REST_SECONDS = 0.001
"""Pause before more repeats when those until now have not settled: whoever else wants the cores has
its turn then, and the scheduler owes us one."""

BATCH_NANOSECONDS = 500_000
BATCH_LIMIT = 64
"""Short programs repeat within one call, about this long and so many times at most."""


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
    def settled(self) -> bool:
        """Whether several repeats were as fast as the fastest, so that it was no fluke."""
        if self.nanoseconds.size < SETTLED_REPEATS:
            return False
        near = int(np.partition(self.nanoseconds, SETTLED_REPEATS - 1)[SETTLED_REPEATS - 1])
        return (near - self.least) * 1_000_000 <= SETTLED_PPM * self.least

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
            "noisy": int(not self.settled),
        }


def batch_of(nanoseconds: int) -> int:
    """How often a program that takes ``nanoseconds`` is repeated within one call."""
    return min(BATCH_LIMIT, max(1, BATCH_NANOSECONDS // max(1, nanoseconds)))


def sampled(
    run: Callable[[], npt.NDArray[np.int64]], rest: Callable[[float], None] = time.sleep
) -> Sample:
    """Repeat until the repeats are enough; ``run`` gives the nanoseconds of those it did [≥ 1],
    ``rest`` waits some seconds."""
    found: list[npt.NDArray[np.int64]] = []
    count = spent = 0
    while spent < MOST_NANOSECONDS:
        if count >= LEAST_REPEATS and spent >= ENOUGH_NANOSECONDS:
            if Sample(np.concatenate(found)).settled:
                break
            rest(REST_SECONDS)
        times = run()
        found.append(times)
        count += times.size
        spent += max(times.size, int(times.sum()))  # a clock may stand still
    return Sample(np.concatenate(found))
