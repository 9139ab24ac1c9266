"""Groups of a network as parts of its file, for machines that read ONNX models."""

from __future__ import annotations

from collections.abc import Iterable

from autotune.frontend.export.file_nodes import FileNodes
from autotune.fusion.file_part import FilePart
from autotune.fusion.group import Group, is_convex
from autotune.graph.graph import Graph


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
    return None if model is None else FilePart.of(group, model)
