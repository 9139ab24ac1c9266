"""Compiles in the background: a bounded queue that one thread of the lowest priority works off."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Protocol

from autotune.errors import AutotuneError
from autotune.runtime.online.background_worker import yield_to_runs
from autotune.targets.native.compiling.compiler import generate_alone

QUEUE_LIMIT = 64
"""Jobs that wait; others are refused, and ask again when they are used again."""


class Job(Protocol):
    """Something to compile. ``make`` handles its own failures."""

    @property
    def uses(self) -> int:
        """Runs that would have used the result so far."""
        ...

    def make(self) -> None:
        """Do the work."""
        ...


class CompileQueue:
    """Works off jobs one by one, the most used first. Safe to use from several threads.

    The thread starts with the first job and ends when none is left. Closing drops waiting jobs and
    does not wait for the one that runs.
    """

    def __init__(self, name: str, limit: int = QUEUE_LIMIT) -> None:
        self._name, self._limit = name, limit
        self._changed = threading.Condition()
        self._waiting: list[Job] = []
        self._is_busy = False
        self._closed = False

    def put(self, job: Job) -> bool:
        """Add a job and return True; False if it waits already, the queue is full, or closed."""
        with self._changed:
            if self._closed or job in self._waiting or len(self._waiting) >= self._limit:
                return False
            self._waiting.append(job)
            if not self._is_busy:
                self._is_busy = True
                threading.Thread(target=self._work, name=f"autotune-compile-{self._name}").start()
            return True

    def wait(self, timeout_seconds: float | None) -> None:
        """Return when no job waits or runs. Raises ``AutotuneError`` when that takes longer."""
        with self._changed:
            if not self._changed.wait_for(lambda: not self._is_busy, timeout_seconds):
                raise AutotuneError(
                    f"{self._name}: still compiles after {timeout_seconds:g} s; wait longer"
                )

    def close(self) -> None:
        """Drop the jobs that wait; refuse others."""
        with self._changed:
            self._closed = True
            self._waiting.clear()

    def _work(self) -> None:
        yield_to_runs()
        generate_alone()
        while True:
            with self._changed:
                if not self._waiting:
                    self._is_busy = False
                    self._changed.notify_all()
                    return
                job = max(self._waiting, key=lambda one: one.uses)
                self._waiting.remove(job)
            self._finish(job.make)

    def _finish(self, make: Callable[[], None]) -> None:
        """Run a job; a defect in it must not end the thread while others believe that it works."""
        try:
            make()
        except BaseException:
            with self._changed:
                self._is_busy = False
                self._waiting.clear()
                self._changed.notify_all()
            raise
