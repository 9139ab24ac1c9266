"""Repeated timing of one thing, visit by visit: how often, and what the visits say together.

What slows a machine down, be it a program or another guest of its host, does so for some milliseconds at
a time. Repeats without pause then agree and are all too slow; visits with other work in between tell.
The time of a program is the lower quartile of its visits' fastest repeats. Over 12 visits it differs by
1.2 % (median) from one process to the next. The fastest repeat of all differs by 2 % and more: it tells how
high the clock rose once. Slow spells move the median more than the quartile.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]

VISIT_NANOSECONDS = 500_000
VISIT_REPEATS = 2
"""A visit repeats for so long, and so often: the first repeat finds others' data in the caches."""

SETTLED_VISITS = 10
SETTLED_PPM = 10_000
"""Visits go on until there are so many, and the standard error of their quartile is at most this …"""

MOST_VISITS = 24
MOST_NANOSECONDS = 120_000_000
"""… but no more often, and not longer than this: the visit that passes it is the last …"""

LEAST_VISITS = 3
"""… unless it was one of the first: fewer visits have nothing to agree with."""

NOISY_PPM = 50_000
"""A time with a larger standard error is marked as noisy: it may be far from the truth."""

CALM = 1.3
"""Visits to a machine more crowded than this do not count, as long as enough others are calm. The
multiply-adds alone vary by 1.2: wide units of Intel's CPUs wake up when they are used."""

NEAR = 2.0
"""Visits do not count either while a core waits longer than this for what another one wrote. A host's cores are near
each other or far: 40 nanoseconds or 180, for seconds at a time (virtual Zen 4). What cores share takes two to four
times as long then, while each core's own multiply-adds take what they always do."""

RESTLESS_PPM = 300_000
"""Least standard error of a time that too few calm visits tell."""

REST_SECONDS = 0.002
"""Pause between visits where nothing else is to be timed: whoever wants the cores has its turn then,
and the scheduler owes us one."""

BATCH_NANOSECONDS = 250_000
BATCH_LIMIT = 64
"""Short programs repeat within one call, about this long and so many times at most."""

_QUARTILE_ERROR = 1.36 / 1.349
"""Standard error of a quartile over the quartiles' distance, times the root of the count, of normal
numbers: a quartile's is 1.36 σ/√n (Kendall and Stuart, vol. 1, 10.11), their distance 1.349 σ."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What the reference tells. ``clock``: the core's clock over its usual one. ``crowding``: the time
    of multiply-adds over that on a calm machine, or more if integer operations tell of another guest. ``distance``: the same of the way from core to core."""

    clock: float = 1.0
    crowding: float = 1.0
    distance: float = 1.0


@dataclass(frozen=True, slots=True)
class Visit:
    """Nanoseconds of every repeat [n], n ≥ 1, by the clock; ``clock``, that of the core over its
    usual one, and ``crowding`` and ``distance`` of the machine meanwhile, over a calm machine's."""

    nanoseconds: Ints
    clock: float = 1.0
    crowding: float = 1.0
    distance: float = 1.0

    def __post_init__(self) -> None:
        assert self.nanoseconds.size, "a visit of nothing"

    @classmethod
    def between(cls, before: Reading, nanoseconds: Ints, after: Reading) -> Visit:
        """Return a visit between two readings of the reference."""
        clock, crowding = (before.clock + after.clock) / 2, max(before.crowding, after.crowding)
        return cls(nanoseconds, clock, crowding, max(before.distance, after.distance))

    @property
    def least(self) -> int:
        """Nanoseconds of the fastest repeat at the usual clock."""
        return max(1, round(float(self.nanoseconds.min()) * self.clock))

    @property
    def unrest(self) -> float:
        """How far the machine was from calm: at most 1 if it was calm."""
        return max(self.crowding / CALM, self.distance / NEAR)


