"""Drift: when the error of predictions grows beyond what the model was calibrated to."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from math import fsum

from autotune.errors import InputError


@dataclass(frozen=True, slots=True)
class DriftRule:
    """Drift is a mean error over ``window_runs`` runs above ``factor`` times the baseline, and at
    least ``floor`` (a fraction) above it: a model that errs by 1 % may err by 3 % unpunished.
    At least ``confirm_runs`` of them must be above that each, so that one odd run is not drift."""

    window_runs: int = 6
    confirm_runs: int = 3
    factor: float = 2.0
    floor: float = 0.05

    def __post_init__(self) -> None:
        if self.window_runs < 2:
            raise InputError(
                f"drift window of {self.window_runs} runs is too short; give 2 or more"
            )
        if not 1 <= self.confirm_runs <= self.window_runs:
            raise InputError(
                f"{self.confirm_runs} runs cannot confirm drift in a window of {self.window_runs}"
            )
        if self.factor <= 1 or self.floor < 0:
            raise InputError(f"drift factor {self.factor} must be > 1 and floor {self.floor} ≥ 0")

    def threshold(self, baseline: float) -> float:
        """Mean error from which on there is drift."""
        return max(self.factor * baseline, baseline + self.floor)

    def beyond(self, window: Sequence[tuple[int, float]], baseline: float) -> int | None:
        """The first run of a full window of (run, error) that is out of line, if there is drift."""
        threshold = self.threshold(baseline)
        out = [run for run, error in window if error > threshold]
        full = len(window) == self.window_runs
        if not full or _mean(window) <= threshold or len(out) < self.confirm_runs:
            return None
        return out[0]


@dataclass(frozen=True, slots=True)
class Drift:
    """A drift that was found: rolling error, the level it is compared with, and the first run (as
    counted by the caller) that was out of line."""

    error: float
    baseline: float
    first_run: int


class DriftDetector:
    """Follows the error of one model's predictions, one figure per run.

    The baseline is the mean of the model's first window, but no more than ``expected``, the error
    that the model should have (None: whatever it has): a machine that drifted before that window,
    or while the model was trained, is found too.
    """

    def __init__(self, rule: DriftRule, expected: float | None) -> None:
        self.rule = rule
        self._limit = expected
        self._baseline: float | None = None
        self._window: deque[tuple[int, float]] = deque(maxlen=rule.window_runs)

    @property
    def error(self) -> float | None:
        """Rolling mean error; None before the first run."""
        return _mean(self._window) if self._window else None

    @property
    def baseline(self) -> float | None:
        """The level that drift is compared with; None until the first window is full."""
        return self._baseline

    def observe(self, run: int, error: float) -> Drift | None:
        """Take in the error (a fraction) of one run; says when there is drift."""
        self._window.append((run, error))
        if len(self._window) < self.rule.window_runs:
            return None
        mean = _mean(self._window)
        if self._baseline is None:
            self._baseline = mean if self._limit is None else min(mean, self._limit)
        first = self.rule.beyond(tuple(self._window), self._baseline)
        return None if first is None else Drift(mean, self._baseline, first)

    def restart(self, expected: float | None) -> None:
        """A new model or plan predicts from now on: its first window is the new baseline, limited
        by ``expected`` as at the start."""
        self._limit = expected
        self._baseline = None
        self._window.clear()


def _mean(window: Collection[tuple[int, float]]) -> float:
    return fsum(error for _, error in window) / len(window)
