"""How much arithmetic an operator of a graph holds: the compute side of every roofline."""

from __future__ import annotations

from autotune.graph.graph import Graph
from autotune.operators.families import FAMILIES
from autotune.operators.op import Op


def multiply_adds(op: Op, graph: Graph) -> int:
    """Return the multiply-adds of a contraction, 0 for every other operator. Winograd's convolution counts
    what it computes, on whole tiles."""
    shapes = [graph.shape(x) for x in op.inputs]
    return FAMILIES[op.family].multiply_adds(op, shapes, graph.shape(op.output))


def flops(op: Op, graph: Graph) -> int:
    """Return scalar operations: two per multiply-add, and those of the vector unit."""
    shapes = [graph.shape(x) for x in op.inputs]
    return FAMILIES[op.family].operations(op, shapes, graph.shape(op.output))
