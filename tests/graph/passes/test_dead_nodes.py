"""What no output needs goes; what belongs to the interface stays."""

from __future__ import annotations

from autotune.graph.builder import GraphBuilder
from autotune.graph.passes import simplify
from autotune.graph.passes.dead_nodes import DeadNodes
from autotune.operators.op import OpKind
from tests.graph.graph_cases import kinds_after, normal
from tests.graph.passes.graph_text import becomes


def test_what_no_output_needs_is_removed() -> None:
    b = GraphBuilder("g")
    x = b.input("x", (3,))
    b.add(OpKind.MUL, x, b.constant(normal(0, 3)))
    graph = b.build([b.add(OpKind.RELU, x)])
    assert kinds_after(DeadNodes(), graph, 2) == [OpKind.RELU]
    assert not DeadNodes().run(graph).graph.constants


def test_unread_inputs_stay_part_of_the_interface() -> None:
    b = GraphBuilder("g")
    b.input("unread", (2,))
    graph = b.build([b.add(OpKind.RELU, b.input("x", (3,)))])
    assert simplify(graph).graph.inputs == ("unread", "x")


def test_text_of_what_no_output_reads_is_gone() -> None:
    before = """
        x: (2, 3)
        k = normal(3)
        a = exp(x)
        b = mul(a, k)
        y = relu(x)
        -> y
    """
    becomes(DeadNodes(), before, "y = relu(x)")
