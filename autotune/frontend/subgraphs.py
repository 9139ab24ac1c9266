"""Nodes of ONNX graphs with nested bodies: reads, captures, order, and parts as models of their own."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import onnx

from autotune.frontend.sequences import SEQUENCES
from autotune.graph.topological_order import order_by_tensors

CONTROL = frozenset({"If", "Loop", "Scan"})
"""Operators whose attributes are graphs."""

STEPPED = CONTROL | frozenset(SEQUENCES)
"""Operators that are steps of a tree of their own."""

DEFAULT_DOMAINS = ("", "ai.onnx")
"""Names of ONNX's own operator set."""


def opset_of(model: onnx.ModelProto) -> int:
    """Return the version of ONNX's own operator set; 0 if the model imports none."""
    return max((o.version for o in model.opset_import if o.domain in DEFAULT_DOMAINS), default=0)


def is_control(node: onnx.NodeProto) -> bool:
    """Return True for an operator that is a step of a tree of its own."""
    return is_standard(node) and node.op_type in STEPPED


def is_standard(node: onnx.NodeProto) -> bool:
    """Return True for an operator of ONNX's own set."""
    return node.domain in DEFAULT_DOMAINS


def has_control(model: onnx.ModelProto) -> bool:
    """Return True if a model has control flow or sequences outside of bodies."""
    return any(is_control(node) for node in model.graph.node)


def bodies_of(node: onnx.NodeProto) -> list[onnx.GraphProto]:
    """Return the graphs among a node's attributes."""
    return [a.g for a in node.attribute if a.type == onnx.AttributeProto.GRAPH]


def all_nodes(graph: onnx.GraphProto) -> Iterator[onnx.NodeProto]:
    """Yield the nodes of a graph and of the graphs in their attributes."""
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from all_nodes(attribute.g)


def node_count(graph: onnx.GraphProto) -> int:
    """Count the nodes of a graph, bodies included."""
    return sum(1 + sum(node_count(body) for body in bodies_of(node)) for node in graph.node)


def reads_of(node: onnx.NodeProto) -> tuple[str, ...]:
    """Return the tensors that a node reads: its inputs and the captures of its bodies."""
    inner = [x for body in bodies_of(node) for x in captures_of(body)]
    return tuple(dict.fromkeys([x for x in (*node.input, *inner) if x]))


def captures_of(body: onnx.GraphProto) -> tuple[str, ...]:
    """Return the outer tensors that a body reads."""
    own = {value.name for value in body.input} | {t.name for t in body.initializer}
    own |= {x for node in body.node for x in node.output}
    read = [x for node in body.node for x in reads_of(node)]
    read += [value.name for value in body.output]
    return tuple(dict.fromkeys(x for x in read if x not in own))


def label_of(node: onnx.NodeProto, index: int) -> str:
    """Return the name of a node for messages."""
    return f"node {node.name!r}" if node.name else f"unnamed node #{index}"


def put_in_order(model: onnx.ModelProto) -> None:
    """Sort the nodes, in place, so that producers come first. Raises ``ModelError`` for cycles."""
    nodes = list(model.graph.node)
    order = order_by_tensors([reads_of(n) for n in nodes], [n.output for n in nodes])
    if order != sorted(order):
        replace_nodes(model, [nodes[i] for i in order])


def replace_nodes(model: onnx.ModelProto, nodes: Sequence[onnx.NodeProto]) -> None:
    """Set the nodes of a model, in place; they may be its own."""
    copies = [onnx.NodeProto() for _ in nodes]
    for copy, node in zip(copies, nodes, strict=True):
        copy.CopyFrom(node)
    del model.graph.node[:]
    model.graph.node.extend(copies)


def part(
    model: onnx.ModelProto, nodes: Sequence[onnx.NodeProto], outputs: Iterable[str]
) -> onnx.ModelProto:
    """Return some nodes of a model as a model; outer tensors become untyped inputs or initializers."""
    own = shell(model)
    made = {x for node in nodes for x in node.output}
    read = dict.fromkeys(x for node in nodes for x in reads_of(node) if x not in made)
    stored = {t.name: t for t in model.graph.initializer}
    own.graph.node.extend(nodes)
    own.graph.initializer.extend(stored[x] for x in read if x in stored)
    own.graph.input.extend(onnx.ValueInfoProto(name=x) for x in read if x not in stored)
    own.graph.output.extend(onnx.ValueInfoProto(name=x) for x in dict.fromkeys(outputs))
    return own


def shell(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return a model of the same operator sets and functions, without nodes."""
    own = onnx.ModelProto(ir_version=model.ir_version)
    own.opset_import.extend(model.opset_import)
    own.functions.extend(model.functions)
    own.graph.name = model.graph.name
    return own
