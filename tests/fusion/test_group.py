"""Groups: identity by structure, lossless storage, convexity."""

from __future__ import annotations

import pickle

from hypothesis import given

from autotune.fusion.group import Group, is_connected, is_convex
from autotune.graph.builder import GraphBuilder
from autotune.graph.graph import Graph
from autotune.operators.op import OpKind
from tests.drawn_graphs import graphs


def diamond() -> Graph:
    b = GraphBuilder("diamond")
    x = b.input("x", (4, 4))
    a = b.add(OpKind.RELU, x, name="a")
    left = b.add(OpKind.TANH, a, name="left")
    right = b.add(OpKind.NEG, a, name="right")
    return b.build(outputs=[b.add(OpKind.ADD, left, right, name="join")])


def test_a_path_that_leaves_and_returns_is_not_convex() -> None:
    graph = diamond()
    assert not is_convex(graph, {"a", "left", "join"})
    assert is_convex(graph, {"a", "left"})
    assert is_convex(graph, {"a", "left", "right", "join"})
    assert not is_connected(graph, {"left", "right"})


def test_equal_structure_has_an_equal_key_whatever_the_names() -> None:
    def chain(prefix: str) -> Group:
        b = GraphBuilder("chain")
        x = b.input(f"{prefix}in", (3, 5))
        y = b.add(OpKind.RELU, x, name=f"{prefix}r", output=f"{prefix}y")
        graph = b.build(outputs=[b.add(OpKind.EXP, y, name=f"{prefix}e", output=f"{prefix}z")])
        return Group.from_graph(graph, [op.name for op in graph.ops])

    assert chain("p").key == chain("q").key
    assert chain("p") != chain("q")


@given(graphs())
def test_json_and_pickle_keep_a_group_whole(graph: Graph) -> None:
    group = Group.from_graph(graph, [op.name for op in graph.ops])
    assert Group.from_json(group.to_json()) == group
    assert pickle.loads(pickle.dumps(group)) == group
    assert group.canonical.key == group.key


def test_outputs_are_what_something_outside_reads() -> None:
    graph = diamond()
    group = Group.from_graph(graph, ["a", "left"])
    assert group.outputs == (graph.ops[0].output, graph.ops[1].output)
    assert group.inputs == ("x",)
