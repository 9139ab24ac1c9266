"""Concatenations whose operands can lie in the result, so that on their own they copy nothing: grouping
by rule (tuner/heuristic_plan.py) leaves them alone, and windows (runtime/execution/concat_aliasing.py) then place the operands."""

from __future__ import annotations

from collections.abc import Set

from autotune.graph.graph import Graph
from autotune.operators.op import Family, Op


def joins_in_place(graph: Graph, op: Op, viewed: Set[str]) -> bool:
    """Whether an operator joins tensors along their last axis each of which may lie in the result:
    computed by the network for itself, not joined twice, and none of ``viewed``: the tensors that
    share the memory of another, and those others."""
    if op.family is not Family.CONCAT or op.int("axis") != len(graph.shape(op.output)) - 1:
        return False
    if len({*op.inputs}) < len(op.inputs):
        return False
    return all(
        x in graph.producer and x not in graph.outputs and x not in viewed for x in op.inputs
    )
