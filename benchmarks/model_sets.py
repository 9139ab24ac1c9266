"""Candidate sets: groups of a network as a search considers them, each with schedules as it ranks them.

``draw_network`` draws those of one network on one machine. ``model_measure`` keeps and measures them,
``model_scores`` judges predictors by them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from autotune.cost_model.analysis import analytic_model
from autotune.fusion.group import Group
from autotune.fusion.nest import Nest
from autotune.fusion.partition import Names
from autotune.fusion.quotient import Quotient
from autotune.graph.graph import Graph
from autotune.schedule.candidate import Candidate
from autotune.schedule.neighbours import neighbours
from autotune.schedule.schedule import NestSchedule, Schedule
from autotune.schedule.space import enumerate_on
from autotune.schedule.table import ScheduleTable
from autotune.targets.spec import HardwareSpec, Memory
from autotune.tuner.choice import Choice
from autotune.tuner.heuristic_plan import Schedules, heuristic_choices
from autotune.tuner.legality import legal_nests
from autotune.tuner.sampling import INSTRUCTIONS

SCHEDULES = 256
"""Schedules of a set."""
FEWEST = 64
"""Fewest schedules of a set: groups with fewer legal ones leave little to choose from."""
KINDS = ("heuristic", "merged", "single")
"""Origins of sets: groups of the heuristic plan, two of them merged, one operator of a larger one. Each
second set of a network is of the first kind, the others are of the other two as drawn."""
TRIES = 8
"""Groups of one origin to look at for ``SCHEDULES`` legal schedules; then the richest is taken."""
_ENUMERATED = 4096
_BEST, _NEAR = 0.5, 0.25
"""Shares of a set that are the best by the cheap analytic order, and steps from the best few; the rest is
drawn uniformly from all that was enumerated."""
_REFINED = 8
"""Schedules of the lowest analytic estimate whose neighbours are drawn from."""


@dataclass(frozen=True, slots=True)
class CandidateSet:
    """Schedules of one group of a network; ``kind`` is one of ``KINDS``."""

    network: str
    kind: str
    group: Group
    schedules: tuple[Schedule, ...]

    def candidates(self) -> Iterator[Candidate]:
        """Give every schedule as a candidate to measure."""
        for schedule in self.schedules:
            yield Candidate(self.group, schedule, self.network)


@dataclass(frozen=True, slots=True)
class WholePlan:
    """The heuristic plan of a network: distinct groups with schedules, and how often each occurs."""

    network: str
    parts: tuple[tuple[Group, Schedule, int], ...]

    def candidates(self) -> Iterator[Candidate]:
        """Give every part as a candidate to measure."""
        for group, schedule, _ in self.parts:
            yield Candidate(group, schedule, self.network)


@dataclass(frozen=True, slots=True)
class NetworkSets:
    """The candidate sets of one network, and its heuristic plan."""

    network: str
    sets: tuple[CandidateSet, ...]
    plan: WholePlan

    def candidates(self) -> Iterator[Candidate]:
        """Give everything that is to be measured."""
        yield from self.plan.candidates()
        for drawn in self.sets:
            yield from drawn.candidates()


def draw_network(
    graph: Graph,
    network: str,
    spec: HardwareSpec,
    seed: int,
    count: int,
    taken: set[str],
    known: Schedules,
) -> NetworkSets:
    """Draw ``count`` sets of a ``network``, or fewer where it has no more groups.

    ``taken`` are keys of groups with a set, ``known`` the heuristic schedules so far; both grow, so that equal
    groups of several networks are drawn once.
    """
    rng = np.random.default_rng([seed, *network.encode()])
    plan = heuristic_choices(graph, spec, known)
    sets: list[CandidateSet] = []
    for number in range(count):
        for kind in _kinds(number, rng):
            pool = _pool(kind, graph, plan, spec, rng)
            found = _richest((group for group in pool if group.key not in taken), spec, rng)
            if found is not None:
                sets.append(CandidateSet(network, kind, *found))
                taken.add(found[0].key)
                break
    return NetworkSets(network, tuple(sets), _whole(network, plan))


def _kinds(number: int, rng: np.random.Generator) -> tuple[str, ...]:
    """Return the kinds to try for a network's set of that number, the wanted one first."""
    first, *others = KINDS
    if number % 2 == 0:
        return KINDS
    return (*rng.permutation(others).tolist(), first)


def _whole(network: str, plan: Sequence[Choice]) -> WholePlan:
    counts = Counter(choice.group.key for choice in plan)
    first = {choice.group.key: choice for choice in reversed(plan)}
    return WholePlan(
        network,
        tuple(
            (choice.group, choice.schedule, counts[key])
            for key, choice in first.items()
            if choice.schedule is not None
        ),
    )


