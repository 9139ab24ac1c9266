"""A thread for each device: a group that hangs holds its own device only."""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any

from autotune.errors import TargetError, one_line

Wait = Callable[[threading.Event, float], bool]
"""Waits for an event for so many seconds; False if it did not come."""


class DeviceFailure(TargetError):
    """A device that raised or that gave no result in time. ``device`` is its name, ``reason`` one line."""

    def __init__(self, device: str, reason: str) -> None:
        super().__init__(f"device {device} failed: {reason}")
        self.device, self.reason = device, reason


class _Job:
    def __init__(self, work: Callable[[], Any]) -> None:
        self.work, self.done = work, threading.Event()
        self.result: Any = None
        self.error: Exception | None = None


class DeviceWorker:
    """Runs work of one device in a daemon thread, which ends by ``stop`` or with the process.

    Several threads may call it; the device does one thing at a time.
    """

    def __init__(
        self, device: str, time_limit_seconds: float, wait: Wait = threading.Event.wait
    ) -> None:
        self._device, self._limit_seconds, self._wait = device, time_limit_seconds, wait
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._turn = threading.Lock()
        self._failure: DeviceFailure | None = None
        name = f"autotune-{device}"
        self._thread = threading.Thread(target=self._serve, name=name, daemon=True)
        self._thread.start()

    def call(self, work: Callable[[], Any]) -> Any:
        """Return the result of ``work``, after that of other threads.

        Raises ``DeviceFailure`` for whatever it raises, and when it takes longer than the time limit; waiting for other
        threads does not count. A device that has failed fails at once from then on.
        """
        with self._turn:
            if self._failure is not None:
                raise DeviceFailure(self._device, self._failure.reason)
            try:
                return self._done(work)
            except DeviceFailure as failure:
                self._failure = failure
                raise

    def _done(self, work: Callable[[], Any]) -> Any:
        job = _Job(work)
        self._jobs.put(job)
        if not self._wait(job.done, self._limit_seconds):
            raise DeviceFailure(self._device, f"no result within {self._limit_seconds:g} s")
        if job.error is not None:
            reason = one_line(f"{type(job.error).__name__}: {job.error}")
            raise DeviceFailure(self._device, reason) from job.error
        return job.result

    def stop(self) -> None:
        """End the thread once its present work is done."""
        self._jobs.put(None)

    def _serve(self) -> None:
        while (job := self._jobs.get()) is not None:
            try:
                job.result = job.work()
            except Exception as error:  # noqa: BLE001 - the boundary that must survive a device's failure
                job.error = error
            job.done.set()
            job = None  # an idle worker holds no arrays
