"""Serving requests while a session is tuned: by the published version, or by one on trial.

A request reads a reference and counts; it never waits for a lock or a compiler.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from operator import is_
from typing import Protocol

import numpy as np
import numpy.typing as npt

from autotune.operators.tensor import Array
from autotune.runtime.execution.execution import RunTrace, TimedGroups, execute
from autotune.runtime.execution.origin import GroupName
from autotune.runtime.execution.program_table import CurrentTable, GroupStep, ProgramTable
from autotune.runtime.online.input_samples import EVERY, InputSamples
from autotune.runtime.online.pace import HERE, Pace
from autotune.runtime.online.watching import MOST_APART, requests_apart
from autotune.targets.protocol import Target

Seconds = Mapping[GroupName, float]
"""What each group of a plan takes in one run."""
Nanoseconds = npt.NDArray[np.int64]


class Trial(Protocol):
    """A trial as requests see it: of any threads."""

    @property
    def window(self) -> tuple[int, int]:
        """First request that the trial looks at next, and the one behind the last."""
        ...

    def take(self, request: int) -> tuple[int, int] | None:
        """Return the burst and the number of the version that a request runs by; None for the published one."""
        ...

    def note(self, nanoseconds: Nanoseconds, burst: int | None) -> None:
        """Take in one finished request, with its burst (None: by the published version)."""
        ...


class Serving:
    """Runs requests, from any threads. One other thread begins and ends trials, and reads what groups take."""

    def __init__(
        self,
        published: CurrentTable,
        target: Target,
        pace: Pace = HERE,
        costs: Callable[[RunTrace], Nanoseconds] | None = None,
    ) -> None:
        """``costs`` gives what each step of a run took; None: the nanoseconds of a native call."""
        self.published, self._target = published, target
        self.pace, self._costs = pace, costs
        self.samples = InputSamples()
        self.runs = 0
        """Requests so far."""
        self.ticks = itertools.count()
        """Gives each request its number."""
        self.watched = MOST_APART
        """Requests of which one is watched while it is quiet."""
        self._offered_at = 0
        self._window = _Window(published.current, pace.window_runs)
        self._trial: tuple[Trial, Sequence[ProgramTable]] | None = None
        self.first_tick = self.end_tick = 0
        """The next requests that a trial looks at: from the first one on, before the end."""

    def run(
        self, inputs: Mapping[str, Array], tick: int | None = None
    ) -> tuple[dict[str, Array], RunTrace]:
        """Run one request; return outputs and costs. It uses one version from start to end.

        ``tick`` is the one that the request took; None takes one.
        """
        runs = self.runs = next(self.ticks) if tick is None else tick
        trial = self._trial
        turn = None if trial is None else trial[0].take(runs)
        table = self.published.current if trial is None or turn is None else trial[1][turn[1]]
        outputs, trace = execute(table, self._target, inputs)
        costs = _nanoseconds if self._costs is None else self._costs
        taken = costs(trace)
        if turn is None:
            self._window.add(table, taken)
        if trial is not None:
            trial[0].note(taken, None if turn is None else turn[0])
            self._watch(trial[0])
        if runs >= self._offered_at:
            self._offered_at = runs + EVERY
            self.samples.offer(inputs)
        self.runs = runs + 1
        return outputs, trace

    @property
    def is_quiet(self) -> bool:
        """True where one request in ``watched`` is enough, and those from ``first_tick`` to ``end_tick``: the others only take
        one of ``ticks``."""
        return self._window.is_full and self.pace.is_here

    def _watch(self, trial: Trial) -> None:
        self.first_tick, self.end_tick = trial.window

    def begin_trial(self, trial: Trial, proposed: Sequence[ProgramTable]) -> None:
        """Let proposed versions serve the requests that the trial takes, the next one on if it likes."""
        known = self.known_runs()
        if known is not None and len(known):
            trial.note(known[-1], None)  # what the first burst finds before it
        for table in proposed:
            self.published.prepare(table)
        self._trial = trial, proposed

    def end_trial(self) -> None:
        """Serve by the published version alone."""
        self._trial = None
        self.first_tick = self.end_tick = 0

    def renew(self) -> None:
        """Forget what groups took: another version runs from now on."""
        self._window = _Window(self.published.current, self.pace.window_runs)

    def seconds(self) -> Seconds | None:
        """Return what each group of the published version takes; None before there are enough runs."""
        if not self._window.is_of(self.published.current):  # another thread has published
            self.renew()
        rows = self._window.rows()
        if len(rows) < self.pace.window_runs:
            return None
        found = median_seconds(self._window.steps, rows)
        self.watched = requests_apart(sum(found.values()))
        return found

    def known_runs(self) -> Nanoseconds | None:
        """Return the newest runs of the published version, [runs, steps]; None on this CPU, whose noise has a long tail."""
        return None if self.pace.is_here else self._window.rows()


def _nanoseconds(trace: RunTrace) -> Nanoseconds:
    """Return what each step of one native call took."""
    assert isinstance(trace.groups, TimedGroups), "the target runs whole networks"
    return trace.groups.nanoseconds


class _Window:
    """The newest runs of one version: a copy of their times, and no object of any, as the profile has them.

    Objects of past runs would take cold memory: 1 % of a request of 0.25 ms.
    """

    def __init__(self, table: ProgramTable, count: int) -> None:
        self.steps, self._count = table.group_steps, count
        self._executable = table.executable
        self._row_bytes = 8 * len(self.steps)
        self._rows = bytearray()
        self.is_full = False
        """True once ``count`` runs are known."""

    def is_of(self, table: ProgramTable) -> bool:
        """Return True if the table is the version."""
        if table.executable is not None or self._executable is not None:
            return table.executable is self._executable
        programs = [[step.program for step in x] for x in (table.group_steps, self.steps)]
        return len(programs[0]) == len(programs[1]) and all(map(is_, *programs))

    def add(self, table: ProgramTable, taken: Nanoseconds) -> None:
        """Take in a run, of any thread; none of another version."""
        if not self.is_of(table):
            return
        rows = self._rows
        rows.extend(taken.tobytes())  # at once
        self.is_full = len(rows) >= self._count * self._row_bytes
        if len(rows) > 4 * self._count * self._row_bytes:
            del rows[: 2 * self._count * self._row_bytes]

    def rows(self) -> Nanoseconds:
        """Return the newest ``count`` runs, [runs, steps]."""
        newest = bytes(self._rows[-self._count * self._row_bytes :])
        return np.frombuffer(newest, np.int64).reshape(-1, len(self.steps))


def median_seconds(steps: Sequence[GroupStep], runs: Nanoseconds) -> Seconds:
    """Return the median seconds of each step's group: its median share of a run [runs, steps], of the median run.

    A machine that is slower for some runs, for all groups alike, changes no share.
    """
    taken = np.maximum(runs, 1).astype(np.float64)
    totals = taken.sum(axis=1)
    found = np.median(taken / totals[:, None], axis=0) * float(np.median(totals)) * 1e-9
    return {step.operators: float(x) for step, x in zip(steps, found, strict=True)}
