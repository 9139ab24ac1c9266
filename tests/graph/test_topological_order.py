"""Running order against NetworkX's, and circles."""

from __future__ import annotations

import networkx as nx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.graph.topological_order import CycleError, topological_order


@st.composite
def needs(draw: st.DrawFn) -> list[set[int]]:
    count = draw(st.integers(0, 9))
    if not count:
        return []
    return [draw(st.sets(st.integers(0, count - 1), max_size=2)) for _ in range(count)]


@given(needs())
def test_the_order_is_networkx_lexicographic_one_or_the_circle_is_one(
    wanted: list[set[int]],
) -> None:
    digraph = nx.DiGraph()
    digraph.add_nodes_from(range(len(wanted)))
    digraph.add_edges_from((j, i) for i, needed in enumerate(wanted) for j in needed)
    if nx.is_directed_acyclic_graph(digraph):
        assert topological_order(wanted) == list(nx.lexicographical_topological_sort(digraph))
        return
    with pytest.raises(CycleError) as caught:
        topological_order(wanted)
    circle = caught.value.positions
    following = (*circle[1:], circle[0])
    assert all(a in wanted[b] for a, b in zip(circle, following, strict=True))
    assert circle[0] == min(circle) and len(set(circle)) == len(circle)
