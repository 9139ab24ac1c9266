"""Writes measurements to the store while they come: a killed process loses a moment's worth at most."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

from autotune.store.records import Record
from autotune.store.store import Store

SAVE_SECONDS = 0.5
"""Longest time that a measurement waits for its transaction, which takes a millisecond. Slower measurements
enter the store one by one."""
BESIDE = 1_000
"""Records from which a transaction runs in a thread beside the caller: SQLite lets other threads run meanwhile."""


class RecordWriter:
    """Adds records to a store in the order in which they come; without a store it does nothing.

    One transaction at most runs beside the caller. If it fails, its error is raised by the next call that writes.
    """

    def __init__(self, store: Store | None, clock: Callable[[], float] = time.monotonic) -> None:
        self._store = store
        self._clock = clock
        self._waiting: list[Record] = []
        self._saved_seconds = clock()
        self._beside: Future[None] | None = None

    def add(self, record: Record) -> None:
        """Take a record; begin to write all that wait if the last transaction began ``SAVE_SECONDS`` ago."""
        if self._store is None:
            return
        self._waiting.append(record)
        if self._clock() - self._saved_seconds < SAVE_SECONDS:
            return
        if len(self._waiting) < BESIDE:
            self.flush()
            return
        self._finish()
        waiting = self._taken()
        thread = ThreadPoolExecutor(1, "record-writer")
        self._beside = thread.submit(self._store.add, waiting)
        thread.shutdown(wait=False)  # ends with its transaction

    def flush(self) -> None:
        """Write all records that wait, and return when they are stored."""
        try:
            self._finish()
        finally:
            waiting = self._taken()
            if self._store is not None:
                self._store.add(waiting)

    def _taken(self) -> list[Record]:
        waiting, self._waiting = self._waiting, []
        self._saved_seconds = self._clock()
        return waiting

    def _finish(self) -> None:
        """Wait for the transaction beside. Raises its ``StoreError``."""
        beside, self._beside = self._beside, None
        if beside is not None:
            beside.result()
