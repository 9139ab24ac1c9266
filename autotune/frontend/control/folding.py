"""Folds control flow that import can decide: takes the branch of a constant If, unrolls a short Loop."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
import onnx
from onnx import numpy_helper

from autotune.frontend.bind import BoundModel
from autotune.frontend.control.body_check import check_bodies
from autotune.frontend.node import AnyArray
from autotune.frontend.source_model import SourceModel
from autotune.frontend.straight import check_valid
from autotune.frontend.subgraphs import (
    all_nodes,
    bodies_of,
    captures_of,
    is_control,
    label_of,
    node_count,
    opset_of,
    part,
    put_in_order,
    reads_of,
    replace_nodes,
)
from autotune.frontend.translate.constant_folding import tensor_array
from autotune.frontend.weights import Weights
from autotune.graph.passes.note import Note

UNROLLED_TRIPS = 16
"""Most trips of an unrolled loop; the body of a longer one is compiled once instead."""

UNROLLED_NODES = 512
"""Limit on the nodes, bodies included, that all loops of a model unroll to."""

UNROLLED_IN_ALL = 2048
"""Limit on the nodes that unrolling adds: loops within loops multiply."""

PASS_NAME = "control folding"

Evaluate = Callable[[SourceModel, str], AnyArray | None]
"""Returns the value of a model's only output, by its name, if import can compute it."""


def fold_control(model: BoundModel, evaluate: Evaluate) -> BoundModel:
    """Replace every If and Loop that constants and shapes decide by the operators that it runs.

    Notes tell what went and why. Raises ``ModelError`` for an invalid model.
    """
    proto = onnx.ModelProto()
    proto.CopyFrom(model.proto)
    put_in_order(proto)
    check_bodies(proto)
    check_valid(proto, model.weights)
    notes = _fold(proto, model.weights, evaluate)
    return replace(model, proto=proto, notes=notes)


def _fold(model: onnx.ModelProto, weights: Weights, evaluate: Evaluate) -> tuple[Note, ...]:
    """Fold the control flow of a model, in place."""
    store_constants(model)
    notes: list[Note] = []
    tried: set[str] = set()
    room = UNROLLED_NODES
    fresh = itertools.count()
    most = sum(1 for _ in all_nodes(model.graph)) + UNROLLED_IN_ALL
    while len(model.graph.node) <= most:
        at = _next_control(model, tried)
        if at is None:
            break
        node = model.graph.node[at]
        tried.add(_identity(node))
        folding = _Folding(model, weights, at, f"{_identity(node)}/{next(fresh)}", evaluate)
        note = folding.branch() if node.op_type == "If" else folding.loop(room)
        if note is not None:
            notes.append(note)
            room -= folding.unrolled_nodes
            store_constants(model)
    return tuple(notes)


def store_constants(model: onnx.ModelProto) -> None:
    """Turn Constant nodes into initializers, in place, so that bodies capture no run-time value."""
    nodes = []
    for node in model.graph.node:
        tensors = [a.t for a in node.attribute if a.name == "value"]
        if node.op_type != "Constant" or len(tensors) != 1:
            nodes.append(node)
            continue
        stored = onnx.TensorProto()
        stored.CopyFrom(tensors[0])
        stored.name = node.output[0]
        model.graph.initializer.append(stored)
    if len(nodes) != len(model.graph.node):
        replace_nodes(model, nodes)


def _identity(node: onnx.NodeProto) -> str:
    return str(next(x for x in node.output if x))


def _next_control(model: onnx.ModelProto, tried: set[str]) -> int | None:
    for i, node in enumerate(model.graph.node):
        if node.op_type in ("If", "Loop") and is_control(node) and _identity(node) not in tried:
            return i
    return None


