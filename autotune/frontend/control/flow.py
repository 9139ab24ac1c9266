"""Control flow: an ONNX model as straight pieces between If, Loop, Scan and sequence steps.

What import cannot fold becomes a small tree: each piece and each body is a model of its own, that is
imported, fused, tuned and run by itself; what a body reads from outside is captured as its inputs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass

import onnx

from autotune.errors import ModelError
from autotune.frontend.translate.scope import Node
from autotune.frontend.translate.sequences import SEQUENCES
from autotune.graph.topological_order import order_by_tensors

CONTROL = frozenset({"If", "Loop", "Scan"})
"""Operators whose attributes are graphs."""

STEPPED = CONTROL | frozenset(SEQUENCES)
"""Operators that are steps of a tree of their own."""

_STANDARD = ("", "ai.onnx")


@dataclass(frozen=True, slots=True)
class Piece:
    """Operators between two control nodes, as a straight model; its inputs have no types yet."""

    label: str
    model: onnx.ModelProto


@dataclass(frozen=True, slots=True)
class Branch:
    """An If: ``condition`` chooses which body makes ``outputs``."""

    label: str
    condition: str
    then: onnx.ModelProto
    otherwise: onnx.ModelProto
    outputs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Loop:
    """A Loop: ``trips`` and ``condition`` are tensors or empty; ``carried`` are the first values of
    what one iteration hands to the next. The body's first ``2 + len(carried)`` inputs are the
    iteration's number, the condition and these; the others it captures."""

    label: str
    trips: str
    condition: str
    carried: tuple[str, ...]
    body: onnx.ModelProto
    outputs: tuple[str, ...]
    picks: onnx.ModelProto | None = None
    """Makes slices that the body reads, from what it is given; captured by name like anything else."""


@dataclass(frozen=True, slots=True)
class Axis:
    """Where a Scan slices an input, or stacks an output, and whether from the end."""

    axis: int
    backwards: bool


@dataclass(frozen=True, slots=True)
class Scan:
    """A Scan over slices of ``scanned``, one per row of ``sliced``; ``stacked`` says how the slices
    that it makes are joined. The body's first inputs are ``carried`` and a slice of each."""

    label: str
    carried: tuple[str, ...]
    scanned: tuple[str, ...]
    sliced: tuple[Axis, ...]
    stacked: tuple[Axis, ...]
    body: onnx.ModelProto
    outputs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Move:
    """An operator on sequences or optionals: moves tensors and computes nothing."""

    label: str
    node: onnx.NodeProto


@dataclass(frozen=True, slots=True)
class Host:
    """An operator on integers or booleans that numpy computes, exactly over its type."""

    label: str
    node: Node


Step = Piece | Branch | Loop | Scan | Move | Host


@dataclass(frozen=True, slots=True)
class Tree:
    """Steps in running order; ``constants`` are those initializers that steps other than pieces
    read, or that are outputs."""

    steps: tuple[Step, ...]
    outputs: tuple[str, ...]
    constants: tuple[onnx.TensorProto, ...]


def is_control(node: onnx.NodeProto) -> bool:
    """Whether a node is no straight operator."""
    return is_standard(node) and node.op_type in STEPPED


def is_standard(node: onnx.NodeProto) -> bool:
    """Whether an operator is ONNX's own."""
    return node.domain in _STANDARD


def has_control(model: onnx.ModelProto) -> bool:
    """Whether a model needs more than one straight line of operators, as it stands."""
    return any(is_control(node) for node in model.graph.node)


def bodies(node: onnx.NodeProto) -> list[onnx.GraphProto]:
    """The graphs that a node holds."""
    return [a.g for a in node.attribute if a.type == onnx.AttributeProto.GRAPH]


def node_count(graph: onnx.GraphProto) -> int:
    """Nodes of a graph, and of the graphs that they hold."""
    return sum(1 + sum(node_count(body) for body in bodies(node)) for node in graph.node)


def reads(node: onnx.NodeProto) -> tuple[str, ...]:
    """What a node reads: its inputs, and what its bodies capture."""
    inner = [x for body in bodies(node) for x in captured(body)]
    return tuple(dict.fromkeys([x for x in (*node.input, *inner) if x]))


def captured(body: onnx.GraphProto) -> tuple[str, ...]:
    """Names that a body reads and that are defined outside of it."""
    own = {value.name for value in body.input} | {t.name for t in body.initializer}
    own |= {x for node in body.node for x in node.output}
    read = [x for node in body.node for x in reads(node)]
    read += [value.name for value in body.output]
    return tuple(dict.fromkeys(x for x in read if x not in own))


