"""Edges that fusion decides about: every fusible edge, tied to its repetitions."""

from __future__ import annotations

from dataclasses import dataclass

from autotune.fusion.analysis import analyse
from autotune.fusion.group import Group
from autotune.fusion.nest import Rejection
from autotune.fusion.partition import Edge
from autotune.graph.graph import Graph
from autotune.operators.op import Op


@dataclass(frozen=True, slots=True)
class FusionChoice:
    """Edges that one decision fuses or cuts.

    The ends of all of them have equal kinds and shapes, as in every repetition of a block.
    """

    signature: str
    edges: tuple[Edge, ...]


def edges(graph: Graph) -> tuple[Edge, ...]:
    """Return every (producer, consumer) pair of operator names, in the graph's order."""
    return tuple(
        (graph.producer[x].name, op.name)
        for op in graph.ops
        for x in dict.fromkeys(op.inputs)
        if x in graph.producer
    )


def fusible_edges(graph: Graph) -> tuple[Edge, ...]:
    """Return the edges whose two ends can become one program on some machine."""
    is_legal: dict[str, bool] = {}
    fusible = []
    for edge in edges(graph):
        group = Group.from_graph(graph, edge)
        if group.key not in is_legal:
            is_legal[group.key] = not isinstance(analyse(group), Rejection)
        if is_legal[group.key]:
            fusible.append(edge)
    return tuple(fusible)


def choices(graph: Graph) -> tuple[FusionChoice, ...]:
    """Return the fusible edges in the graph's order, equal signatures tied to one decision."""
    by_name = {op.name: op for op in graph.ops}
    tied: dict[str, list[Edge]] = {}
    for edge in fusible_edges(graph):
        producer, consumer = by_name[edge[0]], by_name[edge[1]]
        signature = f"{_signature(graph, producer)}>{_signature(graph, consumer)}"
        tied.setdefault(signature, []).append(edge)
    return tuple(FusionChoice(signature, tuple(repeated)) for signature, repeated in tied.items())


def _signature(graph: Graph, op: Op) -> str:
    shapes = ",".join("x".join(map(str, graph.shape(x))) for x in (*op.inputs, op.output))
    return f"{op.kind.value}({shapes})"