class _Folding:
    """Folds one node. ``prefix`` begins the names of the nodes and tensors that replace it."""

    def __init__(
        self, model: onnx.ModelProto, weights: Weights, at: int, prefix: str, evaluate: Evaluate
    ) -> None:
        self._model, self._weights, self._at = model, weights, at
        self._prefix, self._evaluate = prefix, evaluate
        self._node = model.graph.node[at]
        self._label = label_of(self._node, at)
        self.unrolled_nodes = 0

    def branch(self) -> Note | None:
        """Replace an If by the branch that its constant condition takes."""
        condition = self._number(self._node.input[0])
        if condition is None:
            return None
        taken = bool(condition)
        body = _body(self._node, "then_branch" if taken else "else_branch")
        nodes, made = self._inline(body, self._prefix, {})
        self._splice(nodes + _identities(made, self._node.output))
        other = "else" if taken else "then"
        return Note(
            PASS_NAME,
            f"{self._label} (If)",
            f"its condition is known to be {str(taken).lower()}; the {other} branch is never taken",
        )

    def loop(self, room: int) -> Note | None:
        """Unroll a Loop of few constant trips that no condition ends early, if that makes at most
        ``room`` nodes."""
        trips, body = self._trips(), _body(self._node, "body")
        if trips is None or not 0 < trips <= UNROLLED_TRIPS or not self._never_ends(body):
            return None
        self.unrolled_nodes = trips * node_count(body)
        if self.unrolled_nodes > room:
            return None
        carried, slices, nodes = list(self._node.input[2:]), [], []
        true = self._constant(f"{self._prefix}/true", np.asarray(True))
        for trip in range(trips):
            prefix = f"{self._prefix}/{trip}"
            number = self._constant(f"{prefix}/trip", np.asarray(trip, np.int64))
            formal = dict(zip((v.name for v in body.input), (number, true, *carried), strict=True))
            more, made = self._inline(body, prefix, formal)
            nodes += more
            carried = made[1 : 1 + len(carried)]
            slices.append(made[1 + len(carried) :])
        nodes += _identities(carried, self._node.output)
        nodes += self._stacks(slices, list(self._node.output[len(carried) :]))
        self._splice(nodes)
        return Note(
            PASS_NAME,
            f"{self._label} (Loop)",
            f"it runs {trips} times, which is known; its body is written out",
        )

    def _trips(self) -> int | None:
        """Return the trips of a Loop whose condition stays true; None if a run decides them."""
        given = (*self._node.input, "", "")
        trips = self._number(given[0]) if given[0] else None
        first = self._number(given[1]) if given[1] else 1
        return int(trips) if trips is not None and first else None

    def _number(self, name: str) -> float | None:
        """Return the value of a scalar that constants and shapes decide, else None."""
        value = self._constant_value(name)
        return None if value is None or value.size != 1 else value.item()

    def _never_ends(self, body: onnx.GraphProto) -> bool:
        """Return True if the body returns its own condition, or one that is always true."""
        producer = {x: node for node in body.node for x in node.output}
        name = body.output[0].name
        while name in producer and producer[name].op_type == "Identity":
            name = producer[name].input[0]
        if name == body.input[1].name:
            return True
        value = self._constant_of(body, name, producer)
        return value is not None and value.size == 1 and bool(value.item())

    def _constant_of(
        self, body: onnx.GraphProto, name: str, producer: Mapping[str, onnx.NodeProto]
    ) -> AnyArray | None:
        for tensor in body.initializer:
            if tensor.name == name:
                return self._stored(f"initializer {tensor.name!r}", tensor)
        if name in producer:
            values = [a.t for a in producer[name].attribute if a.name == "value"]
            is_constant = producer[name].op_type == "Constant" and len(values) == 1
            return self._stored(self._label, values[0]) if is_constant else None
        return self._constant_value(name) if name in captures_of(body) else None

    def _constant_value(self, name: str) -> AnyArray | None:
        """Return the value of a tensor that constants and shapes decide, else None."""
        for tensor in self._model.graph.initializer:
            if tensor.name == name:
                return self._stored(f"initializer {tensor.name!r}", tensor)
        nodes = _cone(self._model, name, self._at)
        if nodes is None:
            return None
        cone = part(self._model, nodes, [name])
        types = {value.name: value for value in self._model.graph.input}
        for value in cone.graph.input:
            if value.name not in types:
                return None
            value.CopyFrom(types[value.name])
        return self._evaluate(SourceModel(cone, self._weights), name)

    def _stored(self, label: str, tensor: onnx.TensorProto) -> AnyArray:
        return tensor_array(label, self._weights.tensor(tensor))

    def _constant(self, name: str, value: AnyArray) -> str:
        self._model.graph.initializer.append(numpy_helper.from_array(value, name))
        return name

    def _inline(
        self, body: onnx.GraphProto, prefix: str, formal: Mapping[str, str]
    ) -> tuple[list[onnx.NodeProto], list[str]]:
        """Return copies of a body's nodes under fresh names, and the names of its outputs."""
        own = {t.name for t in body.initializer} | {x for n in body.node for x in n.output if x}
        names = {**{x: f"{prefix}/{x}" for x in own}, **formal}
        for tensor in body.initializer:
            copy = onnx.TensorProto()
            copy.CopyFrom(tensor)
            copy.name = names[tensor.name]
            self._model.graph.initializer.append(copy)
        nodes = [_rename(node, names) for node in body.node]
        for node in nodes:
            node.name = f"{prefix}/{node.name}" if node.name else ""
        return nodes, [names.get(value.name, value.name) for value in body.output]

    def _stacks(self, slices: list[list[str]], outputs: list[str]) -> list[onnx.NodeProto]:
        """Return nodes that join the scan outputs of all trips along a new first axis."""
        nodes = []
        axes = self._constant(f"{self._prefix}/axes", np.asarray([0], np.int64))
        for place, output in enumerate(outputs):
            rows = [f"{self._prefix}/{trip}/row {place}" for trip in range(len(slices))]
            for row, made in zip(rows, slices, strict=True):
                nodes.append(_unsqueeze(self._model, made[place], axes, row))
            if output:
                nodes.append(onnx.helper.make_node("Concat", rows, [output], axis=0))
        return nodes

    def _splice(self, nodes: list[onnx.NodeProto]) -> None:
        """Replace the folded node by these."""
        all_nodes = list(self._model.graph.node)
        replace_nodes(self._model, [*all_nodes[: self._at], *nodes, *all_nodes[self._at + 1 :]])


