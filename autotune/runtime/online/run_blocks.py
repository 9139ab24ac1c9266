"""Blocks of runs on this machine, as its drift detector takes them: a request copies its times, numpy adds up many at once later."""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass, replace

import numpy as np

from autotune.runtime.execution.execution import RunTrace, TimedGroups


@dataclass(frozen=True, slots=True)
class RunBlock:
    """Some runs by one plan and model, one after the other, and their lower quartile in seconds.

    The first of them began at ``begun_seconds`` and ended at ``began_seconds``, where the block begins; the last ended at
    ``at_seconds``. ``count`` are the runs that the block stands for: not each run is looked at.
    """

    begun_seconds: float
    began_seconds: float
    at_seconds: float
    seconds: float
    versions: tuple[int, int]
    count: int = 0


class RunBlocks:
    """Gathers runs of any threads; one thread at a time takes them as blocks of ``block_runs``.

    A run is bytes at the end of a buffer: objects of past runs would be cold memory to those that follow.
    """

    def __init__(self, block_runs: int) -> None:
        self._block_runs = block_runs
        self._newest: _Stretch | None = None
        self._stretches: deque[_Stretch] = deque()
        self._opening = threading.Lock()
        self._counted = 0

    def add(self, trace: RunTrace, at_seconds: float) -> None:
        """Take in a run of one native call, and when it ended."""
        groups = trace.groups
        assert isinstance(groups, TimedGroups), "this machine runs whole networks"
        stretch = self._newest
        if stretch is None or not stretch.is_of(trace):
            stretch = self._opened(trace)
        stretch.rows.extend(groups.nanoseconds.data)  # single calls: threads need no lock
        stretch.ended.append(at_seconds)

    def take(self, finished: int) -> list[RunBlock]:
        """Return the blocks that are whole by now; with those before they stand for ``finished`` runs.

        Of a plan or model that runs no more, less than a block is left out.
        """
        stretches = tuple(self._stretches)
        found = [one for stretch in stretches for one in stretch.blocks(self._block_runs)]
        for _ in stretches[:-1]:
            self._stretches.popleft()
        if found:
            found[-1] = replace(found[-1], count=finished - self._counted)
            self._counted = finished
        return found

    def _opened(self, trace: RunTrace) -> _Stretch:
        """Return the stretch of a run's table, which is the last one then."""
        with self._opening:
            stretch = self._newest
            if stretch is None or not stretch.is_of(trace):
                stretch = self._newest = _Stretch(trace)
                self._stretches.append(stretch)
            return stretch


class _Stretch:
    """Runs of one table: their times as bytes, int64 nanoseconds [runs, steps], and when each ended."""

    def __init__(self, trace: RunTrace) -> None:
        self._layout, self._versions = trace.layout, trace.versions
        self._steps = len(trace.groups)
        self.rows, self.ended = bytearray(), list[float]()

    def is_of(self, trace: RunTrace) -> bool:
        """Return True if the run is of this table."""
        return trace.layout is self._layout and trace.versions == self._versions

    def blocks(self, block_runs: int) -> list[RunBlock]:
        """Take what fills blocks."""
        row_bytes = 8 * self._steps
        count = min(len(self.ended), len(self.rows) // row_bytes) // block_runs
        if count == 0:
            return []
        runs = count * block_runs
        rows = np.frombuffer(self.rows[: runs * row_bytes], np.int64).reshape(-1, self._steps)
        ended = np.array(self.ended[:runs]).reshape(count, block_runs)
        del self.rows[: runs * row_bytes], self.ended[:runs]
        seconds = 1e-9 * rows.sum(axis=1).reshape(count, block_runs)
        low = np.sort(seconds, axis=1)[:, block_runs // 4]
        columns = (ended[:, 0] - seconds[:, 0], ended[:, 0], ended[:, -1], low)
        lines = zip(*(column.tolist() for column in columns), strict=True)
        return [RunBlock(begun, began, at, low, self._versions) for begun, began, at, low in lines]
