"""Writes measurements to the store while they come: a killed process loses a moment's worth at most."""

from __future__ import annotations

import time
from collections.abc import Callable

from autotune.store.records import Record
from autotune.store.store import Store

SAVE_SECONDS = 0.5
"""Longest time that a measurement waits for its transaction, which takes a millisecond. Slower measurements
enter the store one by one."""


class RecordWriter:
    """Adds records to a store in the order in which they come; without a store it does nothing."""

    def __init__(self, store: Store | None, clock: Callable[[], float] = time.monotonic) -> None:
        self._store = store
        self._clock = clock
        self._waiting: list[Record] = []
        self._saved_seconds = clock()

    def add(self, record: Record) -> None:
        """Take a record; write all that wait if the last transaction is ``SAVE_SECONDS`` ago."""
        if self._store is None:
            return
        self._waiting.append(record)
        if self._clock() - self._saved_seconds >= SAVE_SECONDS:
            self.flush()

    def flush(self) -> None:
        """Write all records that wait."""
        waiting, self._waiting = self._waiting, []
        self._saved_seconds = self._clock()
        if self._store is not None:
            self._store.add(waiting)
