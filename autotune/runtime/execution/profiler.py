"""The rolling trace of executed groups: frequency, cost and co-occurrence, from which merges and
splits are decided."""

from __future__ import annotations

import threading
from collections import Counter, deque
from dataclasses import dataclass
from itertools import pairwise

from autotune.runtime.execution.execution import GroupRun, RunTrace, TimedGroups
from autotune.runtime.execution.program_table import GroupStep

GroupName = tuple[str, ...]
"""A group within its network: the names of its operators."""


@dataclass(frozen=True, slots=True)
class GroupProfile:
    """What the window of runs says of one group. ``predicted_cycles`` is the newest prediction."""

    operators: GroupName
    runs: int
    mean_cycles: float
    mean_energy_fj: float
    mean_dram_bytes: float
    predicted_cycles: float | None

    @property
    def error(self) -> float | None:
        """Newest prediction over mean cycles, minus one."""
        if self.predicted_cycles is None or self.mean_cycles == 0:
            return None
        return self.predicted_cycles / self.mean_cycles - 1


@dataclass(frozen=True, slots=True)
class PairProfile:
    """Two groups of which the second ran straight after the first; ``through`` says whether it
    also read what the first made, so that merging them would save the traffic."""

    first: GroupName
    second: GroupName
    runs: int
    through: bool


@dataclass(frozen=True, slots=True)
class _Seen:
    """One execution without its counters, of which a window would hold hundreds of megabytes."""

    step: GroupStep
    cycles: int
    energy_fj: int
    dram_bytes: int

    @classmethod
    def of(cls, run: GroupRun) -> _Seen:
        cost = run.execution
        return cls(run.step, cost.cycles, cost.energy_fj, cost.dram_bytes)


class Profiler:
    """Keeps the costs of the last ``window_runs`` runs. Safe to use from several threads."""

    def __init__(self, window_runs: int = 256) -> None:
        self._lock = threading.Lock()
        self._window: deque[tuple[_Seen, ...] | TimedGroups] = deque(maxlen=window_runs)

    def record(self, trace: RunTrace) -> None:
        """Take in one finished run; at once where the times are all there is to it."""
        groups = trace.groups
        seen = groups if isinstance(groups, TimedGroups) else tuple(map(_Seen.of, groups))
        with self._lock:
            self._window.append(seen)

    def groups(self) -> tuple[GroupProfile, ...]:
        """Every group that ran in the window, in order of first execution."""
        runs: dict[GroupName, list[_Seen]] = {}
        for seen in self._snapshot():
            for run in seen:
                runs.setdefault(run.step.operators, []).append(run)
        return tuple(_profile(name, found) for name, found in runs.items())

    def pairs(self) -> tuple[PairProfile, ...]:
        """Groups that ran one after the other, the most frequent first."""
        counts: Counter[tuple[GroupName, GroupName]] = Counter()
        through: dict[tuple[GroupName, GroupName], bool] = {}
        for seen in self._snapshot():
            for one, two in pairwise(seen):
                pair = one.step.operators, two.step.operators
                counts[pair] += 1
                through[pair] = not set(one.step.group.outputs).isdisjoint(two.step.group.inputs)
        return tuple(
            PairProfile(first, second, runs, through[first, second])
            for (first, second), runs in counts.most_common()
        )

    def _snapshot(self) -> tuple[tuple[_Seen, ...], ...]:
        with self._lock:
            window = tuple(self._window)
        return tuple(
            tuple(map(_Seen.of, seen)) if isinstance(seen, TimedGroups) else seen for seen in window
        )


def _profile(name: GroupName, runs: list[_Seen]) -> GroupProfile:
    count = len(runs)
    return GroupProfile(
        name,
        count,
        sum(run.cycles for run in runs) / count,
        sum(run.energy_fj for run in runs) / count,
        sum(run.dram_bytes for run in runs) / count,
        runs[-1].step.predicted_cycles,
    )
