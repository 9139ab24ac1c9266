"""Rows of a profile: a group with its counts, costs and resources; two groups that run together."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from autotune.runtime.execution.compilation import Compilation, ProgramSource
from autotune.runtime.execution.origin import GroupName, Origin
from autotune.runtime.execution.program_table import CostKey
from autotune.runtime.execution.resources import GroupResources

COMPILATIONS_KEPT = 8
"""Compilations of one group that its history holds, the newest."""

RowKey = tuple[CostKey, bool]
"""What makes groups of several networks one row: key and schedule, and whether another program ran."""


@dataclass(frozen=True, slots=True)
class GroupProfile:
    """A group over its runs. ``operators`` are its names in the first of its ``networks``.

    ``executions`` counts all, ``per_second`` the newest minute. Means, deviation and ``counters`` are
    over the newest runs: ``weight`` says how many they are worth. ``is_altered`` says that another
    program ran in the place of its own, so that its times are not its schedule's cost.
    """

    key: CostKey
    operators: GroupName
    networks: tuple[str, ...]
    origin: Origin
    is_altered: bool
    executions: int
    per_second: float
    weight: float
    total_cycles: int
    mean_cycles: float
    deviation_cycles: float
    newest_cycles: int
    newest_at_ns: int
    """Time of the newest run by the profile's clock, which is not the time of day."""
    mean_energy_fj: float
    mean_dram_bytes: float
    predicted_cycles: float | None
    """The newest prediction."""
    resources: GroupResources
    counters: Mapping[str, float] = field(default_factory=dict, repr=False)
    compilations: tuple[Compilation, ...] = field(default=(), repr=False)
    """The newest makings of its programs, and when one last came from memory."""

    @property
    def error(self) -> float | None:
        """Newest prediction over mean cycles, minus one."""
        if self.predicted_cycles is None or self.mean_cycles == 0:
            return None
        return self.predicted_cycles / self.mean_cycles - 1

    @property
    def row_key(self) -> RowKey:
        """Identity of the row: equal for equal groups of several networks."""
        return self.key, self.is_altered

    def faded(self, weight: float) -> GroupProfile:
        """Return the row with less weight, for a group that other runs have followed."""
        return replace(self, weight=self.weight * weight)

    def at_rest(self) -> GroupProfile:
        """Return the row of a group that runs no more."""
        return replace(self, per_second=0.0)

    def joined(self, other: GroupProfile) -> GroupProfile:
        """Return the row of both: counts add up, means weigh by their runs, the newer names it."""
        new, old = (self, other) if self.newest_at_ns >= other.newest_at_ns else (other, self)
        weight = new.weight + old.weight
        share = new.weight / weight if weight else 0.5
        mean = share * new.mean_cycles + (1 - share) * old.mean_cycles
        between = share * (1 - share) * (new.mean_cycles - old.mean_cycles) ** 2
        within = share * new.deviation_cycles**2 + (1 - share) * old.deviation_cycles**2
        counters = {
            x: share * y + (1 - share) * old.counters.get(x, y) for x, y in new.counters.items()
        }
        compilations = {*new.compilations, *old.compilations}
        return replace(
            new,
            networks=tuple(dict.fromkeys((*new.networks, *old.networks))),
            executions=new.executions + old.executions,
            per_second=new.per_second + old.per_second,
            weight=weight,
            total_cycles=new.total_cycles + old.total_cycles,
            mean_cycles=mean,
            deviation_cycles=math.sqrt(within + between),
            mean_energy_fj=share * new.mean_energy_fj + (1 - share) * old.mean_energy_fj,
            mean_dram_bytes=share * new.mean_dram_bytes + (1 - share) * old.mean_dram_bytes,
            predicted_cycles=_first(new.predicted_cycles, old.predicted_cycles),
            counters=counters,
            compilations=newest_compilations(compilations),
        )

    def document(self) -> dict[str, Any]:
        """Return the row as JSON has it."""
        return {
            "group": self.key[0],
            "schedule": self.key[1],
            "operators": list(self.operators),
            "networks": list(self.networks),
            "origin": self.origin.value,
            "altered": self.is_altered,
            "executions": self.executions,
            "per_second": self.per_second,
            "total_cycles": self.total_cycles,
            "mean_cycles": self.mean_cycles,
            "deviation_cycles": self.deviation_cycles,
            "newest_cycles": self.newest_cycles,
            "mean_energy_fj": _counted(self.mean_energy_fj),
            "mean_dram_bytes": _counted(self.mean_dram_bytes),
            "predicted_cycles": self.predicted_cycles,
            "error": self.error,
            "counters": {name: value for name, value in self.counters.items() if value},
            "resources": self.resources.document(),
            "compilations": [one.document() for one in self.compilations],
        }


def newest_compilations(found: Iterable[Compilation]) -> tuple[Compilation, ...]:
    """Return the newest few makings and the newest finding in memory, oldest first."""
    order = sorted(found, key=lambda one: one.at_seconds)
    made = [one for one in order if one.source is not ProgramSource.MEMORY]
    recalled = [one for one in order if one.source is ProgramSource.MEMORY][-1:]
    return tuple(sorted((*made[-COMPILATIONS_KEPT:], *recalled), key=lambda one: one.at_seconds))


def joined_rows(rows: Iterable[GroupProfile]) -> tuple[GroupProfile, ...]:
    """Return one row for all rows of one key, in order of first appearance."""
    found: dict[RowKey, GroupProfile] = {}
    for row in rows:
        known = found.get(row.row_key)
        found[row.row_key] = row if known is None else known.joined(row)
    return tuple(found.values())


def _counted(mean: float) -> float | None:
    """Return a mean of what each program has some of; None where nothing counts it, as on a real machine."""
    return mean if mean > 0 else None


def _first(one: float | None, two: float | None) -> float | None:
    return two if one is None else one


@dataclass(frozen=True, slots=True)
class PairProfile:
    """Two groups of one network that run one after the other, or of which the second reads the first.

    ``runs`` counts how often the second ran straight after the first, ``recent`` fades as costs do,
    so that it compares pairs over the newest runs. ``together`` counts the runs in which both ran.
    ``through`` says that the second reads what the first makes, so that merging them would save the
    traffic.
    """

    first: GroupName
    second: GroupName
    runs: int
    recent: float
    together: int
    through: bool

    def joined(self, other: PairProfile) -> PairProfile:
        """Return the row of both, of which each counts other runs."""
        return replace(
            self,
            runs=self.runs + other.runs,
            recent=self.recent + other.recent,
            together=self.together + other.together,
            through=self.through or other.through,
        )

    def document(self) -> dict[str, Any]:
        """Return the row as JSON has it."""
        return {
            "first": list(self.first),
            "second": list(self.second),
            "runs": self.runs,
            "recent": self.recent,
            "together": self.together,
            "through": self.through,
        }
