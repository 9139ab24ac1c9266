"""Serving requests while a session is tuned: by the published version, or by one on trial.

A request reads a reference and counts; it never waits for a lock or a compiler.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import is_

import numpy as np
import numpy.typing as npt

from autotune.operators.tensor import Array
from autotune.runtime.execution.execution import RunTrace, TimedGroups, execute
from autotune.runtime.execution.origin import GroupName
from autotune.runtime.execution.program_table import CurrentTable, GroupStep, ProgramTable
from autotune.runtime.online.input_samples import EVERY, InputSamples
from autotune.runtime.online.looks import Look, Looks, Trial
from autotune.runtime.online.pace import HERE, Pace
from autotune.runtime.online.watching import MOST_APART, requests_apart
from autotune.targets.protocol import Target

Seconds = Mapping[GroupName, float]
"""What each group of a plan takes in one run."""
Nanoseconds = npt.NDArray[np.int64]


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
        self.watched = MOST_APART
        """Requests of which one is looked at while it is quiet."""
        self._offered_at = 0
        self._window = _Window(published.current, pace.window_runs)
        self._trial: tuple[Trial, Sequence[ProgramTable]] | None = None
        self.first_tick = self.end_tick = 0
        """The next requests that a trial looks at: from the first one on, before the end."""
        self.looks = Looks(self._take_in)

    def count(self, requests: int) -> int:
        """Count requests; return the number of the last one."""
        tick = self.runs + requests - 1
        self.runs = tick + 1
        return tick

    def unseen(self, tick: int) -> int:
        """Return how many requests behind one that was looked at only need to be counted."""
        if not self.is_quiet:
            return 0
        if tick + 1 < self.first_tick:
            return min(self.watched, self.first_tick - tick) - 1
        return 0 if tick + 1 < self.end_tick else self.watched - 1

    def choose(self, tick: int) -> tuple[ProgramTable, Trial | None, int | None]:
        """Return the version that a request runs by, the trial under way, and the request's burst in it (None: by the
        published version)."""
        under_way = self._trial
        if under_way is None or tick < self.first_tick:
            return self.published.current, None, None
        trial, proposed = under_way
        turn = trial.take(tick)
        self._watch(trial)
        if turn is None:
            return self.published.current, trial, None
        return proposed[turn[1]], trial, turn[0]

    def note(self, inputs: Mapping[str, Array], look: Look, tick: int) -> None:
        """Take note of a request that ran by a version that was chosen; its look is taken in later."""
        self._offer(inputs, tick, EVERY * self.watched)
        self.looks.add(look)

    def _offer(self, inputs: Mapping[str, Array], tick: int, apart: int) -> None:
        """Have inputs copied for checks, and then none of so many requests."""
        if tick >= self._offered_at:
            self._offered_at = tick + apart
            self.samples.offer(inputs)

    def _take_in(self, look: Look) -> None:
        taken = _nanoseconds(look.trace)
        if look.burst is None:
            self._window.add(look.table, taken)
        if look.trial is not None:
            look.trial.note(taken, look.burst)

    def run(
        self, inputs: Mapping[str, Array], tick: int | None = None
    ) -> tuple[dict[str, Array], RunTrace]:
        """Run one request; return outputs and costs. It uses one version from start to end.

        ``tick`` is its number; None counts it.
        """
        runs = self.count(1) if tick is None else tick
        table, trial, burst = self.choose(runs)
        outputs, trace = execute(table, self._target, inputs)
        costs = _nanoseconds if self._costs is None else self._costs
        taken = costs(trace)
        self.looks.catch_up()  # in the order in which requests ended, where callers go both ways
        if burst is None:
            self._window.add(table, taken)
        if trial is not None:
            trial.note(taken, burst)
        self._offer(inputs, runs, EVERY if tick is None else EVERY * self.watched)
        return outputs, trace

    @property
    def is_quiet(self) -> bool:
        """True where one request in ``watched`` is enough, and those from ``first_tick`` to ``end_tick``: the others need not be
        seen."""
        return self._window.is_full and self.pace.is_here

    def _watch(self, trial: Trial) -> None:
        under_way = self._trial
        if under_way is not None and under_way[0] is trial:
            self.first_tick, self.end_tick = trial.window

    def begin_trial(self, trial: Trial, proposed: Sequence[ProgramTable]) -> None:
        """Let proposed versions serve the requests that the trial takes, the next one on if it likes."""
        known = self.known_runs()
        if known is not None and len(known):
            trial.note(known[-1], None)  # what the first burst finds before it
        for table in proposed:
            self.published.prepare(table)
        self.first_tick = self.end_tick = 0
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
