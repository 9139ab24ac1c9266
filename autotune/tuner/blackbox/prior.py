"""Recordings of the same kernel on other machines: scores for the surrogate, and a list to begin with.

The scores only enter the covariance. What weight they have follows from the values told, and a recording whose
ranks do not clearly agree with them is dropped for good, its failures too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from autotune.targets.recorded_space import RecordedSpace
from autotune.tuner.blackbox.space import Bools, Floats

LEAST_SHARED = 10
"""Valid configurations that a recording must have in common with the space to say anything."""
FAILED = np.inf
"""Time of a configuration that a recording failed on."""
ALL = 1e-3
"""Weight of every machine's time against the best machine's, which decides between equal ones."""


@dataclass(frozen=True, slots=True)
class Prior:
    """``losses`` [j, n]: logarithm of each recording's time over its best, its median at most, where it failed,
    and where it has no such configuration; ``failures`` [j, n]: True
    where it failed."""

    losses: Floats
    failures: Bools

    @classmethod
    def of(cls, space: RecordedSpace, recordings: Sequence[RecordedSpace]) -> Prior:
        """Look up a space's configurations in recordings; those that share too few or do not vary are left out."""
        columns = [_times(space, recording) for recording in recordings]
        usable = [times for times in columns if _says_something(times)]
        losses = np.array([_losses(times) for times in usable]).reshape(len(usable), len(space))
        failed = np.array([times == FAILED for times in usable]).astype(bool).reshape(losses.shape)
        return cls(losses, failed)

    @property
    def scores(self) -> Floats:
        """Losses [j, n], standardised."""
        spread = self.losses.std(axis=1, keepdims=True)
        return np.asarray((self.losses - self.losses.mean(axis=1, keepdims=True)) / spread)

    def portfolio(self, count: int) -> list[int]:
        """Return up to ``count`` configurations of which one is good on each machine, greedily."""
        chosen: list[int] = []
        if not len(self.losses):
            return chosen
        best = self.losses.max(axis=1)
        tie = ALL * self.losses.sum(axis=0)
        for _ in range(min(count, self.losses.shape[1])):
            loss = np.minimum(self.losses, best[:, None]).sum(axis=0) + tie
            loss[chosen] = np.inf
            chosen.append(int(np.argmin(loss)))
            best = np.minimum(best, self.losses[:, chosen[-1]])
        return chosen


def _times(space: RecordedSpace, recording: RecordedSpace) -> Floats:
    """Return the recording's times [n] of a space's configurations, ``FAILED``, or NaN where it has none."""
    if set(recording.parameters) != set(space.parameters):
        return np.full(len(space), np.nan)
    order = [recording.parameters.index(name) for name in space.parameters]
    keys = [tuple(values[place] for place in order) for values in recording.values]
    times = dict(zip(keys, np.where(recording.is_valid, recording.times, FAILED), strict=True))
    return np.array([times.get(values, np.nan) for values in space.values])


def _says_something(times: Floats) -> bool:
    valid = times[np.isfinite(times)]
    return len(valid) >= LEAST_SHARED and np.median(valid) > valid.min()


def _losses(times: Floats) -> Floats:
    """Return the losses [n] of one recording."""
    is_valid = np.isfinite(times)
    losses = np.log(np.where(is_valid, times, np.inf) / times[is_valid].min())
    return np.asarray(np.minimum(losses, np.median(losses[is_valid])))