def label_of(node: onnx.NodeProto, index: int) -> str:
    """How messages call a node."""
    return f"node {node.name!r}" if node.name else f"unnamed node #{index}"


def check_bodies(model: onnx.ModelProto) -> None:
    """Refuse bodies, at any depth, that do not take and make what their node hands them. Raises
    ``ModelError``."""
    _check_nodes(model.graph, "")


def _check_nodes(graph: onnx.GraphProto, inside: str) -> None:
    """Check the control nodes of a graph; ``inside`` says which node holds it, as a suffix."""
    for index, node in enumerate(graph.node):
        if not is_control(node):
            continue
        label = f"{label_of(node, index)}{inside}"
        if not any(node.output):
            raise ModelError(f"{label}: {node.op_type} has no output; the file is damaged")
        first = 2 if node.op_type == "Loop" else 0
        if node.op_type in CONTROL and not all(node.input[first:]):
            raise ModelError(
                f"{label}: an input of {node.op_type} has no name; the file is damaged"
            )
        if node.op_type in CONTROL:
            _check_bodies(node, label)
        for body in bodies(node):
            _check_nodes(body, f" in the body {body.name!r} of {label}")


def _check_bodies(node: onnx.NodeProto, label: str) -> None:
    scanned = next((a.i for a in node.attribute if a.name == "num_scan_inputs"), 0)
    inputs, fixed = {
        "If": (0, 0),
        "Loop": (max(2, len(node.input)), 1),
        "Scan": (len(node.input), 0),
    }[node.op_type]
    carried = 0 if node.op_type == "If" else inputs - 2 * fixed - scanned
    for body in bodies(node):
        if (len(body.input), len(body.output)) != (inputs, fixed + len(node.output)) or not (
            0 <= carried <= len(node.output)
        ):
            raise ModelError(
                f"{label}: {node.op_type} hands {inputs} values to its body and gets "
                f"{fixed + len(node.output)} back, but the body takes {len(body.input)} and makes "
                f"{len(body.output)}; export the model again"
            )


def put_in_order(model: onnx.ModelProto) -> None:
    """Sort the nodes, in place, so that producers come first. Raises ``ModelError`` for cycles."""
    nodes = list(model.graph.node)
    order = order_by_tensors([reads(n) for n in nodes], [n.output for n in nodes])
    if order != sorted(order):
        replace_nodes(model, [nodes[i] for i in order])


def replace_nodes(model: onnx.ModelProto, nodes: Sequence[onnx.NodeProto]) -> None:
    """Make these the nodes of a model, in place; they may be its own."""
    copies = [onnx.NodeProto() for _ in nodes]
    for copy, node in zip(copies, nodes, strict=True):
        copy.CopyFrom(node)
    del model.graph.node[:]
    model.graph.node.extend(copies)


def declare_outputs(model: onnx.ModelProto) -> None:
    """Give outputs without a type one, in place: ONNX's checker wants it, and import finds its own."""
    if all(value.HasField("type") for value in model.graph.output):
        return
    with suppress(onnx.shape_inference.InferenceError, RuntimeError):
        model.CopyFrom(onnx.shape_inference.infer_shapes(model))
    for value in model.graph.output:
        if not value.HasField("type"):
            value.type.CopyFrom(onnx.helper.make_tensor_type_proto(onnx.TensorProto.FLOAT, ()))
        if value.type.HasField("tensor_type"):
            value.type.tensor_type.shape.SetInParent()


def part(
    model: onnx.ModelProto, nodes: Sequence[onnx.NodeProto], outputs: Iterable[str]
) -> onnx.ModelProto:
    """Some nodes of a model as a model: what they read and do not make become inputs or constants."""
    own = shell(model)
    made = {x for node in nodes for x in node.output}
    read = dict.fromkeys(x for node in nodes for x in reads(node) if x not in made)
    stored = {t.name: t for t in model.graph.initializer}
    own.graph.node.extend(nodes)
    own.graph.initializer.extend(stored[x] for x in read if x in stored)
    own.graph.input.extend(onnx.ValueInfoProto(name=x) for x in read if x not in stored)
    own.graph.output.extend(onnx.ValueInfoProto(name=x) for x in dict.fromkeys(outputs))
    return own


def shell(model: onnx.ModelProto) -> onnx.ModelProto:
    """A model without nodes, of the same operator sets and functions."""
    own = onnx.ModelProto(ir_version=model.ir_version)
    own.opset_import.extend(model.opset_import)
    own.functions.extend(model.functions)
    own.graph.name = model.graph.name
    return own
