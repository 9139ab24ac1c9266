"""Concatenations that copy nothing, because their operands can lie in the result.

The heuristic plan leaves them alone; ``runtime/execution/concat_aliasing.py`` then places the
operands.
"""

from __future__ import annotations

from collections.abc import Set

from autotune.graph.graph import Graph
from autotune.operators.op import Family, Op


def joins_in_place(graph: Graph, op: Op, viewed: Set[str]) -> bool:
    """Return True if every operand of a last-axis concatenation can lie in its result.

    The network computes each operand for itself, and none is joined twice. None is in ``viewed``:
    tensors that share memory with another one. All have the result's format.
    """
    if op.family is not Family.CONCAT or op.int("axis") != len(graph.shape(op.output)) - 1:
        return False
    if len({*op.inputs}) < len(op.inputs):
        return False
    if {graph.types[x].storage for x in op.inputs} != {graph.types[op.output].storage}:
        return False
    return all(
        x in graph.producer and x not in graph.outputs and x not in viewed for x in op.inputs
    )
