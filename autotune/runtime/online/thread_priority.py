"""Priority of a background thread: low while nobody waits for it, that of its process while somebody does."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Callable
from functools import cache
from pathlib import Path

LOWEST = 19
"""Niceness of a process of its own, which holds no lock that runs need."""

LOW, LOW_FOR_GOOD = 10, 5
"""Niceness of a thread where it can be taken back, and where it cannot. At 19 learning took 190 s for 6 s of work beside ten busy
processes; latencies of requests were the same at 0, 5, 10 and 19."""


class ThreadPriority:
    """Priority of one thread, where the system has one for single threads. Calls are not synchronised."""

    def __init__(self) -> None:
        self._thread: int | None = None
        self._ordinary = 0

    def begin(self, is_urgent: bool) -> None:
        """Take the calling thread, and lower its priority unless it ``is_urgent``."""
        if sys.platform != "linux":
            return
        self._thread = threading.get_native_id()
        self._ordinary = os.getpriority(os.PRIO_PROCESS, self._thread)
        self.set_urgent(is_urgent)

    def set_urgent(self, is_urgent: bool) -> None:
        """Give the thread its process's priority, or lower it again."""
        if self._thread is None:
            return
        low = max(self._ordinary, LOW if _can_raise() else LOW_FOR_GOOD)
        with contextlib.suppress(OSError):  # not permitted: it stays as it is
            os.setpriority(os.PRIO_PROCESS, self._thread, self._ordinary if is_urgent else low)

    def end(self) -> None:
        """Forget the thread before it ends: its number may be another's then."""
        self._thread = None


def run_when_idle() -> None:
    """Let this process, whose threads hold no lock that runs need, run only where a core has nothing else to do.

    A process of niceness 19 is not preempted at once when a request wakes a thread: beside one, runs of 1.9 ms on both of two
    cores took 55 % longer by the median; beside one that runs when idle, 4 %. Where that could not be taken back, it stays at
    niceness 19: no core may ever be idle.
    """
    yield_to_runs()
    if sys.platform == "linux" and can_leave_idle():
        with contextlib.suppress(OSError):
            os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))


def begin_idle(process: int) -> None:
    """Let a process that has just begun do what ``run_when_idle`` does: to load its modules takes half a second of a core,
    before it could say so itself."""
    if sys.platform != "linux":
        return
    with contextlib.suppress(OSError):  # it has ended
        os.setpriority(os.PRIO_PROCESS, process, LOWEST)
    set_idle(process, True)


def set_idle(process: int, is_idle: bool) -> None:
    """Let all threads of a process that runs when idle run with niceness 19, or only when idle again.

    Does nothing where the second could not be taken back: there such a process stays at niceness 19.
    """
    if sys.platform != "linux" or not can_leave_idle():
        return
    policy = os.SCHED_IDLE if is_idle else os.SCHED_OTHER
    with contextlib.suppress(OSError):  # it has ended
        for thread in Path(f"/proc/{process}/task").iterdir():
            with contextlib.suppress(OSError):  # not permitted, or ended
                os.sched_setscheduler(int(thread.name), policy, os.sched_param(0))


def yield_to_runs() -> None:
    """Give this thread the lowest priority for good."""
    lower_priority(2 * LOWEST)


def lower_priority(steps: int) -> None:
    """Lower this thread's priority by ``steps``, 19 the lowest, where the system has one for single threads.

    From the priority that it has: a process may have raised or lowered its own.
    """
    if sys.platform == "linux":
        thread = threading.get_native_id()
        with contextlib.suppress(OSError):
            now = os.getpriority(os.PRIO_PROCESS, thread)
            os.setpriority(os.PRIO_PROCESS, thread, min(LOWEST, now + steps))


@cache
def can_leave_idle() -> bool:
    """Return True if this user may take the idle class back."""

    def attempt() -> None:
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))

    return _is_permitted(attempt)


@cache
def _can_raise() -> bool:
    """Return True if this user may raise what was lowered."""

    def attempt() -> None:
        thread = threading.get_native_id()
        ordinary = os.getpriority(os.PRIO_PROCESS, thread)
        os.setpriority(os.PRIO_PROCESS, thread, min(LOWEST, ordinary + 1))
        os.setpriority(os.PRIO_PROCESS, thread, ordinary)

    return _is_permitted(attempt)


def _is_permitted(attempt: Callable[[], None]) -> bool:
    """Return True if an attempt raises no ``OSError``, made on a thread that ends at once."""
    allowed: list[bool] = []

    def run() -> None:
        with contextlib.suppress(OSError):
            attempt()
            allowed.append(True)

    one = threading.Thread(target=run)
    one.start()
    one.join()
    return bool(allowed)
