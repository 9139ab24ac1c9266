"""The best plan of a small graph, proved: every partition, every schedule of every group.

A schedule is measured unless its own lower bound already exceeds what another one of its group was
measured at; a group is measured unless no partition with it can be the best.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt

from autotune.cost_model.scratchpad.analysis import ScratchpadAnalysis
from autotune.errors import ScheduleError
from autotune.fusion.group import Group, is_connected, is_convex
from autotune.fusion.nest import Nest
from autotune.graph.graph import Graph
from autotune.isa.opcodes import Unit
from autotune.lowering.lower import lower
from autotune.schedule.schedule import Schedule
from autotune.schedule.space import candidate_extents, enumerate_on
from autotune.schedule.table import ScheduleTable
from autotune.targets.emulator.target import EmulatorTarget
from autotune.targets.spec import HardwareSpec
from autotune.tuner.bound.bound import group_bound
from autotune.tuner.legality import legal_nests

LARGEST_SPACE = 40_000
"""Schedules of a group at most; a graph with more of them is left out."""
WHOLE_GRID = 8192
"""Combinations of tile extents up to which an enumeration leaves none out."""
Floats = npt.NDArray[np.float64]


class SpaceError(Exception):
    """A space is too large to be searched as a whole."""


@dataclass
class GroupSpace:
    """All schedules of one group on a machine, and the best of them once it is known."""

    group: Group
    target: EmulatorTarget
    least: float
    measured: int = 0
    cost: int | None = None

    @classmethod
    def of(cls, group: Group, target: EmulatorTarget) -> GroupSpace | None:
        """Return the space of a group; None if no schedule is legal."""
        if group.is_view:
            return cls(group, target, 0.0, cost=0)
        if legal_nests(group, target.spec) is None:
            return None
        return cls(group, target, group_bound(group, target.spec).cycles)

    @cached_property
    def tables(self) -> tuple[ScheduleTable, ...]:
        """Every schedule of each nest. Raises ``SpaceError`` for too many."""
        if self.group.is_view:
            return ()
        rng = np.random.default_rng(0)
        nests = self._nests
        if any(math.prod(map(len, candidate_extents(n, 1))) > WHOLE_GRID for n in nests):
            raise SpaceError("a nest's tiles are thinned out before they are enumerated")
        tables = tuple(enumerate_on(n, self.target.spec, LARGEST_SPACE + 1, rng) for n in nests)
        if math.prod(map(len, tables)) > LARGEST_SPACE:
            raise SpaceError(f"{math.prod(map(len, tables))} schedules of a group")
        return tables

    @property
    def _nests(self) -> tuple[Nest, ...]:
        return legal_nests(self.group, self.target.spec) or ()

    @property
    def size(self) -> int:
        """Schedules of the group."""
        return math.prod(map(len, self.tables)) if self.tables else 0

    def solve(self) -> int:
        """Measure until every schedule left is bounded by the best one; return its cycles."""
        if self.cost is not None:
            return self.cost
        least = self._bounds()
        best: int | None = None
        for at in np.argsort(least, kind="stable").tolist():
            if best is not None and least[at] >= best:
                break
            cycles = self._measure(at)
            if cycles is not None:
                assert cycles >= max(least[at], self.least), "a bound does not hold"
                best = cycles if best is None else min(best, cycles)
        if best is None:
            raise SpaceError("no schedule of a group can be lowered")
        self.cost = best
        return best

    def _bounds(self) -> Floats:
        """Return cycles that each schedule takes at the least: its busiest unit or the channel."""
        spec = self.target.spec
        parts = [
            _busy(ScratchpadAnalysis(n, t, spec))
            for n, t in zip(self._nests, self.tables, strict=True)
        ]
        total = parts[0]
        for part in parts[1:]:
            total = (total[:, :, None] + part[:, None, :]).reshape(len(total), -1)
        least: Floats = total.max(axis=0)
        return least

    def _measure(self, at: int) -> int | None:
        rows = np.unravel_index(at, tuple(map(len, self.tables)))
        schedule = Schedule(
            tuple(t.row(int(row)) for t, row in zip(self.tables, rows, strict=True))
        )
        try:
            program = lower(self.group, schedule, self.target.spec)
        except ScheduleError:
            return None
        self.measured += 1
        return self.target.time(program).cycles


def _busy(analysis: ScratchpadAnalysis) -> Floats:
    """Return the least cycles of each unit on an average core, and of the channel [5, n]."""
    spec, cores = analysis.spec, analysis.tiling.active_cores
    loaded, stored = analysis.loaded_bytes, analysis.stored_bytes
    rows = [(loaded + stored) / spec.dram.bytes_per_cycle]
    rows += [analysis.busy_all(unit) / cores for unit in (Unit.MATRIX, Unit.VECTOR)]
    for unit, moved in ((Unit.LOAD, loaded), (Unit.STORE, stored)):
        latency = analysis.total(lambda s: s.instructions, unit) * spec.dram.latency_cycles
        rows.append((latency + moved / spec.dram.bytes_per_cycle) / cores)
    return np.stack(rows)


@dataclass
class PlanSpace:
    """Every partition of a graph into connected groups, as chains of sets that are closed backwards."""

    graph: Graph
    spec: HardwareSpec
    groups: dict[int, GroupSpace] = field(default_factory=dict)

    def __post_init__(self) -> None:
        target = EmulatorTarget(self.spec)
        count = len(self.graph.ops)
        for mask in range(1, 1 << count):
            names = {op.name for at, op in enumerate(self.graph.ops) if mask >> at & 1}
            if not is_connected(self.graph, names) or not is_convex(self.graph, names):
                continue
            space = GroupSpace.of(Group.from_graph(self.graph, names), target)
            if space is not None:
                self.groups[mask] = space

    @property
    def size(self) -> int:
        """Candidates: schedules of all groups. Raises ``SpaceError`` if a group has too many."""
        return sum(space.size for space in self.groups.values())

    @property
    def measured(self) -> int:
        """Candidates that had to be measured for the proof."""
        return sum(space.measured for space in self.groups.values())

    def optimum(self) -> tuple[int, tuple[int, ...]]:
        """Return the least cycles of any plan and its groups as masks.

        Groups cost their bounds until the cheapest partition has none that was not measured.
        """
        while True:
            cost, chosen = self._cheapest()
            open_groups = [mask for mask in chosen if self.groups[mask].cost is None]
            if not open_groups:
                return round(cost), chosen
            for mask in open_groups:
                self.groups[mask].solve()

    def _cheapest(self) -> tuple[float, tuple[int, ...]]:
        """Return the cheapest partition by costs and bounds: a shortest path over closed sets."""
        whole = (1 << len(self.graph.ops)) - 1
        best: dict[int, tuple[float, tuple[int, ...]]] = {0: (0.0, ())}
        for done in range(whole):
            if done not in best:
                continue
            cost, chosen = best[done]
            for mask in self._next(done):
                space = self.groups[mask]
                further = cost + (space.least if space.cost is None else space.cost)
                if done | mask not in best or further < best[done | mask][0]:
                    best[done | mask] = (further, (*chosen, mask))
        return best[whole]

    def _next(self, done: int) -> Iterator[int]:
        """Yield the groups that can run when the operators ``done`` have run."""
        for mask in self.groups:
            if not mask & done and self._needs[mask] & ~(done | mask) == 0:
                yield mask

    @cached_property
    def _needs(self) -> dict[int, int]:
        """Operators that those of a group read."""
        place = {op.output: at for at, op in enumerate(self.graph.ops)}
        direct = [
            sum(1 << place[x] for x in dict.fromkeys(op.inputs) if x in place)
            for op in self.graph.ops
        ]
        return {
            mask: _joined(direct[at] for at in range(len(direct)) if mask >> at & 1)
            for mask in self.groups
        }


def _joined(masks: Iterator[int]) -> int:
    joined = 0
    for mask in masks:
        joined |= mask
    return joined
