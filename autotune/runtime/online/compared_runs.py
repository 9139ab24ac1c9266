"""Requests as they come, made into comparisons: a burst of a proposed version beside as many runs of the current one.

A burst is compared with the runs behind it, once these are as warm: as many follow the change of versions, too. Those before
it are warmer than any burst.
"""

from __future__ import annotations

import math
import statistics
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from autotune.runtime.execution.program_table import GroupStep
from autotune.runtime.online.bursts import BurstShape
from autotune.runtime.online.trial_budget import TrialBudget

BACKLOG = 4096
"""Runs that wait to be compared; the oldest go first."""

Nanoseconds = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class TriedRun:
    """One request in a trial: nanoseconds of each step, without the wait for those of other threads, and its burst (None: the
    current version)."""

    nanoseconds: Nanoseconds
    burst: int | None

    @property
    def total(self) -> float:
        """Nanoseconds of all steps."""
        return max(1.0, float(self.nanoseconds.sum()))


@dataclass(frozen=True, slots=True)
class Scope:
    """Places of the steps that a change touches: in the current version, and in the proposed one."""

    before: tuple[int, ...]
    after: tuple[int, ...]


def scope_of(
    names: frozenset[str], before: Sequence[GroupStep], after: Sequence[GroupStep]
) -> Scope:
    """Return the steps that compute the named operators, and the one behind each where both versions share it.

    A step finds other data in the caches behind a changed one.
    """
    same = {_mark(step) for step in before} & {_mark(step) for step in after}

    def touched(steps: Sequence[GroupStep]) -> tuple[int, ...]:
        own = {i for i, step in enumerate(steps) if not names.isdisjoint(step.operators)}
        behind = {i + 1 for i in own if i + 1 < len(steps) and i + 1 not in own}
        return tuple(sorted(own | {i for i in behind if _mark(steps[i]) in same}))

    return Scope(touched(before), touched(after))


def _mark(step: GroupStep) -> tuple[str, ...]:
    return step.key + step.operators


@dataclass(frozen=True, slots=True)
class Comparison:
    """Warm runs of a burst, and as many of the current version beside them."""

    burst: int
    current: tuple[TriedRun, ...]
    proposed: tuple[TriedRun, ...]

    def log_ratio(self, scope: Scope) -> float:
        """Return the logarithm of the proposed over the current time of some steps, by medians."""
        current, proposed = (
            _median(self.current, scope.before),
            _median(self.proposed, scope.after),
        )
        return math.log(proposed / current)

    def whole(self) -> float:
        """Return the logarithm of the ratio of all steps."""
        steps = len(self.current[0].nanoseconds), len(self.proposed[0].nanoseconds)
        return self.log_ratio(Scope(tuple(range(steps[0])), tuple(range(steps[1]))))


def _median(runs: Sequence[TriedRun], places: Sequence[int]) -> float:
    rows = [run.nanoseconds for run in runs]
    return max(1.0, float(np.median(np.stack(rows)[:, list(places)].sum(axis=1))))


class ComparedRuns:
    """Takes in requests in the order in which they ended, of any threads; one other thread takes the comparisons.

    Books what bursts cost: their cold runs, what their warm ones take more, and the cold runs behind them.
    """

    def __init__(self, shape: BurstShape, budget: TrialBudget) -> None:
        self.shape, self._budget = shape, budget
        self._runs: deque[TriedRun] = deque(maxlen=BACKLOG)
        self._before: deque[TriedRun] = deque(maxlen=shape.counted)
        self._burst: list[TriedRun] = []
        self._behind: list[TriedRun] = []

    def note(self, nanoseconds: Nanoseconds, burst: int | None) -> None:
        """Take in one finished request."""
        self._runs.append(TriedRun(nanoseconds, burst))

    def comparisons(self) -> Iterator[Comparison]:
        """Give what the requests since the last call have completed."""
        while self._runs:
            run = self._runs.popleft()
            if run.burst is not None:
                if self._burst and run.burst != self._burst[0].burst:
                    self._begin()
                self._burst.append(run)
                continue
            if not self._burst:
                self._before.append(run)
                continue
            self._behind.append(run)
            if len(self._behind) >= self.shape.runs:
                found = self._compared()
                self._begin()
                if found is not None:
                    yield found

    def _begin(self) -> None:
        """Wait for the next burst; what ran behind this one may run before that."""
        self._before.extend(self._behind[self.shape.cold :])
        self._burst, self._behind = [], []

    def _compared(self) -> Comparison | None:
        """Book the burst that is complete; return its comparison, or None where too many runs were lost.

        Callers side by side make a burst longer or shorter by some; both sides count equally many.
        """
        cold, before, burst = self.shape.cold, tuple(self._before), self._burst
        count = min(self.shape.counted, len(before), len(burst) - cold)
        if count < 1:
            return None
        self._spend(before)
        count -= 1 - count % 2  # a median of an odd number is one of them
        number = burst[0].burst
        assert number is not None, "it is a burst's"
        warm = slice(cold, cold + count)
        return Comparison(number, tuple(self._behind[warm]), tuple(burst[warm]))

    def _spend(self, before: Sequence[TriedRun]) -> None:
        usual = statistics.median(run.total for run in before)
        warm = statistics.median(run.total for run in self._burst[self.shape.cold :])
        cold = (*self._burst[: self.shape.cold], *self._behind[: self.shape.cold])
        for total in (*(run.total for run in cold), *[warm] * self.shape.counted):
            self._budget.spend(1e-9 * (total - usual), 1e-9 * usual)
