"""History of one program table: how often it ran, and what each of its groups cost.

Every run of a table runs each of its groups once. So one count serves all groups, and the costs of
many runs are added as one matrix.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from autotune.runtime.execution.execution import GroupRun
from autotune.runtime.execution.program_table import GroupStep, TableLayout
from autotune.runtime.profile.fading import (
    BATCH_RUNS,
    HALF_LIFE_RUNS,
    FadingCount,
    FadingMoments,
    Floats,
    Integers,
)
from autotune.runtime.profile.group_profile import GroupProfile, PairProfile

FIGURES = ("cycles", "energy_fj", "dram_bytes")
"""Figures of every execution that is counted and not only timed; its counters follow."""
MOST_UNTIMED = 15
"""Short runs that follow one whose groups are timed, at most. One less than a power of two, as any such number is."""
TAKE_IN_SECONDS, SHARE = 2.5e-6, 0.001
"""Time that a run takes longer if the times of its groups are kept, and the share of a run that it may take. Of runs of 0.15 ms it
was 1 to 2 %."""
PENDING_RUNS, PENDING_TIMED = 128, 64
"""Runs that are added up at once, at least, and those among them that are timed where not each is: to add up takes as long as
many runs take to be kept. Less than 1 % of runs do it."""
BATCH_FIGURES = 8192
"""Figures that are added at once: they stay in a core's cache, and no thread pool comes to help. NumPy
lets a run have the interpreter between two of its calls."""


class TableHistory:
    """Counts and costs of one table's groups. Not safe to use from several threads."""

    def __init__(
        self,
        layout: TableLayout,
        figures: tuple[str, ...],
        since_ns: int,
        clock_hz: float | None = None,
    ) -> None:
        self.layout = layout
        self.took_ns: list[int] = []
        """Durations of the runs that ``add_pending`` adds up."""
        self.pending = bytearray()
        """Nanoseconds of groups in those of these runs that are timed, int64 [runs, groups]."""
        self.untimed = 0
        """Runs behind each that is timed."""
        self.most_pending = PENDING_RUNS
        """Runs that are added up at once."""
        self.first_ns = self.last_ns = since_ns
        """When the first of these runs began, and when the last ended."""
        self._scale = 1.0 if clock_hz is None else 1e-9 * clock_hz
        """Cycles of a unit that costs are kept in: nanoseconds where the groups are only timed."""
        self.runs = 0
        self.last_run = 0
        """Number of its newest run among those of its graph."""
        self._figures = figures
        self._newest_ns = since_ns
        self._rate = FadingCount(since_ns)
        self._recent = 0.0
        self._costs = FadingMoments(len(layout.steps) * len(figures))
        self._totals: Integers = np.zeros(len(layout.steps), np.int64)

    @classmethod
    def of_nothing(cls) -> TableHistory:
        """Return the history of no table: no run is of it."""
        return cls(TableLayout("", (), frozenset(), ()), (), 0)

    @classmethod
    def of_timed(cls, layout: TableLayout, clock_hz: float, since_ns: int) -> TableHistory:
        """Return the empty history of a table whose groups are only timed."""
        return cls(layout, FIGURES[:1], since_ns, clock_hz)

    @classmethod
    def of_counted(
        cls, layout: TableLayout, runs: Sequence[GroupRun], since_ns: int
    ) -> TableHistory:
        """Return the empty history of a table whose groups have the counters of these runs."""
        counters = dict.fromkeys(name for run in runs for name in run.execution.counters)
        return cls(layout, (*FIGURES, *counters), since_ns)

    def add_pending(self) -> Integers:
        """Add up the pending runs; return their durations. Other threads may append meanwhile."""
        runs = len(self.took_ns)
        took = np.array(self.took_ns[:runs], np.int64)
        del self.took_ns[:runs]
        self._add_timed(runs)
        self._count(runs, self.first_ns, self.last_ns)
        self.untimed = untimed_runs(1e-9 * float(took.min()))
        self.most_pending = max(PENDING_RUNS, PENDING_TIMED * (self.untimed + 1))
        return took

    def _add_timed(self, runs: int) -> None:
        """Add up the groups' times, which stand for ``runs``."""
        if not self.pending:  # a network of views has no groups
            return
        groups = len(self.layout.steps)
        size = 8 * groups
        timed = len(self.pending) // size
        batch = min(BATCH_RUNS, max(1, BATCH_FIGURES // groups))
        for first in range(0, timed, batch):
            count = min(batch, timed - first)
            taken = self.pending[first * size : (first + count) * size]
            rows = np.frombuffer(taken, np.int64).reshape(count, groups)
            self._totals += rows.sum(axis=0) * runs // timed
            self._costs.add(rows.astype(np.float64))
        del self.pending[: timed * size]

    def add_counted(self, runs: Sequence[GroupRun], began_ns: int, ended_ns: int) -> None:
        """Add one run of this table."""
        names, costs = self._figures[len(FIGURES) :], [run.execution for run in runs]
        rows = [
            (
                cost.cycles,
                cost.energy_fj,
                cost.dram_bytes,
                *(cost.counters.get(x, 0) for x in names),
            )
            for cost in costs
        ]
        self._costs.add(np.array(rows, np.float64).reshape(1, -1))
        self._totals += np.array([cost.cycles for cost in costs], np.int64)
        self._count(1, began_ns, ended_ns)

    def _count(self, runs: int, first_ns: int, last_ns: int) -> None:
        self.runs += runs
        decay = 0.5 ** (runs / HALF_LIFE_RUNS)
        self._recent = self._recent * decay + (1 - decay) / (1 - 0.5 ** (1 / HALF_LIFE_RUNS))
        self._newest_ns = max(self._newest_ns, last_ns)
        self._rate.add(runs, first_ns, last_ns)

    def rows(self, now_ns: int, later_runs: int) -> list[GroupProfile]:
        """Return a row for each group; ``later_runs`` of the graph went by other tables since."""
        shape = len(self.layout.steps), len(self._figures)
        moments = (self._costs.mean, self._costs.deviation, self._costs.newest)
        mean, deviation, newest = (one.reshape(shape) for one in moments)
        cycles = self._scale
        rate = self._rate.per_second(now_ns)
        weight = self._weight(later_runs)
        return [
            GroupProfile(
                step.key,
                step.operators,
                (self.layout.network,),
                self.layout.origins[i],
                i in self.layout.altered,
                self.runs,
                rate,
                weight,
                round(cycles * int(self._totals[i])),
                cycles * float(mean[i, 0]),
                cycles * float(deviation[i, 0]),
                max(1, round(cycles * float(newest[i, 0]))),
                self._newest_ns,
                self._mean(mean[i], 1),
                self._mean(mean[i], 2),
                step.predicted_cycles,
                step.resources,
                dict(zip(self._figures[3:], mean[i, 3:].tolist(), strict=True)),
                () if step.compiled is None else (step.compiled,),
            )
            for i, step in enumerate(self.layout.steps)
        ]

    def _mean(self, means: Floats, place: int) -> float:
        """Return a figure that a clock does not tell, or 0."""
        return float(means[place]) if place < len(means) else 0.0

    def _weight(self, later_runs: int) -> float:
        fading: float = 0.5 ** (later_runs / HALF_LIFE_RUNS)
        return self._recent * fading

    def pairs(self, later_runs: int) -> list[PairProfile]:
        """Return the groups that follow each other or pass data, in running order."""
        runs, recent = self.runs, self._weight(later_runs)
        return [
            PairProfile(
                one.operators, two.operators, runs * follows, recent * follows, runs, passes
            )
            for one, two, follows, passes in _related(self.layout.steps)
        ]


def _related(steps: Sequence[GroupStep]) -> list[tuple[GroupStep, GroupStep, bool, bool]]:
    """Return pairs of steps: whether the second runs straight after, and reads what the first makes."""
    maker = {x: i for i, step in enumerate(steps) for x in step.group.outputs}
    passing = {
        (maker[x], i): True for i, step in enumerate(steps) for x in step.group.inputs if x in maker
    }
    following = dict.fromkeys(pairwise(range(len(steps))), False)
    return [
        (steps[i], steps[j], (i, j) in following, (i, j) in passing)
        for i, j in sorted({*following, *passing})
    ]


def untimed_runs(run_seconds: float) -> int:
    """Return how many runs that take so long follow each whose groups are timed."""
    wanted = TAKE_IN_SECONDS / (SHARE * max(run_seconds, 1e-9))
    return min(MOST_UNTIMED, (1 << max(0, math.ceil(math.log2(wanted)))) - 1)
