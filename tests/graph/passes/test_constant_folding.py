"""What constants alone decide is computed before the network runs."""

from __future__ import annotations

from autotune.graph.builder import GraphBuilder
from autotune.graph.passes.constant_folding import ConstantFolding
from autotune.operators.op import OpKind
from tests.graph.graph_cases import kinds_after, normal
from tests.graph.passes.graph_text import becomes


def test_constant_expressions_become_constants() -> None:
    b = GraphBuilder("g")
    product = b.add(OpKind.MUL, b.constant(normal(0, 3)), b.constant(normal(1, 3)))
    y = b.add(OpKind.ADD, b.input("x", (3,)), b.add(OpKind.NEG, product))
    assert kinds_after(ConstantFolding(), b.build([y]), 2) == [OpKind.ADD]


def test_constants_that_would_be_huge_are_not_folded() -> None:
    b = GraphBuilder("g")
    table = b.add(OpKind.ADD, b.constant(normal(0, 8, 1)), b.constant(normal(1, 1, 8)))
    graph = b.build([b.add(OpKind.ADD, b.input("x", (8,)), table)])
    assert kinds_after(ConstantFolding(limit_bytes=255), graph, 0) == [OpKind.ADD, OpKind.ADD]
    assert kinds_after(ConstantFolding(limit_bytes=256), graph, 1) == [OpKind.ADD]


def test_text_of_a_constant_subgraph_is_its_value() -> None:
    before = """
        x: (2, 3)
        a = normal(3)
        b = normal(3)
        p = mul(a, b)
        n = neg(p)
        y = add(x, n)
        -> y
    """
    becomes(ConstantFolding(), before, "y = add(x, n)")
