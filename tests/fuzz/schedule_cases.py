"""Candidates for schedule fuzzing: groups of shipped networks and of odd shapes, with any legal schedule."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from pathlib import Path

import numpy as np

from autotune.datasets.networks import NETWORKS, load
from autotune.errors import ScheduleError
from autotune.frontend.importing import load_onnx
from autotune.fusion.analysis import analyse
from autotune.fusion.greedy import greedy
from autotune.fusion.group import Group, is_convex
from autotune.fusion.nest import Nest, Rejection
from autotune.graph.accuracy import Accuracy
from autotune.graph.graph import Graph
from autotune.graph.passes import simplify
from autotune.operators.axes import Layout
from autotune.schedule.fit import check
from autotune.schedule.schedule import NestSchedule, Schedule
from autotune.schedule.space import enumerate_nest, extents
from autotune.targets.opening import spec_names, target
from autotune.targets.protocol import Target
from autotune.targets.spec import Memory
from autotune.tuner.heuristic_plan import heuristic_choices, heuristic_schedule
from autotune.tuner.sampling import grow_group
from tests.fuzz.draws import Rng, below, chance, pick
from tests.fuzz.odd_graphs import ODD_GRAPHS, odd_graph

SOURCES = (*NETWORKS, *ODD_GRAPHS)
"""Names of the networks that candidates are drawn from."""
TARGETS = (*spec_names(), "cpu:1", "cpu:2")
TRIES = 12
"""Schedules drawn for a group until one is legal."""
ENUMERATED = 256
LARGEST = 24
"""Operators of a random group at most."""


@dataclass(frozen=True, slots=True)
class Case:
    """One candidate on one target; ``schedule`` is None where none of those drawn was legal."""

    source: str
    target: str
    kind: str
    group: Group
    schedule: Schedule | None


@cache
def target_of(name: str) -> Target:
    """A target by name; ``cpu:2`` is the CPU with two threads."""
    kind, _, threads = name.partition(":")
    return target(kind, int(threads)) if threads else target(name)


@cache
def _folder() -> Path:
    folder = tempfile.TemporaryDirectory(prefix="fuzz-networks-")
    _kept.append(folder)
    return Path(folder.name)


_kept: list[tempfile.TemporaryDirectory[str]] = []


@lru_cache(maxsize=1)
def _imported(source: str) -> Graph:
    """The graph of a source as its file says, weights and all: gigabytes for some."""
    if source in ODD_GRAPHS:
        return odd_graph(source)
    return load_onnx(load(source, _folder()))


@cache
def graph_of(source: str, layout: str, accuracy: Accuracy) -> Graph:
    """A source simplified and laid out for a machine."""
    return _weightless(simplify(_imported(source), Layout(layout), accuracy).graph)


def _weightless(graph: Graph) -> Graph:
    """The same graph with weights that take no memory: schedules do not depend on their values."""
    zero = np.float32(0)
    weights = {x: np.broadcast_to(zero, value.shape) for x, value in graph.constants.items()}
    return Graph(graph.name, graph.ops, graph.types, graph.inputs, graph.outputs, weights)


@cache
def _heuristic(source: str, machine: str, accuracy: Accuracy) -> tuple[Group, ...]:
    """Groups of the plan by rule; none where an operator fits no schedule."""
    spec = target_of(machine).spec
    graph = graph_of(source, spec.layout, accuracy)
    try:
        return tuple(choice.group for choice in heuristic_choices(graph, spec))
    except ScheduleError:
        return ()


@cache
def _greedy(source: str, layout: str, accuracy: Accuracy) -> tuple[tuple[str, ...], ...]:
    """Groups that greedy fusion makes where everything that can be one program fits."""
    graph = graph_of(source, layout, accuracy)
    known: dict[str, bool] = {}

    def fits(names: tuple[str, ...]) -> bool:
        group = Group.from_graph(graph, names)
        if group.key not in known:
            known[group.key] = not isinstance(analyse(group), Rejection)
        return known[group.key]

    return greedy(graph, fits).groups


KINDS = ("single", "pair", "greedy", "heuristic", "random")
QUICK_KINDS = ("single", "pair", "random")
"""Kinds of groups that are drawn without making a whole partition."""
SCHEDULES = 8
"""Successive cases that are schedules of one group."""


def case(seed: int, number: int) -> Case:
    """Case ``number`` of a seed: ``SCHEDULES`` cases have one group, whose sources take turns."""
    source, machine, kind, group = _group_of(seed, number // SCHEDULES)
    schedule = _schedule(Rng(seed, 1, number), group, machine)
    return Case(source, machine, kind, group, schedule)


@lru_cache(maxsize=4)
def _group_of(seed: int, number: int) -> tuple[str, str, str, Group]:
    rng = Rng(seed, 0, number)
    source, machine = SOURCES[number % len(SOURCES)], pick(rng, TARGETS)
    kind, accuracy = pick(rng, KINDS), pick(rng, tuple(Accuracy))
    return source, machine, kind, _group(rng, kind, source, machine, accuracy)


def quick_cases(source: str, groups: int) -> Iterator[Case]:
    """Cases of one source that take little to prepare: ``SCHEDULES`` schedules of each of some groups, for
    every target in turn."""
    for number in range(groups):
        rng = Rng(number)
        machine, kind = TARGETS[number % len(TARGETS)], pick(rng, QUICK_KINDS)
        group = _group(rng, kind, source, machine, Accuracy.CLOSE)
        for _ in range(SCHEDULES):
            yield Case(source, machine, kind, group, _schedule(rng, group, machine))


def _group(rng: Rng, kind: str, source: str, machine: str, accuracy: Accuracy) -> Group:
    layout = target_of(machine).spec.layout
    graph = graph_of(source, layout, accuracy)
    if kind == "heuristic" and (planned := _heuristic(source, machine, accuracy)):
        group: Group = pick(rng, planned)
        return group
    names: tuple[str, ...] = (pick(rng, graph.ops).name,)
    if kind == "pair" and (readers := sorted(graph.digraph.successors(names[0]))):
        names = (names[0], pick(rng, readers))
        names = names if is_convex(graph, set(names)) else names[:1]
    elif kind == "greedy":
        names = pick(rng, _greedy(source, layout, accuracy))
    elif kind == "random":
        names = tuple(grow_group(graph, 2 + below(rng, LARGEST - 1), rng.generator))
    return Group.from_graph(graph, names)


def _schedule(rng: Rng, group: Group, machine: str) -> Schedule | None:
    """A legal schedule, as the search might try it or at an extreme; None where none was found."""
    spec = target_of(machine).spec
    nests = analyse(group)
    if group.is_view or isinstance(nests, Rejection):
        return None
    if chance(rng, 0.1):
        return heuristic_schedule(group, spec)
    for _ in range(TRIES):
        parts = [_nest_schedule(rng, nest, machine) for nest in nests]
        if any(part is None for part in parts):
            return None
        schedule = Schedule(tuple(part for part in parts if part is not None))
        if check(nests, schedule, spec.capacity, spec.cores) is None:
            return schedule
    return None


def _nest_schedule(rng: Rng, nest: Nest, machine: str) -> NestSchedule | None:
    spec = target_of(machine).spec
    if chance(rng, 0.4):
        return _enumerated(rng, nest, machine)
    capacity, cores = spec.capacity, spec.cores
    part = _any_schedule(rng, nest, machine)
    for _ in range(24):  # shrink a tile or a piece of a reduction until it fits
        if check((nest,), Schedule((part,)), capacity, cores) is None:
            return part
        part = _smaller(rng, nest, part)
    return _enumerated(rng, nest, machine)


def _enumerated(rng: Rng, nest: Nest, machine: str) -> NestSchedule | None:
    spec = target_of(machine).spec
    table = enumerate_nest(
        nest,
        spec.capacity,
        spec.cores,
        ENUMERATED,
        rng.generator,
        spec.tile_multiple,
        spec.max_buffers,
        im2col=spec.memory is Memory.SCRATCHPAD,
    )
    if not len(table):
        return None
    ends = (0, len(table) - 1)  # the largest tiles come first
    return table.row(pick(rng, ends) if chance(rng, 0.3) else below(rng, len(table)))


def _any_schedule(rng: Rng, nest: Nest, machine: str) -> NestSchedule:
    """Tiles of any extents that dimensions allow, extremes more often than others."""
    spec = target_of(machine).spec
    style = pick(rng, ("any", "any", "least", "most"))
    tile = tuple(
        n if d in nest.forced else min(n, _extent(rng, n, nest.granule(d), style))
        for d, n in enumerate(nest.root_shape)
    )
    k_tile = tuple(
        min(c.k_extent, _extent(rng, c.k_extent, 1, style)) if c.chunkable else c.k_extent
        for c in nest.contractions
    )
    order = tuple(int(d) for d in rng.generator.permutation(len(tile)))
    split = [d for d in order if tile[d] < nest.root_shape[d] and d != nest.reduced]
    shared = bool(split) and nest.shareable.issuperset(split[:1])
    cores = 1 + below(rng, spec.cores) if shared else 1
    im2col = spec.memory is Memory.SCRATCHPAD and nest.takes_patches and chance(rng, 0.5)
    return NestSchedule(tile, order, k_tile, 1 + below(rng, spec.max_buffers), cores, im2col)


def _extent(rng: Rng, extent: int, granule: int, style: str) -> int:
    if style == "least" and chance(rng, 0.9):
        return granule
    if style == "most" and chance(rng, 0.9):
        return extent
    drawn = 1 + below(rng, extent)
    near = max(1, extent // 2 + 1)
    found = pick(rng, (1, extent, extent - 1, near, drawn, pick(rng, extents(extent, granule))))
    return max(granule, -(-found // granule) * granule)


def _smaller(rng: Rng, nest: Nest, part: NestSchedule) -> NestSchedule:
    """With one tile or piece of half the extent, and what that breaks mended."""
    tileable = [d for d in nest.tileable if part.tile[d] > nest.granule(d)]
    pieces = [k for k, c in enumerate(nest.contractions) if c.chunkable and part.k_tile[k] > 1]
    if not tileable and not pieces:
        return replace(part, buffers=1, cores=1)
    at = below(rng, len(tileable) + len(pieces))
    if at >= len(tileable):
        k = pieces[at - len(tileable)]
        halved = tuple(-(-n // 2) if i == k else n for i, n in enumerate(part.k_tile))
        return replace(part, k_tile=halved)
    dim = tileable[at]
    granule = nest.granule(dim)
    size = max(granule, part.tile[dim] // 2 // granule * granule)
    tile = tuple(size if d == dim else n for d, n in enumerate(part.tile))
    split = [d for d in part.order if tile[d] < nest.root_shape[d] and d != nest.reduced]
    shared = nest.shareable.issuperset(split[:1])
    return replace(part, tile=tile, cores=part.cores if shared else 1)


def smaller_cases(found: Case) -> Iterator[Case]:
    """Cases of fewer operators or of a plainer schedule; not all of them legal."""
    if found.schedule is None:
        return
    for i, part in enumerate(found.schedule.nests):
        for plain in _plainer(found, i, part):
            nests = (*found.schedule.nests[:i], plain, *found.schedule.nests[i + 1 :])
            yield replace(found, schedule=Schedule(nests))


def _plainer(found: Case, index: int, part: NestSchedule) -> Iterator[NestSchedule]:
    nests = analyse(found.group)
    assert not isinstance(nests, Rejection)
    nest = nests[index]
    for name in ("buffers", "cores"):
        if getattr(part, name) > 1:
            yield replace(part, **{name: 1})
    if part.im2col:
        yield replace(part, im2col=False)
    for d, n in enumerate(nest.root_shape):
        if part.tile[d] < n:
            yield replace(part, tile=tuple(n if e == d else t for e, t in enumerate(part.tile)))
    for k, c in enumerate(nest.contractions):
        if part.k_tile[k] < c.k_extent:
            pieces = tuple(c.k_extent if j == k else t for j, t in enumerate(part.k_tile))
            yield replace(part, k_tile=pieces)
