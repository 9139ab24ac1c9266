"""Sampling of candidates for calibration: connected convex groups, schedules of all qualities."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from autotune.cost_model.analysis import analytic_model
from autotune.datasets import random_graphs
from autotune.datasets.narrowing import Form, narrow_forms
from autotune.fusion.analysis import analyse
from autotune.fusion.group import Group, is_convex
from autotune.fusion.nest import Nest, Rejection
from autotune.graph.accuracy import Accuracy
from autotune.graph.graph import Graph
from autotune.graph.passes import laid_out, simplify
from autotune.isa.formats import Format
from autotune.operators.axes import Layout
from autotune.schedule.candidate import Candidate
from autotune.schedule.schedule import NestSchedule, Schedule
from autotune.schedule.space import enumerate_on
from autotune.targets.spec import HardwareSpec

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
_NARROW = 0.35
"""Share of groups drawn from narrow forms of their networks, where a machine that counts cycles multiplies such: in
equal parts of every format."""


def sample_candidates(
    graphs: Sequence[Graph],
    spec: HardwareSpec,
    seed: int,
    accuracy: Accuracy = Accuracy.EXACT,
) -> Iterator[Candidate]:
    """Give endless candidates that are legal on ``spec``; a seed reproduces them.

    They are in the layout of ``spec``, with the algorithms of ``accuracy``. Where a machine multiplies narrow formats, some are of
    narrow forms of the networks, under the same names: held-out splits keep both together.
    """
    rng = np.random.default_rng(seed)
    forms = _Forms(spec, accuracy)
    number = 0
    while True:
        if graphs and rng.random() < _FROM_GRAPHS:
            graph = graphs[int(rng.integers(len(graphs)))]
            network = graph.name
        else:
            graph, network = next(random_graphs(rng, 1)), f"workload:{number}"
            number += 1
        yield from _sample_group(forms.drawn(graph, network, rng), network, spec, rng)


@dataclass(slots=True)
class _Forms:
    """The forms that a machine runs networks in: as they are, and narrow. Those of given networks are kept."""

    spec: HardwareSpec
    accuracy: Accuracy
    narrow: tuple[Form, ...] = ()
    kept: dict[tuple[str, int], Graph] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.spec.timed:
            self.narrow = narrow_forms(self.spec.formats)

    def drawn(self, graph: Graph, network: str, rng: np.random.Generator) -> Graph:
        """Return a network in a form drawn for it."""
        form = -1
        if self.narrow and rng.random() < _NARROW:
            form = int(rng.integers(len(self.narrow)))
        if network != graph.name:  # generated: drawn once
            return self._made(graph, form)
        if (network, form) not in self.kept:
            self.kept[network, form] = self._made(graph, form)
        return self.kept[network, form]

    def _made(self, graph: Graph, form: int) -> Graph:
        layout = Layout(self.spec.layout)
        if form < 0:
            return laid_out(graph, layout, self.accuracy).graph
        narrow = self.narrow[form](graph)
        return simplify(narrow, layout, self.accuracy, formats=self.spec.formats).graph


def _sample_group(
    graph: Graph, network: str, spec: HardwareSpec, rng: np.random.Generator
) -> Iterator[Candidate]:
    names = grow_group(graph, _size(rng), rng, _narrow_products(graph))
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


def _narrow_products(graph: Graph) -> tuple[str, ...]:
    """Return the products of narrow numbers, which groups of a narrow form grow from."""
    return tuple(op.name for op in graph.ops if op.multiplied is not Format.FP32)


def grow_group(
    graph: Graph, size: int, rng: np.random.Generator, seeds: Sequence[str] = ()
) -> frozenset[str]:
    """Return names of a connected convex set of up to ``size`` operators, grown from a random one of ``seeds`` (none:
    of all operators)."""
    digraph = graph.digraph
    starts = seeds or tuple(op.name for op in graph.ops)
    names = {starts[int(rng.integers(len(starts)))]}
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
