"""A background thread that works off a bounded queue in batches, and keeps its failure."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeoutError
from typing import Generic, TypeVar

from autotune.errors import AutotuneError

T = TypeVar("T")


class BackgroundWorker(Generic[T]):
    """Calls ``work`` with all items put since the last call, in order.

    A failure of ``work`` ends the worker: ``failed`` is told, further items are refused, and ``wait`` and
    ``close`` raise it. ``limit`` bounds the queue; the oldest item goes first. ``in_background`` gives the
    thread, and processes that it starts, the lowest priority.
    """

    def __init__(
        self,
        name: str,
        work: Callable[[list[T]], None],
        limit: int,
        failed: Callable[[BaseException], None],
        *,
        in_background: bool = False,
    ) -> None:
        self._name = name
        self._work = work
        self._failed = failed
        self._lock = threading.Lock()
        self._pending: deque[T] = deque(maxlen=limit)
        self._dropped = 0
        self._task: Future[None] | None = None
        self._closed = False
        self._thread = ThreadPoolExecutor(
            1, f"autotune-{name}", yield_to_runs if in_background else None
        )

    def put(self, item: T) -> None:
        """Hand over an item; return at once. Does nothing when the worker is closed or failed."""
        with self._lock:
            if self._closed or (self._task is not None and self._task.done()):
                return
            self._dropped += len(self._pending) == self._pending.maxlen
            self._pending.append(item)
            if self._task is not None:
                return
            task = self._task = self._thread.submit(self._drain)
        task.add_done_callback(self._note)

    def newest(self, count: int) -> list[T]:
        """Return the last ``count`` waiting items, oldest first."""
        with self._lock:
            return list(self._pending)[-count:]

    def take_dropped(self) -> int:
        """Return the number of items that the full queue has lost since the last call."""
        with self._lock:
            dropped, self._dropped = self._dropped, 0
            return dropped

    def wait(self, timeout_seconds: float | None) -> None:
        """Return when all is worked off. Raises ``AutotuneError`` when that takes longer or the
        work has failed."""
        with self._lock:
            task = self._task
        if task is None:
            return
        try:
            error = task.exception(timeout_seconds)
        except FutureTimeoutError:
            raise AutotuneError(
                f"online {self._name} is still busy after {timeout_seconds:g} s; wait longer"
            ) from None
        if error is not None:
            raise AutotuneError(f"online {self._name} stopped: {error}") from error

    def close(self) -> None:
        """Work off what was put, then stop. Raises ``AutotuneError`` when the work has failed."""
        with self._lock:
            self._closed = True
        self._thread.shutdown(wait=True)
        self.wait(None)

    def _note(self, task: Future[None]) -> None:
        error = task.exception()
        if error is not None:
            self._failed(error)

    def _drain(self) -> None:
        while True:
            with self._lock:
                batch = list(self._pending)
                self._pending.clear()
                if not batch:
                    self._task = None
                    return
            self._work(batch)


def yield_to_runs() -> None:
    """Give this thread the lowest priority, where the system has one for single threads."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 19)
