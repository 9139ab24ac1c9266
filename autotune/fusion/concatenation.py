"""Concatenations that copy nothing, because their operands can lie in the result.

The heuristic plan leaves them alone; ``runtime/execution/concat_aliasing.py`` then places the
operands.
"""

from __future__ import annotations

from collections.abc import Mapping

from autotune.graph.graph import Graph
from autotune.operators.op import Family, Op


def joined_in_place(graph: Graph, op: Op, views: Mapping[str, str]) -> tuple[str, ...]:
    """Return the tensors that can lie in the result of a last-axis concatenation, one for each operand; none if one cannot.

    The network computes each for itself, and none is joined twice. ``views`` maps tensors to those whose memory they
    share. No operand is one of either kind, but for a view of the same last axis that nothing else reads: then its
    source lies in the result. All have the result's format.
    """
    if op.family is not Family.CONCAT or op.int("axis") != len(graph.shape(op.output)) - 1:
        return ()
    if len({*op.inputs}) < len(op.inputs):
        return ()
    sources = tuple(_source(graph, x, views) for x in op.inputs)
    if {graph.types[x].storage for x in sources} != {graph.types[op.output].storage}:
        return ()
    viewed = {x for view, x in views.items() if view not in op.inputs} | views.keys()
    placed = all(
        x in graph.producer and x not in graph.outputs and x not in viewed for x in sources
    )
    return sources if placed else ()


def _source(graph: Graph, x: str, views: Mapping[str, str]) -> str:
    """Return the tensor that an operand is a view of, where nothing else reads either and their last axes are equal; else
    the operand."""
    source = views.get(x)
    if source is None or x in graph.outputs or graph.shape(source)[-1:] != graph.shape(x)[-1:]:
        return x
    is_read_once = len(graph.consumers[x]) == len(graph.consumers[source]) == 1
    return source if is_read_once else x
