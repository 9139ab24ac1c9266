"""The last table of ``make bench-truth``: what a search finds on this CPU beside the best of everything, measured.

Every schedule of every group of every partition of a small graph is timed alone. The best plans of the best partitions
then run as whole networks, in turns. The fastest of these is the best known plan. Fresh turns compare it with what a
search finds, and with itself: the noise floor.
"""

from __future__ import annotations

import math
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from autotune.errors import ScheduleError
from autotune.fusion.group import Group, is_connected, is_convex
from autotune.graph.graph import Graph
from autotune.lowering.lower import lower
from autotune.runtime.in_place.search_setup import Allowance
from autotune.runtime.in_place.timed_search import timed_search
from autotune.runtime.in_place.whole_runs import WholeRuns
from autotune.runtime.session.plan_contest import draw_inputs
from autotune.schedule.schedule import Schedule
from autotune.schedule.space import enumerate_on
from autotune.schedule.table import ScheduleTable
from autotune.store.store import Store
from autotune.targets.opening import target as open_target
from autotune.targets.protocol import Target
from autotune.tuner.choice import Choice
from autotune.tuner.heuristic_plan import heuristic_choices
from autotune.tuner.legality import legal_nests
from autotune.tuner.options import SearchOptions
from benchmarks.table import Table
from benchmarks.truth_graphs import Sizes, drawn_graph
from benchmarks.truth_space import SpaceError

GRAPHS = 12
MOST_CANDIDATES, LEAST_CANDIDATES = 1_500, 150
"""Schedules of all groups of a graph that is taken."""
SIZES = Sizes(rows=(128,), widths=(128,), images=(14,), channels=(32,), most_operators=5)
"""Large enough that a run takes tens of microseconds, and of few divisors, so that everything can be timed."""
NEAR = 1.2
"""Groups' schedules, and partitions, as slow as this beside the best one are run in whole plans, too …"""
PARTITIONS, SCHEDULES = 8, 3
"""… at most so many partitions, and so many schedules of each of their groups."""
ROUNDS, FRESH_ROUNDS = 12, 41
RUN_SECONDS = 0.001
"""A turn repeats a plan for so long, and takes the fastest run."""
SEARCH_SECONDS = 10.0
SEED = 1

Plan = tuple[Choice, ...]


@dataclass(frozen=True, slots=True)
class TimedTruth:
    """One small graph: its candidates, those that the search ran, and times of plans over the best known plan's."""

    candidates: int
    plans: int
    run_seconds: float
    found: float
    heuristic: float
    unfused: float
    itself: float


@dataclass(frozen=True, slots=True)
class TimedSpace:
    """Every schedule of every group of a graph with the seconds that its program takes alone, best first."""

    graph: Graph
    groups: Mapping[int, Group]
    timed: Mapping[int, tuple[tuple[float, Schedule | None], ...]]

    @classmethod
    def of(cls, graph: Graph, target: Target) -> TimedSpace:
        """Time all of them. Raises ``SpaceError`` for too many or too few."""
        groups = dict(_groups(graph))
        spaces = {mask: _schedules(group, target) for mask, group in groups.items()}
        groups = {mask: group for mask, group in groups.items() if spaces[mask] is not None}
        count = sum(len(spaces[mask] or ()) for mask in groups)
        if not LEAST_CANDIDATES <= count <= MOST_CANDIDATES:
            raise SpaceError(f"{count} candidates")
        timed = {}
        for mask, group in groups.items():
            seconds = [(_seconds(group, s, target), s) for s in spaces[mask] or ()]
            timed[mask] = tuple(sorted((x for x in seconds if x[0] < math.inf), key=_first))
        return cls(graph, groups, {mask: best for mask, best in timed.items() if best})

    @property
    def candidates(self) -> int:
        """Schedules that were timed."""
        return sum(map(len, self.timed.values()))

    def plans(self) -> list[Plan]:
        """Return the best partitions by their best schedules, and each with one group's next ones."""
        sums = sorted((sum(self.timed[m][0][0] for m in masks), masks) for masks in self._covers())
        near = [masks for total, masks in sums if total <= NEAR * sums[0][0]][:PARTITIONS]
        made = []
        for masks in near:
            made.append(self._plan(masks, {}))
            for mask in masks:
                rivals = self.timed[mask][1:SCHEDULES]
                limit = NEAR * self.timed[mask][0][0]
                made += [self._plan(masks, {mask: s}) for t, s in rivals if t <= limit]
        return made

    def unfused(self) -> Plan:
        """Return every operator alone, by its best schedule."""
        return self._plan(tuple(1 << at for at in range(len(self.graph.ops))), {})

    def _plan(self, masks: Sequence[int], instead: Mapping[int, Schedule | None]) -> Plan:
        chosen = ((m, instead.get(m, self.timed[m][0][1])) for m in masks)
        return tuple(Choice(self.groups[m], schedule) for m, schedule in chosen)

    def _covers(self) -> list[tuple[int, ...]]:
        """Return every partition once, as groups in an order in which they can run."""
        whole, needs = (1 << len(self.graph.ops)) - 1, self._needs()
        covers: dict[frozenset[int], tuple[int, ...]] = {}

        def extend(done: int, masks: tuple[int, ...]) -> None:
            if done == whole:
                covers.setdefault(frozenset(masks), masks)
            for mask in self.timed:
                if not mask & done and not needs[mask] & ~(done | mask):
                    extend(done | mask, (*masks, mask))

        extend(0, ())
        return list(covers.values())

    def _needs(self) -> dict[int, int]:
        """Return the operators whose results each group reads."""
        makers = {op.output: 1 << at for at, op in enumerate(self.graph.ops)}
        return {
            mask: sum({makers[x] for op in group.ops for x in op.inputs if x in makers})
            for mask, group in self.groups.items()
        }


