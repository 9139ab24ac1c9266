"""Neighbouring schedules are legal and complete single steps."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from autotune.fusion.analysis import analyse
from autotune.fusion.group import Group
from autotune.fusion.nest import Rejection
from autotune.graph.builder import GraphBuilder
from autotune.graph.passes import simplify
from autotune.operators.op import OpKind
from autotune.schedule.fit import check
from autotune.schedule.neighbours import neighbours
from autotune.schedule.schedule import Schedule
from autotune.schedule.table import ScheduleTable
from autotune.targets.capacity import Capacity
from tests.drawn_graphs import graphs, nest_schedules
from tests.tuner.search_case import chain


@given(st.data())
def test_neighbours_are_legal_and_different(data: st.DataObject) -> None:
    graph = simplify(data.draw(graphs())).graph
    nests = analyse(Group.from_graph(graph, [op.name for op in graph.ops]))
    if isinstance(nests, Rejection):
        return
    nest = data.draw(st.sampled_from(nests))
    given_ = data.draw(st.lists(nest_schedules(nest), min_size=1, max_size=3))
    words, sums = data.draw(st.integers(16, 4000)), data.draw(st.sampled_from([0, 8]))
    capacity, cores = Capacity(words, sums), data.draw(st.integers(1, 2))
    table = neighbours(nest, ScheduleTable.of(nest, given_), capacity, cores)
    found = [table.row(i) for i in range(len(table))]
    assert len(set(found)) == len(found)
    assert all(check((nest,), Schedule((row,)), capacity, max(2, cores)) is None for row in found)


def test_a_step_trades_one_extent_for_another() -> None:
    graph = chain(1)
    (nest,) = analyse(Group.from_graph(graph, [op.name for op in graph.ops]))
    start = ScheduleTable(
        np.array([[4, 16]]),
        np.array([[0, 1]]),
        np.zeros((1, 0), dtype=np.int64),
        np.array([2]),
        np.array([1]),
        np.array([0]),
    )
    near = neighbours(nest, start, Capacity(10**6), 1)
    tiles = {tuple(tile) for tile in near.tile.tolist()}
    assert {(3, 16), (5, 16), (4, 24), (8, 16), (2, 16)} & tiles
    assert any(a > 4 and b < 16 for a, b in tiles) and any(a < 4 and b > 16 for a, b in tiles)
    assert set(near.buffers.tolist()) == {1, 2}
    assert {tuple(order) for order in near.order.tolist()} >= {(0, 1)}


def test_a_nest_without_extents_has_no_other_neighbours_than_buffers() -> None:
    b = GraphBuilder("one")
    graph = b.build([b.add(OpKind.RELU, b.input("x", (1, 1)))])
    (nest,) = analyse(Group.from_graph(graph, [op.name for op in graph.ops]))
    start = ScheduleTable(
        np.array([[1, 1]]),
        np.array([[0, 1]]),
        np.zeros((1, 0), dtype=np.int64),
        np.array([2]),
        np.array([1]),
        np.array([0]),
    )
    assert len(neighbours(nest, start, Capacity(100), 2)) <= 2
