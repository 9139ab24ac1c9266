"""Edges share out what groups cost, and tell what a pruned network saves."""

from __future__ import annotations

import numpy as np
import pytest

from autotune.datasets import random_graphs
from autotune.graph.cost_edges import EdgeKind, GroupCost, Rates, cost_edges, saved_cycles
from autotune.graph.graph import Graph
from autotune.graph.input_class import AllEqual, Padded
from autotune.graph.passes import simplify, specialise
from tests.graph.passes.test_demand_trimming import BOUNDS, _added, attention
from tests.runtime.guards.guard_case import masked

RATES = Rates(64.0, 8.0)


def groups_of(graph: Graph, size: int) -> list[GroupCost]:
    names = [op.name for op in graph.ops]
    cut = [tuple(names[at : at + size]) for at in range(0, len(names), size)]
    return [GroupCost(one, 100.0 + i, 200.0 + i, 3e6 + i) for i, one in enumerate(cut)]


@pytest.mark.parametrize("size", [1, 3, 100])
def test_the_edges_of_a_group_add_up_to_its_cost(size: int) -> None:
    for graph in random_graphs(np.random.default_rng(3), 12):
        for group in groups_of(graph, size):
            edges = cost_edges(graph, [group], RATES)
            for name in ("predicted_cycles", "measured_cycles", "energy_fj"):
                total = sum(getattr(edge, name) for edge in edges)
                assert total == pytest.approx(getattr(group, name))


def test_what_leaves_a_group_goes_through_memory() -> None:
    graph = simplify(masked()).graph
    edges = cost_edges(graph, groups_of(graph, 2), RATES)
    stored = {edge.tensor for edge in edges if edge.kind is EdgeKind.STORE}
    loaded = {edge.tensor for edge in edges if edge.kind is EdgeKind.LOAD}
    assert stored <= loaded | set(graph.outputs)
    assert loaded - stored <= {*graph.inputs, *graph.constants}
    fused = cost_edges(graph, groups_of(graph, 100), RATES)
    assert {edge.tensor for edge in fused if edge.kind is EdgeKind.STORE} == set(graph.outputs)


def test_an_unknown_cost_stays_unknown() -> None:
    graph = simplify(masked()).graph
    group = GroupCost(tuple(op.name for op in graph.ops), None, None, None)
    edges = cost_edges(graph, [group], RATES)
    assert all(edge.cycles is None for edge in edges)
    assert saved_cycles(edges, graph, graph) is None


def test_a_pruned_network_saves_the_edges_that_it_lacks() -> None:
    graph = simplify(masked()).graph
    edges = cost_edges(graph, groups_of(graph, 1), RATES)
    whole = sum(edge.cycles or 0.0 for edge in edges)
    pruned = specialise(graph, {"mask": AllEqual(1.0)}).graph
    saved = saved_cycles(edges, graph, pruned)
    gone = [op.name for op in graph.ops if op.name not in pruned.named]
    own = sum(e.cycles or 0.0 for e in edges if {e.source, e.target} & set(gone))
    assert saved is not None
    assert 0 < saved == pytest.approx(own, rel=0.2)
    assert saved_cycles(edges, graph, graph) == 0.0
    assert saved < whole


def test_shorter_tensors_save_their_part() -> None:
    graph = attention(_added)
    edges = cost_edges(graph, groups_of(graph, 1), RATES)
    savings = [
        saved_cycles(edges, graph, specialise(graph, {**BOUNDS, "mask": Padded(n)}).graph) or 0.0
        for n in (8, 5, 1)
    ]
    assert savings == sorted(savings)
    assert savings[0] < savings[-1]