def _first(pair: tuple[float, Schedule | None]) -> float:
    return pair[0]


def _groups(graph: Graph) -> Iterator[tuple[int, Group]]:
    for mask in range(1, 1 << len(graph.ops)):
        names = {op.name for at, op in enumerate(graph.ops) if mask >> at & 1}
        if is_connected(graph, names) and is_convex(graph, names):
            yield mask, Group.from_graph(graph, names)


def _schedules(group: Group, target: Target) -> tuple[Schedule | None, ...] | None:
    """Return all schedules of a group; None where none is legal."""
    if group.is_view:
        return (None,)
    nests, rng = legal_nests(group, target.spec), np.random.default_rng(0)
    if nests is None:
        return None
    tables = [enumerate_on(nest, target.spec, MOST_CANDIDATES + 1, rng) for nest in nests]
    if math.prod(map(len, tables)) > MOST_CANDIDATES:
        raise SpaceError("too many schedules of a group")
    return tuple(_rows(tables))


def _rows(tables: Sequence[ScheduleTable]) -> Iterator[Schedule]:
    for at in np.ndindex(*map(len, tables)):
        yield Schedule(tuple(t.row(int(row)) for t, row in zip(tables, at, strict=True)))


def _seconds(group: Group, schedule: Schedule | None, target: Target) -> float:
    if schedule is None:
        return 0.0
    try:
        program = lower(group, schedule, target.spec)
    except ScheduleError:
        return math.inf
    return target.time(program).cycles / target.spec.clock_hz


def solve(graph: Graph, target: Target) -> TimedTruth | None:
    """Time everything, search, compare whole runs; None for a graph of too many or too few candidates."""
    try:
        space = TimedSpace.of(graph, target)
    except SpaceError:
        return None
    runs = WholeRuns(graph, target, draw_inputs(graph, {}, SEED))
    plans = space.plans()
    rough = in_turns(runs, plans, ROUNDS)
    best = plans[int(np.argmin(np.median(rough, axis=0)))]
    arms = [best, (*best,), found(graph, target), heuristic_choices(graph, target.spec)]
    times = in_turns(runs, [*arms, space.unfused()], FRESH_ROUNDS)
    over = np.median(times[:, 1:] / times[:, :1], axis=0)
    itself, searched, heuristic, unfused = over.tolist()
    run_seconds = float(np.median(times[:, 0]))
    return TimedTruth(
        space.candidates, len(plans), run_seconds, searched, heuristic, unfused, itself
    )


def found(graph: Graph, target: Target) -> Plan:
    """Return the plan of a search with an empty store."""
    with tempfile.TemporaryDirectory() as folder, Store.open(Path(folder) / "t.db") as store:
        allowance = Allowance(time.monotonic(), SEARCH_SECONDS)
        outcome = timed_search(graph, target, store, {}, SearchOptions(seed=SEED), allowance)
    return tuple(Choice(group, schedule) for group, schedule in outcome.search.found.scheduled)


def in_turns(runs: WholeRuns, plans: Sequence[Plan], rounds: int) -> np.ndarray:
    """Return seconds of a run of every plan in every round [rounds, plans]; all take turns."""
    seconds = np.zeros((rounds, len(plans)))
    for row, number in zip(seconds, range(rounds), strict=True):
        order = np.roll(np.arange(len(plans)), number)
        for at in order.tolist():
            row[at] = _fastest(runs, plans[at])
    return seconds


def _fastest(runs: WholeRuns, plan: Plan) -> float:
    runs.execute(plan)
    begin, least = time.perf_counter(), math.inf
    while (now := time.perf_counter()) - begin < RUN_SECONDS or least == math.inf:
        runs.execute(plan)
        least = min(least, time.perf_counter() - now)
    return least


COLUMNS = (
    "machine",
    "graphs",
    "candidates, median",
    "run µs, median",
    "found over best known (worst)",
    "heuristic (worst)",
    "unfused (worst)",
    "best known over itself (worst)",
)


def cpu_table(count: int) -> Table:
    """Measure so many graphs; return the table."""
    target, rows, number = open_target("cpu:1"), list[TimedTruth](), 0
    while len(rows) < count:
        one = solve(drawn_graph(SEED, number, SIZES), target)
        number += 1
        if one is not None:
            sys.stderr.write(f"{target.name}: graph {number}: {one}\n")
            rows.append(one)
    return Table("This CPU, one thread:", COLUMNS, (cpu_row(target.name, rows),))


def cpu_row(name: str, rows: Sequence[TimedTruth]) -> tuple[str, ...]:
    """Return the cells of the table's row."""
    return (
        name,
        str(len(rows)),
        f"{statistics.median(row.candidates for row in rows):,.0f}",
        f"{statistics.median(row.run_seconds for row in rows) * 1e6:.1f}",
        *(
            _over([getattr(row, arm) for row in rows])
            for arm in ("found", "heuristic", "unfused", "itself")
        ),
    )


def _over(ratios: Sequence[float]) -> str:
    return f"{statistics.median(ratios) - 1.0:+.1%} ({max(ratios) - 1.0:+.1%})"
