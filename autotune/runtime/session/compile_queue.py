"""Compiles in the background: a bounded queue that one thread after the other works off."""

from __future__ import annotations

import threading
from typing import Protocol

from autotune.errors import AutotuneError
from autotune.runtime.execution.short_turns import SHORT_TURNS
from autotune.runtime.online.thread_priority import lower_priority
from autotune.targets.native.compiling.compiler import generate_alone

NICENESS = 5
"""Of a job for which no run waits with numpy, over its process's: a third of the weight of a run's thread. At the lowest
priority it would get 1.5 % of a core, and the next bucket of a decoder would take minutes."""
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
    """Works off jobs one by one, the most used first, each in a thread. Safe to use from several
    threads. Closing drops waiting jobs and does not wait for the one that runs.
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
                self._start()
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
        """Work off all jobs, each in a thread of its own: one may lower its priority, not raise it again, and
        those that it starts inherit it."""
        while (job := self._next()) is not None:
            thread = threading.Thread(target=_do, args=(job,), name=self._thread_name)
            thread.start()
            thread.join()  # whatever a defect in a job raises, the others go on

    def _next(self) -> Job | None:
        """Take the most used job; None ends the thread."""
        with self._changed:
            if (
                not threading.main_thread().is_alive()
            ):  # the interpreter ends: nobody will run these
                self._waiting.clear()
            job = max(self._waiting, key=lambda one: one.uses, default=None)
            if job is None:
                self._is_busy = False
                self._changed.notify_all()
                return None
            self._waiting.remove(job)
            return job

    @property
    def _thread_name(self) -> str:
        return f"autotune-compile-{self._name}"

    def _start(self) -> None:
        threading.Thread(target=self._work, name=self._thread_name).start()


def _do(job: Job) -> None:
    """Do a job; the body of its thread."""
    if not job.uses:
        lower_priority(NICENESS)
    generate_alone()
    with SHORT_TURNS:
        job.make()