def _pool(
    kind: str, graph: Graph, plan: Sequence[Choice], spec: HardwareSpec, rng: np.random.Generator
) -> Iterator[Group]:
    """Give groups of one origin, in random order: those that take most of the plan come early."""
    chosen = [choice for choice in plan if choice.schedule is not None]
    cost = np.array([_estimate(choice, spec) for choice in chosen])
    order = np.argsort(-np.log(cost + 1e-9) - rng.gumbel(size=len(cost)))
    for at in order.tolist():
        names = [op.name for op in chosen[at].group.ops]
        if kind == "heuristic":
            yield chosen[at].group
        elif kind == "single" and len(names) > 1:
            yield Group.from_graph(graph, [names[int(rng.integers(len(names)))]])
        elif kind == "merged":
            yield from _merged(graph, plan, chosen[at], rng)


def _estimate(choice: Choice, spec: HardwareSpec) -> float:
    """Return analytic cycles of a group."""
    nests = legal_nests(choice.group, spec)
    assert nests is not None and choice.schedule is not None
    model = analytic_model(spec)
    tables = (
        ScheduleTable.of(nest, [part])
        for nest, part in zip(nests, choice.schedule.nests, strict=True)
    )
    return sum(
        float(model.analyse(nest, table, spec).estimate[0])
        for nest, table in zip(nests, tables, strict=True)
    )


def _merged(
    graph: Graph, plan: Sequence[Choice], choice: Choice, rng: np.random.Generator
) -> Iterator[Group]:
    """Give the group merged with a later one that reads it, where the result is convex."""
    groups = [tuple(op.name for op in other.group.ops) for other in plan]
    names: Names = tuple(op.name for op in choice.group.ops)
    readers = {user.name for name in names for user in graph.consumers[graph.named[name].output]}
    near = [other for other in groups if other != names and not readers.isdisjoint(other)]
    for at in rng.permutation(len(near)).tolist():
        quotient = Quotient(graph, groups)
        first, second = quotient.home(names[0]), quotient.home(near[at][0])
        if quotient.may_merge(first, second):
            yield Group.from_graph(graph, quotient.together(first, second))
            return


def _richest(
    groups: Iterator[Group], spec: HardwareSpec, rng: np.random.Generator
) -> tuple[Group, tuple[Schedule, ...]] | None:
    """Return the first group with ``SCHEDULES`` schedules, or the richest of ``TRIES``; None if all have
    fewer than ``FEWEST``."""
    best: tuple[Group, tuple[Schedule, ...]] | None = None
    for _, group in zip(range(TRIES), groups, strict=False):
        schedules = draw_schedules(group, spec, rng)
        if len(schedules) >= max(FEWEST, 1 + (len(best[1]) if best else 0)):
            best = group, schedules
        if len(schedules) >= SCHEDULES:
            break
    return best


def draw_schedules(
    group: Group, spec: HardwareSpec, rng: np.random.Generator, count: int = SCHEDULES
) -> tuple[Schedule, ...]:
    """Draw up to ``count`` different legal schedules of a group, as a search would rank them.

    Half are the best by the cheap analytic order that pre-filters a search's candidates, a quarter are one
    step from the eight of the lowest estimate, the rest is uniform. Programs of more than
    ``sampling.INSTRUCTIONS`` instructions are left out, as in calibration. Empty if no schedule is left.
    """
    nests = None if group.is_view else legal_nests(group, spec)
    if nests is None:
        return ()
    parts = [_draw_nest(nest, spec, rng, count, INSTRUCTIONS // len(nests)) for nest in nests]
    if not all(parts):
        return ()
    longest = max(map(len, parts))
    paired = zip(*(_cycled(part, longest) for part in parts), strict=True)
    return tuple(dict.fromkeys(map(Schedule, paired)))


def _cycled(part: list[NestSchedule], length: int) -> list[NestSchedule]:
    return [part[at % len(part)] for at in range(length)]


def _draw_nest(
    nest: Nest, spec: HardwareSpec, rng: np.random.Generator, count: int, limit: int
) -> list[NestSchedule]:
    table = enumerate_on(nest, spec, _ENUMERATED, rng)
    if not len(table):
        return []
    analysis = analytic_model(spec).analyse(nest, table, spec)
    short = np.flatnonzero(analysis.instructions <= limit)
    if not len(short):
        return []
    best = short[np.argsort(analysis.order()[short], kind="stable")][: round(_BEST * count)]
    refined = best[np.argsort(analysis.estimate[best], kind="stable")][:_REFINED]
    near = _near(nest, spec, table.take(refined), limit)
    others = np.setdiff1d(short, best)
    drawn = [table.row(i) for i in best.tolist()]
    drawn += [near.row(i) for i in rng.permutation(len(near)).tolist()][: round(_NEAR * count)]
    drawn += [table.row(i) for i in rng.permutation(others).tolist()]
    return list(dict.fromkeys(drawn))[:count]


def _near(nest: Nest, spec: HardwareSpec, best: ScheduleTable, limit: int) -> ScheduleTable:
    """Return the schedules one step from the best that are short enough."""
    near = neighbours(
        nest,
        best,
        spec.capacity,
        spec.cores,
        spec.tile_multiple,
        spec.max_buffers,
        im2col=spec.memory is Memory.SCRATCHPAD,
    )
    if not len(near):
        return near
    analysis = analytic_model(spec).analyse(nest, near, spec)
    return near.take(np.flatnonzero(analysis.instructions <= limit))
