"""Trials of one drift detector: false alarms on quiet runs, and runs until a shift is found.

Imports nothing but NumPy: ``benchmarks.drift_worker`` runs it in the environment of other packages.
"""

from collections.abc import Callable, Sequence
from copy import deepcopy
from time import process_time
from typing import Protocol

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
LOOKED_AT, STARTS, TIMED_RUNS = 4000, 24, 20_000


class Detector(Protocol):
    """A drift detector as trials use it."""

    def observe(self, value: float, end: float) -> bool:
        """Take the logarithm of a run's seconds and when it ended; True is an alarm."""
        ...

    def restart(self) -> None:
        """Begin anew, after an alarm."""
        ...


def trial(
    make: Callable[[], Detector],
    series: Sequence[Floats],
    factors: Sequence[float],
) -> dict[str, object]:
    """All figures of one detector as JSON: by series alarms and delays, and microseconds a run."""
    alarms, delays = [], []
    for values in series:
        count, states = _quiet(make(), values)
        alarms.append(count)
        delays.append(
            [[_delay(state, values, place, f) for place, state in states] for f in factors]
        )
    return {"alarms": alarms, "delays": delays, "microseconds": _microseconds(make(), series[0])}


def _quiet(detector: Detector, values: Floats) -> tuple[int, list[tuple[int, Detector]]]:
    """Count alarms on quiet runs; keep the detector's state at ``STARTS`` places of their second half."""
    last = len(values) - LOOKED_AT
    places = set(np.linspace(len(values) // 2, last, STARTS).astype(int).tolist())
    count, states = 0, []
    ends = np.cumsum(np.exp(values)).tolist()
    for place, (value, end) in enumerate(zip(values.tolist(), ends, strict=True)):
        if place in places:
            states.append((place, deepcopy(detector)))
        if detector.observe(value, end):
            count += 1
            detector.restart()
    return count, states


def _delay(state: Detector, values: Floats, place: int, factor: float) -> int:
    """Runs until a shift by ``factor`` from a place on is found; ``LOOKED_AT`` when it is not."""
    detector = deepcopy(state)
    shifted = values[place : place + LOOKED_AT] + np.log(factor)
    began = float(np.exp(values[:place]).sum())
    ends = began + np.cumsum(np.exp(shifted))
    for run, (value, end) in enumerate(zip(shifted.tolist(), ends.tolist(), strict=True), 1):
        if detector.observe(value, end):
            return run
    return LOOKED_AT


def _microseconds(detector: Detector, values: Floats) -> float:
    """CPU time that one quiet run takes the detector; the least of three turns."""
    listed = values[:TIMED_RUNS].tolist()
    ends = np.cumsum(np.exp(values[:TIMED_RUNS])).tolist()
    best = float("inf")
    for _ in range(3):
        detector.restart()
        start = process_time()
        for value, end in zip(listed, ends, strict=True):
            detector.observe(value, end)
        best = min(best, process_time() - start)
    return 1e6 * best / len(listed)
