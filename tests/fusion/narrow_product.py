"""Groups that multiply int8, by their zero points."""

from __future__ import annotations

from autotune.fusion.group import Group
from autotune.graph.builder import GraphBuilder
from autotune.graph.graph import Graph
from autotune.operators.op import OpKind
from autotune.operators.tensor import DType


def product_graph(a_zero: int, b_zero: int = 0) -> Graph:
    """Return a graph of one matrix product of int8."""
    b = GraphBuilder("product")
    a, w = b.input("a", (24, 36), DType.INT8), b.input("w", (36, 20), DType.INT8)
    return b.build([b.add(OpKind.MATMUL, a, w, a_zero=a_zero, b_zero=b_zero)])


def product(a_zero: int, b_zero: int = 0) -> Group:
    """Return a matrix product of int8."""
    graph = product_graph(a_zero, b_zero)
    return Group.from_graph(graph, [op.name for op in graph.ops])
