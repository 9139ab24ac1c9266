"""Tests of ``autotune.fusion.carry``."""

from __future__ import annotations

from autotune import api
from autotune.fusion.carry import carry_groups
from autotune.fusion.greedy import greedy


def test_a_partition_is_carried_to_its_own_graph_unchanged() -> None:
    graph = api.load_network("bert_layer")
    partition = greedy(graph, lambda names: len(names) <= 3)
    assert carry_groups(partition.groups, graph, lambda names: True) == partition


def test_operators_without_a_group_join_a_neighbour_and_what_does_not_fit_stays_apart() -> None:
    graph = api.load_network("mlp")
    first, *others = [op.name for op in graph.ops]
    whole = carry_groups([tuple(others)], graph, lambda names: True)
    assert len(whole.groups) == 1, f"{first} joins what reads it"
    alone = carry_groups([tuple(others)], graph, lambda names: len(names) == 1)
    assert len(alone.groups) == len(graph.ops)
