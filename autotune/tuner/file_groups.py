"""Groups of a network as parts of its file, for machines that read ONNX models."""

from __future__ import annotations

from collections.abc import Iterable

from autotune.frontend.export.file_nodes import FileNodes
from autotune.fusion.file_part import FilePart, Node
from autotune.fusion.group import Group, is_convex
from autotune.graph.graph import Graph
from autotune.operators.op import OPERATORS

WRITTEN = frozenset(row.onnx for row in OPERATORS.values()) | {
    "AveragePool", "Clip", "Conv", "Flatten", "Gemm", "GlobalAveragePool", "Identity", "LayerNormalization", "MatMul", "MaxPool",
    "Reshape", "Squeeze", "Unsqueeze",
}  # fmt: skip
"""Operators of files that a single operator of a group stands for as it is."""


def group_of(graph: Graph, names: Iterable[str], nodes: FileNodes | None) -> Group | None:
    """Return the group of the named operators and of those that import made of the same nodes of the file, with these nodes.

    Without ``nodes``, the group of the operators alone. None where no nodes of the file compute it.
    """
    if nodes is None:
        return Group.from_graph(graph, names)
    wanted = set(names)
    while True:
        group = Group.from_graph(graph, wanted)
        inputs = {x: group.type_of[x].shape for x in group.inputs if x not in group.constants}
        inner = [x for x in (*inputs, *group.outputs) if x not in nodes]
        if not inner:
            break
        before = len(wanted)
        wanted |= {op.name for x in inner for op in graph.consumers[x]}
        wanted |= {graph.producer[x].name for x in inner if x in graph.producer}
        if len(wanted) == before:
            return None
    if not is_convex(graph, wanted):
        return None
    model = nodes.between(inputs, {x: group.type_of[x].shape for x in group.outputs})
    return None if model is None else FilePart.of(group, composed_nodes(group, nodes), model)


def whole_group(graph: Graph, nodes: FileNodes | None) -> Group:
    """Return a network as one group: with its file's nodes where there are any that compute it."""
    names = [op.name for op in graph.ops]
    return group_of(graph, names, nodes) or Group.from_graph(graph, names)


def composed_nodes(group: Group, nodes: FileNodes) -> tuple[Node, ...]:
    """Return the nodes of a file that import wrote in other operators, or in one of another kind, with the operators of each."""
    places = {op.output: place for place, op in enumerate(group.ops)}
    found: dict[int, set[int]] = {}
    for result in places:
        if result not in nodes:
            continue
        inner, bounds, frontier = {places[result]}, set[str](), [result]
        while frontier:
            for x in group.ops[places[frontier.pop()]].inputs:
                if x not in places or x in nodes:
                    bounds.add(x)
                elif places[x] not in inner:
                    inner.add(places[x])
                    frontier.append(x)
        index = nodes.node_of(result, bounds)
        if index is not None:
            found.setdefault(index, set()).update(inner)
    return tuple(
        (nodes.operator(index), tuple(sorted(inner)))
        for index, inner in found.items()
        if len(inner) > 1 or nodes.operator(index) not in WRITTEN
    )
