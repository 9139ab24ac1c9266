"""History of one program table: how often it ran, and what each of its groups cost.

Every run of a table runs each of its groups once. So one count serves all groups, and the costs of
many runs are added as one matrix.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from autotune.runtime.execution.execution import GroupRun, TimedGroups
from autotune.runtime.execution.program_table import GroupStep, TableLayout
from autotune.runtime.profile.fading import (
    HALF_LIFE_RUNS,
    FadingCount,
    FadingMoments,
    Floats,
    Integers,
)
from autotune.runtime.profile.group_profile import GroupProfile, PairProfile

FIGURES = ("cycles", "energy_fj", "dram_bytes")
"""Figures of every execution that is counted and not only timed; its counters follow."""


class TableHistory:
    """Counts and costs of one table's groups. Not safe to use from several threads."""

    def __init__(self, layout: TableLayout, figures: tuple[str, ...], since_ns: int) -> None:
        self.layout = layout
        self.runs = 0
        self.last_run = 0
        """Number of its newest run among those of its graph."""
        self._figures = figures
        self._newest_ns = since_ns
        self._rate = FadingCount(since_ns)
        self._costs = FadingMoments(len(layout.steps) * len(figures))
        self._cycles: Integers = np.zeros(len(layout.steps), np.int64)

    @classmethod
    def of_timed(cls, layout: TableLayout, since_ns: int) -> TableHistory:
        """Return the empty history of a table whose groups are only timed."""
        return cls(layout, FIGURES[:1], since_ns)

    @classmethod
    def of_counted(
        cls, layout: TableLayout, runs: Sequence[GroupRun], since_ns: int
    ) -> TableHistory:
        """Return the empty history of a table whose groups have the counters of these runs."""
        counters = dict.fromkeys(name for run in runs for name in run.execution.counters)
        return cls(layout, (*FIGURES, *counters), since_ns)

    def add_timed(self, groups: Sequence[TimedGroups], ended_ns: Integers) -> None:
        """Add runs of this table, 1 to ``BATCH_RUNS``, oldest first."""
        joined = b"".join([one.nanoseconds for one in groups])  # type: ignore[misc]  # faster than NumPy's
        cycles = np.frombuffer(joined, np.int64) * (groups[0].clock_hz * 1e-9)
        np.maximum(np.rint(cycles, out=cycles), 1.0, out=cycles)
        cycles = cycles.reshape(len(groups), -1)
        self._add(cycles, cycles, ended_ns)

    def add_counted(self, runs: Sequence[GroupRun], ended_ns: int) -> None:
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
        cycles = np.array([[cost.cycles for cost in costs]], np.float64)
        self._add(cycles, np.array(rows, np.float64).reshape(1, -1), np.array([ended_ns]))

    def _add(self, cycles: Floats, figures: Floats, ended_ns: Integers) -> None:
        self.runs += len(cycles)
        self._newest_ns = max(self._newest_ns, int(ended_ns.max()))
        self._rate.add(ended_ns)
        self._costs.add(figures)
        self._cycles += cycles.sum(axis=0).astype(np.int64)

    def rows(self, now_ns: int, later_runs: int) -> list[GroupProfile]:
        """Return a row for each group; ``later_runs`` of the graph went by other tables since."""
        shape = len(self.layout.steps), len(self._figures)
        moments = (self._costs.mean, self._costs.deviation, self._costs.newest)
        mean, deviation, newest = (one.reshape(shape) for one in moments)
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
                int(self._cycles[i]),
                float(mean[i, 0]),
                float(deviation[i, 0]),
                int(newest[i, 0]),
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
        return self._costs.weight * fading

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
