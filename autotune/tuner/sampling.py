"""Sampling of candidates for calibration: connected convex groups, schedules of all qualities."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count, islice

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

    They are in the layout of ``spec``, with the algorithms of ``accuracy``. Where a machine multiplies narrow formats,
    some are of narrow forms of the networks, under the same names: held-out splits keep both together.
    """
    laid = laid_graphs(graphs, spec, accuracy)
    for number in count():
        yield from sample_block(laid, spec, seed, number, accuracy)


def laid_graphs(
    graphs: Sequence[Graph], spec: HardwareSpec, accuracy: Accuracy
) -> list[tuple[Graph, ...]]:
    """Return networks as ``spec`` runs them, each with its narrow forms behind it."""
    narrow = _narrow_forms(spec)
    return [
        tuple(_laid(graph, form, spec, accuracy) for form in (None, *narrow)) for graph in graphs
    ]


def sample_block(
    laid: Sequence[tuple[Graph, ...]],
    spec: HardwareSpec,
    seed: int,
    number: int,
    accuracy: Accuracy,
) -> Iterator[Candidate]:
    """Give block ``number`` of the candidates of ``sample_candidates``; ``laid`` networks are those of ``laid_graphs``."""
    rng = np.random.default_rng(seed if number == 0 else (seed, number))
    return islice(_endless(laid, spec, rng, number * BLOCK, accuracy), BLOCK)


def _endless(
    laid: Sequence[tuple[Graph, ...]],
    spec: HardwareSpec,
    rng: np.random.Generator,
    workload: int,
    accuracy: Accuracy,
) -> Iterator[Candidate]:
    """Give candidates without end; generated networks are numbered from ``workload`` on."""
    forms = (None, *_narrow_forms(spec))
    while True:
        if laid and rng.random() < _FROM_GRAPHS:
            given = laid[int(rng.integers(len(laid)))]
            graph, network = given[_drawn_form(forms, rng)], given[0].name
        else:
            made, network = next(random_graphs(rng, 1)), f"workload:{workload}"
            graph = _laid(made, forms[_drawn_form(forms, rng)], spec, accuracy)
            workload += 1
        yield from _sample_group(graph, network, spec, rng)


def _drawn_form(forms: Sequence[Form | None], rng: np.random.Generator) -> int:
    """Return the place of a form, 0 being the network as it is."""
    if len(forms) == 1 or rng.random() >= _NARROW:
        return 0
    return 1 + int(rng.integers(len(forms) - 1))


def _narrow_forms(spec: HardwareSpec) -> tuple[Form, ...]:
    """Return the narrow forms of networks that are drawn for a machine: none where programs are timed."""
    return () if spec.timed else narrow_forms(spec.formats)


def _laid(graph: Graph, form: Form | None, spec: HardwareSpec, accuracy: Accuracy) -> Graph:
    """Return a network as ``spec`` runs it, in a narrow form or as it is."""
    layout = Layout(spec.layout)
    if form is None:
        return laid_out(graph, layout, accuracy).graph
    return simplify(form(graph), layout, accuracy, formats=spec.formats).graph


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
