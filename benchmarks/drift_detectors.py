"""The drift detectors of ``benchmarks.drift`` that need no other package: ours, older ones, and two dummies."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from math import exp
from statistics import fmean, median, pstdev

from autotune.runtime.online.drift import DriftDetector
from autotune.runtime.online.host_drift import HostDriftDetector
from autotune.runtime.online.watching import requests_apart
from benchmarks.drift_trial import Detector

LEVEL_RUNS = 64


class Dummy:
    """Always an alarm, or never."""

    def __init__(self, answer: bool) -> None:
        self._answer = answer

    def observe(self, value: float, end: float) -> bool:
        """Say the same as ever."""
        return self._answer

    def restart(self) -> None:
        """Do nothing."""


class Ours:
    """What sessions use."""

    def __init__(self, make: Callable[[], DriftDetector | HostDriftDetector]) -> None:
        self._detector = make()

    def observe(self, value: float, end: float) -> bool:
        """Take in one run."""
        return self._detector.observe(exp(value), end) is not None

    def restart(self) -> None:
        """Begin anew."""
        self._detector.restart()


class OfASession:
    """What a session on this machine uses, which looks at some of short runs."""

    def __init__(self) -> None:
        self._detector = Ours(HostDriftDetector)
        self._unseen = 0

    def observe(self, value: float, end: float) -> bool:
        """Take in one run, or let it pass unseen."""
        if self._unseen:
            self._unseen -= 1
            return False
        self._unseen = requests_apart(exp(value)) - 1
        return self._detector.observe(value, end)

    def restart(self) -> None:
        """Begin anew."""
        self._detector.restart()


class ThreeOfSix:
    """The rule of decision 6, with a model that predicts the median of the first runs: the mean error of six runs
    is twice that of the first six, five points above it, and three of the runs are."""

    def __init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        """Begin anew."""
        self._first: list[float] = []
        self._window: deque[float] = deque(maxlen=6)
        self._level = self._threshold = 0.0

    def observe(self, value: float, end: float) -> bool:
        """Take in one run."""
        first, window = self._first, self._window
        if len(first) < LEVEL_RUNS:
            first.append(value)
            self._level = median(first)
            baseline = fmean(abs(exp(self._level - x) - 1) for x in first[:6])
            self._threshold = max(2 * baseline, baseline + 0.05)
            return False
        window.append(abs(exp(self._level - value) - 1))
        out = sum(error > self._threshold for error in window)
        return len(window) == 6 and fmean(window) > self._threshold and out >= 3


class Cusum:
    """The textbook's sum: half a standard deviation of slack, alarm at five."""

    def __init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        """Begin anew."""
        self._first: list[float] = []
        self._up = self._down = self._mean = 0.0
        self._deviation = 1.0

    def observe(self, value: float, end: float) -> bool:
        """Take in one run."""
        if len(self._first) < LEVEL_RUNS:
            self._first.append(value)
            self._mean, self._deviation = fmean(self._first), pstdev(self._first) or 1.0
            return False
        z = (value - self._mean) / self._deviation
        self._up, self._down = max(0.0, self._up + z - 0.5), max(0.0, self._down - z - 0.5)
        return max(self._up, self._down) > 5


HERE = "ours, this machine"
DETECTORS: dict[str, Callable[[], Detector]] = {
    "always": partial(Dummy, True),
    "never": partial(Dummy, False),
    "3 of 6 runs (decision 6)": ThreeOfSix,
    "CUSUM, textbook": Cusum,
    "ours, emulated machines": partial(Ours, DriftDetector),
    HERE: OfASession,
}
