"""Latency of a network on this machine: repeated runs after a warm-up, and their statistics."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

SECONDS = 1.0
"""Time that the timed runs take unless their number is given."""

LEAST_RUNS, MOST_RUNS = 5, 100_000

WARM_UP_RUNS, WARM_UP_SECONDS = 3, 0.2
"""Most runs of a warm-up, and the time after which no further one begins."""


@dataclass(frozen=True, slots=True)
class Latency:
    """Wall-clock times of ``session.run``, in seconds, in the order of the runs."""

    seconds: tuple[float, ...]
    warm_up_runs: int

    def __post_init__(self) -> None:
        if not self.seconds:
            raise ValueError("latency needs at least one timed run")

    @property
    def minimum_seconds(self) -> float:
        """Time of the fastest run."""
        return min(self.seconds)

    @property
    def median_seconds(self) -> float:
        """Median time of a run."""
        return statistics.median(self.seconds)

    @property
    def p99_seconds(self) -> float:
        """Time that 99 % of the runs do not exceed (nearest rank): of fewer than 100 runs the longest."""
        return sorted(self.seconds)[math.ceil(0.99 * len(self.seconds)) - 1]

    @property
    def inferences_per_second(self) -> float:
        """Timed runs over their total time."""
        return len(self.seconds) / sum(self.seconds)

    def document(self) -> dict[str, float]:
        """Return the JSON form."""
        return {
            "runs": len(self.seconds),
            "warm_up_runs": self.warm_up_runs,
            "minimum_seconds": self.minimum_seconds,
            "median_seconds": self.median_seconds,
            "p99_seconds": self.p99_seconds,
            "inferences_per_second": self.inferences_per_second,
        }

    def facts(self) -> dict[str, str]:
        """Return the lines for people."""
        runs = f"{len(self.seconds):,} runs after {self.warm_up_runs} of warm-up"
        return {
            "minimum": f"{1e3 * self.minimum_seconds:,.3f} ms",
            "median": f"{1e3 * self.median_seconds:,.3f} ms",
            "p99": f"{1e3 * self.p99_seconds:,.3f} ms",
            "inferences/s": f"{self.inferences_per_second:,.1f}  ({runs})",
        }


def measure_latency(
    run: Callable[[dict[str, Any]], dict[str, Any]],
    feeds: dict[str, Any],
    repeat: int | None,
    clock: Callable[[], float] = time.perf_counter,
) -> tuple[dict[str, Any], Latency]:
    """Run a warm-up, then ``repeat`` timed runs (None: about ``SECONDS``).

    Returns the outputs of the first run and the times.
    """
    began = clock()
    outputs = run(feeds)
    warm_up_runs = 1
    while warm_up_runs < WARM_UP_RUNS and clock() - began < WARM_UP_SECONDS:
        run(feeds)
        warm_up_runs += 1
    seconds: list[float] = []
    began = clock()
    while not _is_enough(len(seconds), repeat, clock() - began):
        start = clock()
        run(feeds)
        seconds.append(clock() - start)
    return outputs, Latency(tuple(seconds), warm_up_runs)


def _is_enough(runs: int, repeat: int | None, elapsed_seconds: float) -> bool:
    if repeat is not None:
        return runs >= repeat
    return runs >= LEAST_RUNS and (elapsed_seconds >= SECONDS or runs >= MOST_RUNS)
