"""Sampling of candidates for calibration: connected convex groups, schedules of all qualities."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count, islice

import numpy as np

from autotune.cost_model.analysis import analytic_model
from autotune.datasets import random_graphs
from autotune.fusion.analysis import analyse
from autotune.fusion.group import Group, is_convex
from autotune.fusion.nest import Nest, Rejection
from autotune.graph.accuracy import Accuracy
from autotune.graph.graph import Graph
from autotune.graph.passes import laid_out
from autotune.operators.axes import Layout
from autotune.schedule.candidate import Candidate
from autotune.schedule.schedule import NestSchedule, Schedule
from autotune.schedule.space import enumerate_on
from autotune.targets.spec import HardwareSpec

BLOCK = 512
"""Candidates that are drawn by random numbers of their own: who draws a block needs none before it."""
SCHEDULES = 6
"""Schedules drawn per group: several, so that the model learns their differences."""
_ENUMERATED = 384
_LARGEST = 9
"""Largest number of operators of a drawn group."""
INSTRUCTIONS = 40_000
"""Most instructions that a drawn program executes, without those that only wait or signal. It
keeps an execution near 0.3 ms, and below 7 ms where every run of a transfer opens a DRAM row. With
half of it the model errs more on large layers, whose fewest instructions on ``edge`` are near 10⁵."""
_NEAR_GOOD = 0.6
"""Share of schedules drawn from the better end: search exploits that end."""
_FROM_GRAPHS = 0.5
"""Share of groups drawn from the given networks, the rest being generated."""


def sample_candidates(
    graphs: Sequence[Graph],
    spec: HardwareSpec,
    seed: int,
    accuracy: Accuracy = Accuracy.EXACT,
) -> Iterator[Candidate]:
    """Give endless candidates that are legal on ``spec``; a seed reproduces them.

    They are in the layout of ``spec``, with the algorithms of ``accuracy``.
    """
    laid = laid_graphs(graphs, spec, accuracy)
    for number in count():
        yield from sample_block(laid, spec, seed, number, accuracy)


def laid_graphs(graphs: Sequence[Graph], spec: HardwareSpec, accuracy: Accuracy) -> list[Graph]:
    """Return networks as ``spec`` runs them."""
    return [laid_out(graph, Layout(spec.layout), accuracy).graph for graph in graphs]


def sample_block(
    laid: Sequence[Graph], spec: HardwareSpec, seed: int, number: int, accuracy: Accuracy
) -> Iterator[Candidate]:
    """Give block ``number`` of the candidates of ``sample_candidates``; ``laid`` networks are as ``spec`` runs them."""
    rng = np.random.default_rng(seed if number == 0 else (seed, number))
    return islice(_endless(laid, spec, rng, number * BLOCK, accuracy), BLOCK)


def _endless(
    laid: Sequence[Graph],
    spec: HardwareSpec,
    rng: np.random.Generator,
    workload: int,
    accuracy: Accuracy,
) -> Iterator[Candidate]:
    """Give candidates without end; generated networks are numbered from ``workload`` on."""
    layout = Layout(spec.layout)
    while True:
        if laid and rng.random() < _FROM_GRAPHS:
            graph = laid[int(rng.integers(len(laid)))]
            network = graph.name
        else:
            graph, network = next(random_graphs(rng, 1)), f"workload:{workload}"
            graph = laid_out(graph, layout, accuracy).graph
            workload += 1
        yield from _sample_group(graph, network, spec, rng)


def _sample_group(
    graph: Graph, network: str, spec: HardwareSpec, rng: np.random.Generator
) -> Iterator[Candidate]:
    names = grow_group(graph, _size(rng), rng)
    group = Group.from_graph(graph, names)
    nests = analyse(group)
    if group.is_view or isinstance(nests, Rejection):
        return
    limit = INSTRUCTIONS // len(nests)
    parts = [_sample_schedules(nest, spec, rng, limit) for nest in nests]
    if all(parts):
        for row in zip(*parts, strict=True):
            yield Candidate(group, Schedule(row), network)


def _size(rng: np.random.Generator) -> int:
    """Draw a number of operators: one in three groups is a single operator, large ones are rare."""
    return min(_LARGEST, int(rng.geometric(0.33)))


def grow_group(graph: Graph, size: int, rng: np.random.Generator) -> frozenset[str]:
    """Names of a connected convex set of up to ``size`` operators, grow_group from a random one."""
    digraph = graph.digraph
    names = {graph.ops[int(rng.integers(len(graph.ops)))].name}
    while len(names) < size:
        near = sorted(
            {
                other
                for name in names
                for other in (*digraph.successors(name), *digraph.predecessors(name))
            }
            - names
        )
        convex = [
            name for name in rng.permutation(near).tolist() if is_convex(graph, {*names, name})
        ]
        if not convex:
            break
        names.add(convex[0])
    return frozenset(names)


def _sample_schedules(
    nest: Nest, spec: HardwareSpec, rng: np.random.Generator, limit: int
) -> list[NestSchedule]:
    """Draw schedules of a nest of at most ``limit`` instructions, near-good and uniform ones mixed.

    Empty when none is legal.
    """
    table = enumerate_on(nest, spec, _ENUMERATED, rng)
    if not len(table):
        return []
    analysis = analytic_model(spec).analyse(nest, table, spec)
    short = np.flatnonzero(analysis.instructions <= limit)
    if not len(short):
        return []
    ranked = short[np.argsort(analysis.order()[short], kind="stable")]
    picked = []
    for _ in range(SCHEDULES):
        if rng.random() < _NEAR_GOOD:
            at = min(len(ranked) - 1, int(rng.exponential(len(ranked) / 12)))
        else:
            at = int(rng.integers(len(ranked)))
        picked.append(table.row(int(ranked[at])))
    return picked