def _body(node: onnx.NodeProto, name: str) -> onnx.GraphProto:
    return next(a.g for a in node.attribute if a.name == name)


def _cone(model: onnx.ModelProto, name: str, before: int) -> list[onnx.NodeProto] | None:
    """Return the nodes that a tensor depends on, in order; None if one is a control node."""
    wanted, chosen = {name}, []
    for node in reversed(model.graph.node[:before]):
        if wanted.isdisjoint(node.output):
            continue
        if is_control(node):
            return None
        chosen.append(node)
        wanted |= set(reads_of(node))
    return chosen[::-1]


def _identities(made: list[str], outputs: list[str]) -> list[onnx.NodeProto]:
    pairs = zip(made, outputs, strict=False)
    return [onnx.helper.make_node("Identity", [x], [y]) for x, y in pairs if y]


def _rename(node: onnx.NodeProto, names: Mapping[str, str]) -> onnx.NodeProto:
    """Return a copy of a node with other names of tensors, in its bodies too."""
    copy = onnx.NodeProto()
    copy.CopyFrom(node)
    copy.input[:] = [names.get(x, x) for x in node.input]
    copy.output[:] = [names.get(x, x) for x in node.output]
    for body in bodies_of(copy):
        _rename_body(body, names)
    return copy


def _rename_body(body: onnx.GraphProto, names: Mapping[str, str]) -> None:
    """Rename the captures of a body, in place; its own names hide outer ones."""
    seen = set(captures_of(body))
    outer = {x: y for x, y in names.items() if x in seen}
    for value in body.output:
        value.name = outer.get(value.name, value.name)
    nodes = [_rename(node, outer) for node in body.node]
    del body.node[:]
    body.node.extend(nodes)


def _unsqueeze(model: onnx.ModelProto, x: str, axes: str, y: str) -> onnx.NodeProto:
    if opset_of(model) < 13:
        return onnx.helper.make_node("Unsqueeze", [x], [y], axes=[0])
    return onnx.helper.make_node("Unsqueeze", [x, axes], [y])