@dataclass(frozen=True, slots=True)
class Sample:
    """The visits to a program, one at least."""

    visits: tuple[Visit, ...]

    def __post_init__(self) -> None:
        assert self.visits, "a sample of nothing"

    @property
    def calm(self) -> tuple[Visit, ...]:
        """Visits to a calm machine; with fewer than ``LEAST_VISITS`` of them, the calmest ones."""
        calm = self._calm_ones
        if len(calm) >= LEAST_VISITS:
            return calm
        return tuple(sorted(self.visits, key=lambda visit: visit.unrest)[:LEAST_VISITS])

    @property
    def _calm_ones(self) -> tuple[Visit, ...]:
        return tuple(visit for visit in self.visits if visit.unrest <= 1.0)

    @property
    def nanoseconds(self) -> int:
        """Time of the program: the lower quartile of the calm visits' fastest repeats."""
        return max(1, round(quantile([visit.least for visit in self.calm], 0.25)))

    @property
    def least(self) -> int:
        """Nanoseconds of the fastest repeat of all."""
        return min(visit.least for visit in self.visits)

    @property
    def error_ppm(self) -> int:
        """Standard error of the time, relative to it, in parts per million; of ``LEAST_VISITS``
        visits the whole distance of the slowest from the fastest, and ``RESTLESS_PPM`` at least where fewer were calm."""
        times = [visit.least for visit in self.calm]
        if len(times) <= LEAST_VISITS:
            error: float = max(times) - min(times) if len(times) == LEAST_VISITS else times[0]
        else:
            distance = quantile(times, 0.75) - quantile(times, 0.25)
            error = _QUARTILE_ERROR * distance / len(times) ** 0.5
        least = RESTLESS_PPM if len(self._calm_ones) < min(LEAST_VISITS, len(self.visits)) else 0
        return max(least, round(1e6 * error / self.nanoseconds))

    @property
    def settled(self) -> bool:
        """True when enough visits agree."""
        return len(self._calm_ones) >= SETTLED_VISITS and self.error_ppm <= SETTLED_PPM

    @property
    def spread_ppm(self) -> int:
        """(Third quartile − time) / time of all repeats: how much longer than the program's time a
        usual repeat takes, in parts per million; 0 for one that does not."""
        repeats = np.concatenate([visit.nanoseconds * visit.clock for visit in self.visits])
        upper = float(np.percentile(repeats, 75))
        return max(0, round((upper - self.nanoseconds) / self.nanoseconds * 1e6))

    @property
    def counters(self) -> dict[str, int]:
        """As an execution carries them. ``hot``: the operands were used just before, and lie in the
        caches as far as they fit."""
        clock = float(np.median([visit.clock for visit in self.calm]))
        crowding = float(np.median([visit.crowding for visit in self.calm]))
        distance = float(np.median([visit.distance for visit in self.calm]))
        return {
            "nanoseconds": self.nanoseconds,
            "nanoseconds_min": self.least,
            "spread_ppm": self.spread_ppm,
            "error_ppm": self.error_ppm,
            "clock_ppm": round(1e6 * clock),
            "crowding_ppm": round(1e6 * crowding),
            "distance_ppm": round(1e6 * distance),
            "visits": len(self.visits),
            "repeats": sum(visit.nanoseconds.size for visit in self.visits),
            "hot": 1,
            "noisy": int(self.error_ppm > NOISY_PPM),
        }


def quantile(values: Iterable[float], share: float) -> float:
    """Return the value [n ≥ 1] below which a ``share`` lies, linear in between as ``np.percentile``
    has it, in a twentieth of its 60 µs: visits ask for it by the dozen."""
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (place - low) * (ordered[high] - ordered[low])


def batch_of(nanoseconds: int) -> int:
    """How often a program that takes ``nanoseconds`` is repeated within one call."""
    return min(BATCH_LIMIT, max(1, BATCH_NANOSECONDS // max(1, nanoseconds)))


def always_calm() -> Reading:
    """Reading of a machine without a reference."""
    return Reading()


class Sampling:
    """A sample that grows by visits; ``run`` gives the nanoseconds of the repeats it did [≥ 1],
    ``begin`` prepares a visit, and ``read`` reads the reference before and after it."""

    def __init__(
        self,
        run: Callable[[], Ints],
        begin: Callable[[], object] = lambda: None,
        read: Callable[[], Reading] = always_calm,
    ) -> None:
        self._run, self._begin, self._read = run, begin, read
        self._visits: list[Visit] = []
        self._spent = 0

    def visit(self) -> Sample | None:
        """Repeat for a while; the sample once it is enough, None while another visit is wanted."""
        self._begin()
        self._visits.append(Visit.between(self._read(), self._repeated(), self._read()))
        sample = Sample(tuple(self._visits))
        long = self._spent >= MOST_NANOSECONDS and len(self._visits) >= LEAST_VISITS
        return sample if sample.settled or long or len(self._visits) >= MOST_VISITS else None

    def _repeated(self) -> Ints:
        """Nanoseconds of the repeats of a visit."""
        found: list[Ints] = []
        count = spent = 0
        while spent < VISIT_NANOSECONDS or count < VISIT_REPEATS:
            times = self._run()
            found.append(times)
            count += times.size
            spent += max(times.size, int(times.sum()))  # a clock may stand still
            if self._spent + spent >= MOST_NANOSECONDS:
                break
        self._spent += spent
        return np.concatenate(found)


def sampled(run: Callable[[], Ints], rest: Callable[[float], None] = time.sleep) -> Sample:
    """Visit until it is enough; ``rest`` waits some seconds in between."""
    sampling = Sampling(run)
    while (sample := sampling.visit()) is None:
        rest(REST_SECONDS)
    return sample
