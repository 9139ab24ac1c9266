"""Drift: when runs take another time than before, for good and by more than their noise.

The test is Page's cumulative sum (Biometrika 41, 1954) on bounded scores: a run counts by how far its logarithm lies
beyond the level before, and no run counts for more than one. Heavy tails add nothing to it, and noise that
grows on both sides cancels out.
"""

from __future__ import annotations

from bisect import insort
from dataclasses import dataclass
from math import exp, log

from autotune.errors import InputError


@dataclass(frozen=True, slots=True)
class DriftRule:
    """What counts as drift: a change by ``change`` (a fraction) or more that lasts.

    The level before is the median of the first ``level_runs`` runs; the test begins after ``least_runs`` of
    them. ``confirm_runs`` more runs beyond the level than within it confirm drift, over ``least_seconds``: what
    another process takes for a moment is none. Noise asks for more.
    """

    change: float = 0.05
    level_runs: int = 64
    least_runs: int = 6
    confirm_runs: int = 6
    least_seconds: float = 0.0

    def __post_init__(self) -> None:
        if not 0 < self.change <= 1:
            raise InputError(f"drift by {self.change} is not in 0..1; 0.05 asks for 5 %")
        if not 1 <= self.least_runs <= self.level_runs:
            raise InputError(
                f"least_runs = {self.least_runs} is not in 1..{self.level_runs} (level_runs)"
            )
        if self.confirm_runs < 1 or self.least_seconds < 0:
            raise InputError(
                f"confirm_runs = {self.confirm_runs} must be ≥ 1 and least_seconds = "
                f"{self.least_seconds:g} ≥ 0"
            )


FALSE_ALARMS = 1e-7
"""Chance that a run of independent noise begins a false alarm (Wald's bound on the sum)."""

_REACH = 2.0
"""No run scores more than so many halves of the smallest change."""


@dataclass(frozen=True, slots=True)
class DetectedDrift:
    """A drift that was found: by how much runs take longer, a fraction, below 0 where they take less.

    ``noise`` is that of a single run; ``since_seconds`` is when the first run that was out of line ended.
    """

    change: float
    noise: float
    since_seconds: float


class DriftDetector:
    """Follows the seconds that runs of one plan take. Constant time and memory a run."""

    def __init__(self, rule: DriftRule | None = None) -> None:
        self.rule = DriftRule() if rule is None else rule
        self.restart()

    def restart(self) -> None:
        """Take the level from the runs that come from now on: another plan runs, or drift was answered."""
        self._levels: list[float] = []
        self._slower, self._faster = _Sum(), _Sum()
        self._level, self._noise = 0.0, 0.0

    @property
    def level_seconds(self) -> float | None:
        """Median of the runs before; None as long as there are too few."""
        return exp(self._level) if len(self._levels) >= self.rule.least_runs else None

    @property
    def noise(self) -> float:
        """Spread of single runs around their level, as a fraction."""
        return self._noise

    def observe(self, seconds: float, at_seconds: float = 0.0) -> DetectedDrift | None:
        """Take in one run and when it ended; say if there is drift."""
        value = log(seconds)
        if len(self._levels) >= self.rule.least_runs:
            drift = self._test(value, at_seconds)
            if drift is not None:
                return drift
        if len(self._levels) < self.rule.level_runs and not self._is_suspect():
            self._learn(value)
        return None

    def _test(self, value: float, at_seconds: float) -> DetectedDrift | None:
        half = max(self.rule.change, self._noise) / 2
        beyond = value - self._level
        limit = max(self.rule.confirm_runs, -log(FALSE_ALARMS) * (self._noise / half) ** 2 / 2)
        for side, score in ((self._slower, beyond / half), (self._faster, -beyond / half)):
            side.add(max(-_REACH, min(_REACH, score)) - 1.0, beyond, at_seconds)
            if side.total >= limit and at_seconds - side.since_seconds >= self.rule.least_seconds:
                return DetectedDrift(exp(side.mean) - 1, self._noise, side.since_seconds)
        return None

    def _is_suspect(self) -> bool:
        """Return True if the newest runs may be drift already: they are no part of the level before."""
        return max(self._slower.total, self._faster.total) >= 1.0

    def _learn(self, value: float) -> None:
        levels = self._levels
        insort(levels, value)
        count = len(levels)
        self._level = (levels[(count - 1) // 2] + levels[count // 2]) / 2
        # of a normal distribution, the quartiles lie 1.35 standard deviations apart
        self._noise = (levels[(3 * count) // 4] - levels[count // 4]) / 1.349 if count > 3 else 0.0


class _Sum:
    """A sum of scores that never falls below zero, and the runs since it last stood there."""

    __slots__ = ("count", "since_seconds", "sum_beyond", "total")

    def __init__(self) -> None:
        self.total = self.sum_beyond = self.since_seconds = 0.0
        self.count = 0

    def add(self, score: float, beyond: float, at_seconds: float) -> None:
        if self.total == 0.0:
            self.sum_beyond, self.count, self.since_seconds = 0.0, 0, at_seconds
        self.total = max(0.0, self.total + score)
        self.sum_beyond += beyond
        self.count += 1

    @property
    def mean(self) -> float:
        """Mean distance from the level since then."""
        return self.sum_beyond / self.count
