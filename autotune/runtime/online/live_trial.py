"""A live trial: a proposed version serves a small share of real requests, each paired with a neighbour on the current one.

Nothing runs twice, and nothing runs beside the requests: a trial costs what the proposed version is slower by, on its
share. All changes of a version are judged at once, each by the steps that it touches.
"""

from __future__ import annotations

import math
import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np
import numpy.typing as npt

from autotune.runtime.execution.program_table import GroupStep
from autotune.runtime.online.paired_test import PairedTest, Verdict
from autotune.tuner.contest import RISK

SHARE = 8
"""Of at least so many requests one runs by the proposed version."""
SPREAD = 4
"""Requests by which that number varies, so that no caller's rhythm coincides with the trial's."""
WARM_UP = 2
"""First runs of the proposed version, which bring its code and weights into memory, and count nothing."""
MOST_SERVED = 1024
"""Requests that the proposed version serves at most: where callers never let one run alone, its first step shows nothing."""
BACKLOG = 4096
"""Runs that wait to be paired; the oldest go first."""

C = TypeVar("C")


@dataclass(frozen=True, slots=True)
class TriedRun:
    """One request in a trial: nanoseconds of each step, the version, and whether no other request ran beside it.

    Requests of several threads take turns at one pool, and the first step's time holds the wait.
    """

    nanoseconds: npt.NDArray[np.int64]
    is_proposed: bool
    is_alone: bool


@dataclass(frozen=True, slots=True)
class Scope:
    """Places of the steps that a change touches: in the current version, and in the proposed one."""

    before: tuple[int, ...]
    after: tuple[int, ...]

    @property
    def holds_first(self) -> bool:
        """True if the first step belongs to it."""
        return 0 in self.before or 0 in self.after


def scope_of(
    names: frozenset[str], before: Sequence[GroupStep], after: Sequence[GroupStep]
) -> Scope:
    """Return the steps that compute the named operators, and the one behind each where both versions share it.

    A step finds other data in the caches behind a changed one.
    """
    same = {step.key + step.operators for step in before} & {
        step.key + step.operators for step in after
    }

    def touched(steps: Sequence[GroupStep]) -> tuple[int, ...]:
        own = {i for i, step in enumerate(steps) if not names.isdisjoint(step.operators)}
        behind = {i + 1 for i in own if i + 1 < len(steps) and i + 1 not in own}
        return tuple(sorted(own | {i for i in behind if _mark(steps[i]) in same}))

    return Scope(touched(before), touched(after))


def _mark(step: GroupStep) -> tuple[str, ...]:
    return step.key + step.operators


class LiveTrial(Generic[C]):
    """Tests changes of a proposed version beside the current one, by requests as they come.

    ``takes`` and ``note`` are for requests, of any threads; ``evaluate`` is for one other thread.
    """

    def __init__(self, scopes: Sequence[tuple[C, Scope]], rng: np.random.Generator) -> None:
        self._rng = rng
        self._local = threading.local()
        self._countdown = SHARE
        self._open = True
        self._runs: deque[TriedRun] = deque(maxlen=BACKLOG)
        self._last: TriedRun | None = None
        self._waiting: tuple[TriedRun, TriedRun] | None = None
        self._cold = WARM_UP
        self._pairs = 0
        risk = RISK / max(1, len(scopes))  # of all changes together
        self.tests = [(change, scope, PairedTest(risk)) for change, scope in scopes]
        self.whole = PairedTest()
        self._proposed: list[npt.NDArray[np.int64]] = []
        self.served = 0
        """Requests that the proposed version has served."""

    def takes(self) -> bool:
        """Return True if the caller's next request is to run by the proposed version."""
        self._countdown -= 1  # a lost count between threads delays the next one
        if self._countdown > 0 or not self._open:
            self._local.was_proposed = False
            return False
        if getattr(self._local, "was_proposed", False):  # never two in a row for one caller
            self._local.was_proposed = False
            return False
        self._countdown = SHARE + self._drawn()
        self._local.was_proposed = True
        return True

    def _drawn(self) -> int:
        return int(self._rng.integers(SPREAD))

    def note(self, nanoseconds: npt.NDArray[np.int64], is_proposed: bool, is_alone: bool) -> None:
        """Take in one finished request."""
        self._runs.append(TriedRun(nanoseconds, is_proposed, is_alone))

    def stop(self) -> None:
        """Take no further requests."""
        self._open = False

    def evaluate(self) -> bool:
        """Pair the runs that came in; return True once all changes are decided or the version is clearly worse.

        Also once it has served ``MOST_SERVED`` requests.
        """
        while self._runs:
            self._take_in(self._runs.popleft())
        is_decided = all(test.verdict is not Verdict.OPEN for _, _, test in self.tests)
        if is_decided or self.whole.verdict is Verdict.WORSE or self.served >= MOST_SERVED:
            self.stop()
        return not self._open

    def proposed_medians(self) -> npt.NDArray[np.int64] | None:
        """Return the median nanoseconds of the proposed version's steps; None before it has run warm."""
        if not self._proposed:
            return None
        medians: npt.NDArray[np.int64] = np.median(np.stack(self._proposed), axis=0).astype(
            np.int64
        )
        return medians

    def _take_in(self, run: TriedRun) -> None:
        if run.is_proposed:
            self.served += 1
            self._cold -= 1
            if self._last is not None and self._cold < 0:
                self._waiting = self._last, run
                self._proposed.append(run.nanoseconds)
            return
        if self._waiting is not None:
            before, proposed = self._waiting
            self._pairs += 1
            self._pair(before if self._pairs % 2 else run, proposed)
            self._waiting = None
        self._last = run

    def _pair(self, current: TriedRun, proposed: TriedRun) -> None:
        alone = current.is_alone and proposed.is_alone
        for _, scope, test in self.tests:
            if alone or not scope.holds_first:
                test.add(_log_ratio(scope, current, proposed))
        first = 0 if alone else 1
        whole = Scope(
            tuple(range(first, len(current.nanoseconds))),
            tuple(range(first, len(proposed.nanoseconds))),
        )
        if whole.before and whole.after:
            self.whole.add(_log_ratio(whole, current, proposed))


def _log_ratio(scope: Scope, current: TriedRun, proposed: TriedRun) -> float:
    return math.log(_sum(proposed, scope.after)) - math.log(_sum(current, scope.before))


def _sum(run: TriedRun, places: Sequence[int]) -> float:
    return max(1.0, float(run.nanoseconds[list(places)].sum()))
