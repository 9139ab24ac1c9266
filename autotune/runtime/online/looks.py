"""Requests that learning looks at: a request leaves what it took behind, and a thread of learning takes it in later.

What a request does beside its network finds cold caches. To tell learners at once took 0.15 to 0.2 ms of every request that was
looked at, more than a small network takes.
"""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Callable
from time import perf_counter_ns
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from autotune.runtime.execution.execution import RunTrace
from autotune.runtime.execution.program_table import ProgramTable
from autotune.runtime.execution.short_turns import SHORT_TURNS

MOST_WAITING = 256
"""Looks that wait for a thread of learning; where none comes, requests take them in."""
AT_ONCE = 8
"""Looks that are taken in before other threads get their turn, and by one request."""


class Trial(Protocol):
    """A trial as requests see it: of any threads."""

    @property
    def window(self) -> tuple[int, int]:
        """First request that the trial looks at next, and the one behind the last."""
        ...

    def take(self, request: int) -> tuple[int, int] | None:
        """Return the burst and the number of the version that a request runs by; None for the published one."""
        ...

    def note(self, nanoseconds: npt.NDArray[np.int64], burst: int | None) -> None:
        """Take in one finished request, with its burst (None: by the published version)."""
        ...


class Look(NamedTuple):
    """One finished request that stands for so many ``requests``: its table, and what it took.

    ``trial`` is the one under way, ``burst`` the request's in it (None: by the published version). It began and ended at
    nanoseconds of ``perf_counter_ns``.
    """

    table: ProgramTable
    trace: RunTrace
    trial: Trial | None
    burst: int | None
    requests: int
    began_ns: int
    ended_ns: int

    @property
    def ago_seconds(self) -> float:
        """Seconds since it ended."""
        return 1e-9 * (perf_counter_ns() - self.ended_ns)


class Looks:
    """Hands looks over, in the order in which they were added. ``add`` is for requests, of any threads.

    ``takers`` take in a look, one at a time.
    """

    def __init__(self, *takers: Callable[[Look], None]) -> None:
        self.takers = takers
        self._waiting: deque[Look] = deque()
        self._taking = threading.Lock()

    def add(self, look: Look) -> None:
        """Leave a look for those who take it in."""
        self._waiting.append(look)
        if len(self._waiting) >= MOST_WAITING:
            self.catch_up()

    def catch_up(self) -> None:
        """Take in a few that wait, unless another thread does; for requests."""
        if self._waiting and self._taking.acquire(blocking=False):
            try:
                self._give(AT_ONCE)
            finally:
                self._taking.release()

    def take_in(self) -> None:
        """Take in all that wait now; requests get their turn in between."""
        with self._taking, SHORT_TURNS:
            for _ in range(math.ceil(len(self._waiting) / AT_ONCE)):
                self._give(AT_ONCE)
                time.sleep(0)

    def _give(self, most: int) -> None:
        for _ in range(min(most, len(self._waiting))):
            look = self._waiting.popleft()
            for take in self.takers:
                take(look)
