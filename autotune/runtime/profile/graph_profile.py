"""Profile of one graph of a session: takes in finished runs at once, and adds them up in batches."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from time import perf_counter_ns

import numpy as np

from autotune.runtime.execution.execution import RunTrace, TimedGroups
from autotune.runtime.execution.program_table import ProgramTable, TableLayout
from autotune.runtime.profile.fading import HALF_LIFE_RUNS, Integers
from autotune.runtime.profile.group_profile import (
    GroupProfile,
    PairProfile,
    RowKey,
    joined_rows,
)
from autotune.runtime.profile.table_history import TableHistory

TABLES_KEPT = 12
"""Tables of one graph with a history of their own: the current one, those on trial, the last ones."""
PAST_GROUPS = 1024
"""Groups of older tables that are kept as one row each."""
TakeTimes = Callable[[Integers, int, int], None]
"""Takes durations of runs, when the first of them began and the last ended, in nanoseconds."""


class GraphProfile:
    """Counts, costs and neighbours of one graph's groups. Safe to use from several threads.

    Every run is counted, with its duration. What its groups took is copied to the end of a buffer, of short runs for some:
    memory that no run has used lately costs more than the copy. 128 to 1,024 runs of a table are added up at once,
    by the run that is the last of them or by a reader: to wake a thread for it costs more. ``take_times``
    is told the durations and ends of runs that are a session's own, and no part of them.
    """

    def __init__(self, take_times: TakeTimes | None = None) -> None:
        self._take_times = take_times
        self._lock = threading.Lock()
        self._tables: OrderedDict[TableLayout, TableHistory] = OrderedDict()
        self._newest = TableHistory.of_nothing()
        self._past = PastGroups()
        self._past_run = 0
        self._runs = 0

    def record(self, trace: RunTrace, began_ns: int, ended_ns: int) -> None:
        """Take in one finished run of one table."""
        newest = self._newest
        if trace.layout is not newest.layout:
            if type(trace.groups) is not TimedGroups:
                self._record_counted(trace, began_ns, ended_ns)
                return
            newest = self._newest = self._opened(trace.groups, began_ns)
        # threads append to lists and buffers without a lock, by single calls of which no two have to agree
        took = newest.took_ns
        count = len(took)
        if not count & newest.untimed:
            newest.pending.extend(trace.groups.nanoseconds)  # type: ignore[attr-defined]  # timed, by its layout
        if not count:
            newest.first_ns = began_ns
        took.append(ended_ns - began_ns)
        newest.last_ns = ended_ns
        if count >= newest.most_pending - 1 and self._lock.acquire(blocking=False):
            try:
                self._add_pending()
            finally:
                self._lock.release()

    @property
    def runs(self) -> int:
        """Runs so far, about: other threads may add some."""
        with self._lock:
            return self._runs + sum(len(one.took_ns) for one in self._tables.values())

    def rows(self, now_ns: int) -> tuple[GroupProfile, ...]:
        """Return a row for every group, those of the newest tables first."""
        with self._lock:
            self._add_pending()
            tables = list(reversed(self._tables.values()))
            found = [row for one in tables for row in one.rows(now_ns, self._runs - one.last_run)]
            found += self._past.rows(0.5 ** ((self._runs - self._past_run) / HALF_LIFE_RUNS))
        return joined_rows(found)

    def pairs(self) -> tuple[PairProfile, ...]:
        """Return groups that follow each other or pass data, the most frequent first."""
        with self._lock:
            self._add_pending()
            tables = list(self._tables.values())
            found = [pair for one in tables for pair in one.pairs(self._runs - one.last_run)]
        return joined_pairs(found)

    def add_pending(self) -> None:
        """Add up all runs that were taken in."""
        with self._lock:
            self._add_pending()

    def _record_counted(self, trace: RunTrace, began_ns: int, ended_ns: int) -> None:
        assert trace.layout is not None, "a run of one table"
        with self._lock:
            history = self._tables.get(trace.layout)
            if history is None:
                history = TableHistory.of_counted(trace.layout, trace.groups, began_ns)
                self._keep(history)
            history.add_counted(trace.groups, began_ns, ended_ns)
            self._count(history, 1)
        if self._take_times is not None:
            self._take_times(np.array([ended_ns - began_ns]), began_ns, ended_ns)

    def expect(self, table: ProgramTable, clock_hz: float) -> None:
        """Open the history of a table that is timed, before a run is of it: that takes 0.5 ms, twice the run of a small network."""
        if table.executable is None:
            return
        with self._lock:
            if table.layout not in self._tables:
                self._open(table.layout, clock_hz, perf_counter_ns())

    def _opened(self, groups: TimedGroups, began_ns: int) -> TableHistory:
        """Return the history of a table, a new one for a new table."""
        known = self._tables.get(groups.layout)
        if known is not None:
            return known
        with self._lock:
            known = self._tables.get(groups.layout)
            if known is not None:  # another thread came first
                return known
            return self._open(groups.layout, groups.clock_hz, began_ns)

    def _open(self, layout: TableLayout, clock_hz: float, since_ns: int) -> TableHistory:
        """Add an empty history. The lock is held."""
        self._add_pending()
        history = TableHistory.of_timed(layout, clock_hz, since_ns)
        self._keep(history)
        return history

    def _add_pending(self) -> None:
        """Add up all runs that were taken in. The lock is held."""
        newest = self._newest
        for history in sorted(self._tables.values(), key=lambda one: one is newest):
            if not history.took_ns:
                continue
            first_ns, last_ns = history.first_ns, history.last_ns
            took = history.add_pending()
            self._count(history, len(took))
            if self._take_times is not None:
                self._take_times(took, first_ns, last_ns)

    def _count(self, history: TableHistory, runs: int) -> None:
        self._runs += runs
        history.last_run = self._runs
        self._tables.move_to_end(history.layout)

    def _keep(self, history: TableHistory) -> None:
        """Add an empty history; the one that was used longest ago becomes rows."""
        self._tables[history.layout] = history
        if len(self._tables) <= TABLES_KEPT:
            return
        _, oldest = self._tables.popitem(last=False)
        self._past.fade(0.5 ** ((self._runs - self._past_run) / HALF_LIFE_RUNS))
        self._past_run = self._runs
        self._past.add(oldest.rows(0, self._runs - oldest.last_run))


class PastGroups:
    """Rows of groups that run no more, bounded: the row that was added to longest ago goes first.

    Not safe to use from several threads.
    """

    def __init__(self, limit: int = PAST_GROUPS) -> None:
        self._limit = limit
        self._rows: OrderedDict[RowKey, GroupProfile] = OrderedDict()

    def add(self, rows: Sequence[GroupProfile]) -> None:
        """Add rows of groups that run no more."""
        for row in rows:
            known = self._rows.pop(row.row_key, None)
            rest = row.at_rest()
            self._rows[row.row_key] = rest if known is None else known.joined(rest)
        for _ in range(len(self._rows) - self._limit):
            self._rows.popitem(last=False)

    def fade(self, weight: float) -> None:
        """Weigh all rows less."""
        for key, row in self._rows.items():
            self._rows[key] = row.faded(weight)

    def rows(self, weight: float = 1.0) -> list[GroupProfile]:
        """Return all rows, the newest first, faded by ``weight``."""
        return [row.faded(weight) for row in reversed(self._rows.values())]


def joined_pairs(pairs: Sequence[PairProfile]) -> tuple[PairProfile, ...]:
    """Return one row for all rows of the same two groups, the most frequent first."""
    found: dict[tuple[object, object], PairProfile] = {}
    for pair in pairs:
        known = found.get((pair.first, pair.second))
        found[pair.first, pair.second] = pair if known is None else known.joined(pair)
    return tuple(sorted(found.values(), key=lambda pair: -pair.runs))
