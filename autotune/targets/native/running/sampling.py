"""Repeated timing of one thing, visit by visit: how often, and what the repeats say together.

What slows a machine down, be it a program or another guest of its host, does so for some milliseconds at
a time. Repeats without pause then agree and are all too slow; visits with other work in between tell.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]

VISIT_NANOSECONDS = 1_000_000
VISIT_REPEATS = 2
"""A visit repeats for so long, and so often: the first repeat finds others' data in the caches."""

SETTLED_VISITS = 4
SETTLED_PPM = 50_000
"""Visits go on until the fastest repeats of so many of them are within this of each other …"""

MOST_VISITS = 12
MOST_NANOSECONDS = 100_000_000
"""… but no more often, and not longer than this: the visit that passes it is the last … On two shared
cores the fastest repeat is then 5 % above that of 30 visits, in the mean of 75 programs, after 20 ms
each; 5 ms and more without pause, until three repeats agree, leave 18 %."""

LEAST_VISITS = 2
"""… unless it was the first: one visit has nothing to agree with."""

NOISY_PPM = 300_000
"""A sample whose fastest four visits, or all where fewer fit into the time, are not within this of each
other may be far from the truth. Most that did not settle are not: whoever was visited often was seen
undisturbed once, and what slows a machine for milliseconds adds little to a program that takes as long."""

REST_SECONDS = 0.002
"""Pause between visits where nothing else is to be timed: whoever wants the cores has its turn then,
and the scheduler owes us one."""

BATCH_NANOSECONDS = 500_000
BATCH_LIMIT = 64
"""Short programs repeat within one call, about this long and so many times at most."""


@dataclass(frozen=True, slots=True)
class Sample:
    """Nanoseconds of every repeat [n], n ≥ 1, and of the fastest one of each visit."""

    nanoseconds: Ints
    visits: tuple[int, ...] = ()

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
        """Whether several visits were as fast as the fastest, so that it was no fluke."""
        return len(self.visits) >= SETTLED_VISITS and self._agree(SETTLED_PPM)

    def _agree(self, ppm: int) -> bool:
        if len(self.visits) < LEAST_VISITS:
            return False
        near = sorted(self.visits)[:SETTLED_VISITS][-1]
        return (near - self.least) * 1_000_000 <= ppm * self.least

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
            "noisy": int(not self._agree(NOISY_PPM)),
        }


def batch_of(nanoseconds: int) -> int:
    """How often a program that takes ``nanoseconds`` is repeated within one call."""
    return min(BATCH_LIMIT, max(1, BATCH_NANOSECONDS // max(1, nanoseconds)))


class Sampling:
    """A sample that grows by visits; ``run`` gives the nanoseconds of the repeats it did [≥ 1]."""

    def __init__(self, run: Callable[[], Ints]) -> None:
        self._run = run
        self._found: list[Ints] = []
        self._visits: list[int] = []
        self._spent = 0

    def visit(self) -> Sample | None:
        """Repeat for a while; the sample once it is enough, None while another visit is wanted."""
        count = spent = 0
        first = len(self._found)
        while spent < VISIT_NANOSECONDS or count < VISIT_REPEATS:
            times = self._run()
            self._found.append(times)
            count += times.size
            spent += max(times.size, int(times.sum()))  # a clock may stand still
            if self._spent + spent >= MOST_NANOSECONDS:
                break
        self._visits.append(min(int(times.min()) for times in self._found[first:]))
        self._spent += spent
        sample = Sample(np.concatenate(self._found), tuple(self._visits))
        long = self._spent >= MOST_NANOSECONDS and len(self._visits) >= LEAST_VISITS
        return sample if sample.settled or long or len(self._visits) >= MOST_VISITS else None


def sampled(run: Callable[[], Ints], rest: Callable[[float], None] = time.sleep) -> Sample:
    """Visit until it is enough; ``rest`` waits some seconds in between."""
    sampling = Sampling(run)
    while (sample := sampling.visit()) is None:
        rest(REST_SECONDS)
    return sample
