"""Durations of a session's runs: exact counts in classes, and the newest ones for percentiles."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from autotune.runtime.profile.fading import FadingCount, Integers

BOUNDS_SECONDS = (
    *(float(f"{digits}e{power}") for power in range(-5, 1) for digits in (1, 2.5, 5)),
    10.0,
)
"""Upper bounds of the classes of a histogram; a last class has none."""
NEWEST = 1024
"""Newest runs that percentiles are of."""

_BOUNDS_NS = np.array(BOUNDS_SECONDS) * 1e9


@dataclass(frozen=True, slots=True)
class Durations:
    """Durations of runs. ``counts`` are by class of ``BOUNDS_SECONDS`` and of all runs, as are ``runs``
    and ``total_seconds``; percentiles are of the newest ``NEWEST`` runs, None before the first."""

    runs: int
    per_second: float
    total_seconds: float
    counts: tuple[int, ...]
    p50_seconds: float | None = None
    p90_seconds: float | None = None
    p99_seconds: float | None = None
    longest_seconds: float | None = None

    def document(self) -> dict[str, Any]:
        """Return the durations as JSON has them."""
        return {
            "runs": self.runs,
            "runs_per_second": self.per_second,
            "total_seconds": self.total_seconds,
            "p50_seconds": self.p50_seconds,
            "p90_seconds": self.p90_seconds,
            "p99_seconds": self.p99_seconds,
            "longest_seconds": self.longest_seconds,
            "histogram": [
                list(pair) for pair in zip((*BOUNDS_SECONDS, None), self.counts, strict=True)
            ],
        }


class DurationHistory:
    """Takes in durations in batches. Not safe to use from several threads."""

    def __init__(self) -> None:
        self._rate: FadingCount | None = None
        self._runs = 0
        self._total_ns = 0
        self._counts: Integers = np.zeros(len(BOUNDS_SECONDS) + 1, np.int64)
        self._newest: Integers = np.zeros(NEWEST, np.int64)

    def add(self, took_ns: Integers, first_ns: int, last_ns: int) -> None:
        """Add durations of runs, oldest first; the first began and the last ended at these times."""
        classes = np.searchsorted(_BOUNDS_NS, took_ns)
        self._counts += np.bincount(classes, minlength=len(self._counts))
        for first in range(0, len(took_ns), NEWEST):
            self._remember(took_ns[first : first + NEWEST])
        self._total_ns += int(took_ns.sum())
        if self._rate is None:
            self._rate = FadingCount(first_ns)
        self._rate.add(len(took_ns), first_ns, last_ns)

    def _remember(self, took_ns: Integers) -> None:
        """Write over the oldest of the newest runs."""
        place = self._runs % NEWEST
        head = min(len(took_ns), NEWEST - place)
        self._newest[place : place + head] = took_ns[:head]
        self._newest[: len(took_ns) - head] = took_ns[head:]
        self._runs += len(took_ns)

    def per_second(self, now_ns: int) -> float:
        """Return runs per second over the newest minutes."""
        return 0.0 if self._rate is None else self._rate.per_second(now_ns)

    def durations(self, now_ns: int) -> Durations:
        """Return the durations so far."""
        counts = tuple(self._counts.tolist())
        plain = (self._runs, self.per_second(now_ns), self._total_ns * 1e-9, counts)
        newest = self._newest[: min(self._runs, NEWEST)]
        if not len(newest):
            return Durations(*plain)
        return Durations(*plain, *(np.percentile(newest, (50, 90, 99, 100)) * 1e-9).tolist())
