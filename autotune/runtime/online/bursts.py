"""Bursts: the requests that a trial takes, some in a row, with many times as many on the current version between them.

A version that runs one request among others finds neither its code nor its weights in the caches: a twin of the current version
then took 28 to 43 % longer, its third run in a row 5 %. So its first runs count nothing, and a burst makes one comparison.
"""

from __future__ import annotations

import math
import threading
from dataclasses import dataclass
from enum import Enum

import numpy as np

from autotune.runtime.online.trial_budget import TrialBudget

GAP = 8
"""Requests of the current version between two bursts, over those of a burst, at least."""
RARE_GAP = 128
"""The same once tuning has rested, and nearly so where requests are short. A burst and the run behind it are then less than one request
in a hundred: what they take longer leaves the slowest request in a hundred as it is."""
GAP_SECONDS, SOON_SECONDS = 0.125, 0.03
"""Time from burst to burst that a trial may take before it has rested: eighteen bursts of a screening in 2 to 3 s. And the same where
the plan in use may have ceased to pay, or fuses little: sixteen bursts in half a second to 0.7 s."""
SPREAD = 0.5
"""Share by which a gap varies, so that no rhythm of the load coincides with the trial's."""
COLD_SECONDS, MOST_COLD = 6e-4, 4
"""Time in which a version brings its code and weights into the caches, and the most runs of it."""
COUNTED_SECONDS, MOST_COUNTED = 2e-3, 9
"""Time of the runs of a burst that count, and the most of them: a median of short runs is worth more than one."""


class Haste(Enum):
    """How soon a trial's bursts follow each other: rarely where it has time, soon where requests may suffer from the plan in use."""

    RARE = "rare"
    USUAL = "usual"
    SOON = "soon"


_LATE = 8
"""Requests behind those that are compared: one of them plans the next burst."""


@dataclass(frozen=True, slots=True)
class BurstShape:
    """Runs of a burst: the first are ``cold`` and count nothing, the others are ``counted``, an odd number.

    Between two bursts lie ``gap`` times as many requests at least. With a gap of 0 the first burst comes at once, and the next
    ones at once or one request behind those that are compared.
    """

    cold: int
    counted: int
    gap: int = GAP

    @classmethod
    def of(cls, run_seconds: float, haste: Haste = Haste.USUAL) -> BurstShape:
        """Return the shape for runs that take so long."""
        cold = min(MOST_COLD, math.ceil(COLD_SECONDS / run_seconds))
        counted = min(MOST_COUNTED, math.ceil(COUNTED_SECONDS / run_seconds))
        counted += 1 - counted % 2
        if haste is Haste.RARE:
            return cls(cold, counted, RARE_GAP)
        apart = SOON_SECONDS if haste is Haste.SOON else GAP_SECONDS
        gap = math.ceil(apart / (run_seconds * (cold + counted)))
        return cls(cold, counted, min(RARE_GAP, max(GAP, gap)))

    @property
    def runs(self) -> int:
        """Runs of a burst."""
        return self.cold + self.counted


class Bursts:
    """Plans the bursts of a trial by the numbers of requests. ``take`` is for requests, of any threads, and waits for no lock.

    At most one request in ``gap`` + 1, or in two, belongs to a burst; none while the ``budget`` is spent. Requests outside of the
    ``window`` need not ask.
    """

    def __init__(self, shape: BurstShape, rng: np.random.Generator, budget: TrialBudget) -> None:
        self.shape, self._rng, self._budget = shape, rng, budget
        self._begin: int | None = None
        self._paid = -1
        """Number of the last burst that the budget paid for: decided by its first request, whichever that is."""
        self._planning = threading.Lock()
        self._last = 2 * shape.runs - (0 if shape.gap else 2)
        """Place in a burst's window behind which the next burst is planned: without a gap the last run that is compared does."""
        self.number = 0
        """Number of the burst that is under way, or comes next."""
        self.is_open = True
        """False once the trial takes no further requests."""

    @property
    def window(self) -> tuple[int, int]:
        """First request that is compared with the next burst, and the one behind the last."""
        if self._begin is None or not self.is_open:
            return 0, 0
        return self._begin - self.shape.counted, self._begin + 2 * self.shape.runs + _LATE

    def take(self, request: int) -> int | None:
        """Return the number of the burst that a request belongs to; None for the current version."""
        if not self.is_open:
            return None
        if self._begin is None:
            self._begin = request + (self._gap() if self.shape.gap else 0)
        at = request - self._begin
        if at < 0:
            return None
        if at < self.shape.runs:
            return self.number if self._paid == self.number else self._opened(request)
        if at > self._last and self._planning.acquire(blocking=False):
            try:
                if request - self._begin > self._last:  # no other thread was faster
                    self._begin = request + self._gap() - min(1, self.shape.gap) * self.shape.runs
                    self.number += 1
            finally:
                self._planning.release()
        return None

    def _opened(self, request: int) -> int | None:
        """Return the number of the burst that begins with this request, or put it off until it is paid."""
        if self._budget.is_open:
            self._paid = self.number
            return self.number
        self._begin = request + self._gap()
        return None

    def _gap(self) -> int:
        least = self.shape.gap * self.shape.runs
        return 1 + least + int(self._rng.integers(1 + max(1, round(SPREAD * least))))
