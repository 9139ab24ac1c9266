"""Folds control flow that import can decide: takes the branch of a known If, unrolls a short Loop."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping

import numpy as np
import onnx
from onnx import numpy_helper

from autotune.frontend.control.flow import (
    bodies,
    captured,
    is_control,
    label_of,
    node_count,
    part,
    reads,
    replace_nodes,
)
from autotune.frontend.modernise import all_nodes, opset_of
from autotune.frontend.translate.folding import tensor_array
from autotune.frontend.translate.scope import AnyArray
from autotune.graph.passes.note import Note

UNROLLED_TRIPS = 16
"""A loop of more trips stays one: its body is compiled once instead of that many times."""

UNROLLED_NODES = 512
"""Nodes, with those inside of nested bodies, that all loops of a model that are unrolled may come to."""

UNROLLED_IN_ALL = 2048
"""Nodes that all unrolled loops of a model may come to: those within others multiply."""

PASS_NAME = "control folding"

Evaluate = Callable[[onnx.ModelProto, str], AnyArray | None]
"""The value of a model's only output, by its name, where import knows it."""


def fold_control(model: onnx.ModelProto, evaluate: Evaluate) -> tuple[Note, ...]:
    """Replace every If and Loop that is decided by constants and shapes, in place, to what it comes
    to; dimensions are bound before. Says what went and why."""
    store_constants(model)
    notes: list[Note] = []
    tried: set[str] = set()
    room = UNROLLED_NODES
    fresh = itertools.count()
    most = sum(1 for _ in all_nodes(model.graph)) + UNROLLED_IN_ALL
    while len(model.graph.node) <= most:
        at = _next(model, tried)
        if at is None:
            return tuple(notes)
        node = model.graph.node[at]
        tried.add(_identity(node))
        folding = _Folding(model, at, f"{_identity(node)}/{next(fresh)}", evaluate)
        note = folding.branch() if node.op_type == "If" else folding.loop(room)
        if note is not None:
            notes.append(note)
            room -= folding.unrolled_nodes
            store_constants(model)
    return tuple(notes)


def store_constants(model: onnx.ModelProto) -> None:
    """Turn Constant nodes into initializers, in place, so that bodies capture no run-time value."""
    kept = []
    for node in model.graph.node:
        tensors = [a.t for a in node.attribute if a.name == "value"]
        if node.op_type != "Constant" or len(tensors) != 1:
            kept.append(node)
            continue
        stored = onnx.TensorProto()
        stored.CopyFrom(tensors[0])
        stored.name = node.output[0]
        model.graph.initializer.append(stored)
    if len(kept) != len(model.graph.node):
        replace_nodes(model, kept)


def _identity(node: onnx.NodeProto) -> str:
    return str(next(x for x in node.output if x))


def _next(model: onnx.ModelProto, tried: set[str]) -> int | None:
    for i, node in enumerate(model.graph.node):
        if node.op_type in ("If", "Loop") and is_control(node) and _identity(node) not in tried:
            return i
    return None


class _Folding:
    """One node that may be decided. ``prefix`` begins the names of what takes its place."""

    def __init__(self, model: onnx.ModelProto, at: int, prefix: str, evaluate: Evaluate) -> None:
        self._model, self._at, self._prefix, self._evaluate = model, at, prefix, evaluate
        self._node = model.graph.node[at]
        self._label = label_of(self._node, at)
        self.unrolled_nodes = 0

    def branch(self) -> Note | None:
        """Take the branch of an If whose condition is known."""
        condition = self._number(self._node.input[0])
        if condition is None:
            return None
        taken = bool(condition)
        body = _attribute(self._node, "then_branch" if taken else "else_branch")
        nodes, made = self._inlined(body, self._prefix, {})
        self._splice(nodes + _renaming(made, self._node.output))
        other = "else" if taken else "then"
        return Note(
            PASS_NAME,
            f"{self._label} (If)",
            f"its condition is known to be {str(taken).lower()}; the {other} branch is never taken",
        )

    def loop(self, room: int) -> Note | None:
        """Write out a Loop of a known, small number of trips that no condition ends early, if that
        comes to no more nodes than there is ``room`` for."""
        trips, body = self._trips(), _attribute(self._node, "body")
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
            more, made = self._inlined(body, prefix, formal)
            nodes += more
            carried = made[1 : 1 + len(carried)]
            slices.append(made[1 + len(carried) :])
        nodes += _renaming(carried, self._node.output)
        nodes += self._stacks(slices, list(self._node.output[len(carried) :]))
        self._splice(nodes)
        return Note(
            PASS_NAME,
            f"{self._label} (Loop)",
            f"it runs {trips} times, which is known; its body is written out",
        )

    def _trips(self) -> int | None:
        """How often a Loop runs if its condition stays true."""
        given = (*self._node.input, "", "")
        trips = self._number(given[0]) if given[0] else None
        first = self._number(given[1]) if given[1] else 1
        return int(trips) if trips is not None and first else None

    def _number(self, name: str) -> float | None:
        """The value of a scalar, where constants and shapes decide it."""
        value = self._known(name)
        return None if value is None or value.size != 1 else value.item()

    def _never_ends(self, body: onnx.GraphProto) -> bool:
        """Whether the body hands on the condition that it got, or one that is always true."""
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
                return tensor_array(f"initializer {tensor.name!r}", tensor)
        if name in producer:
            values = [a.t for a in producer[name].attribute if a.name == "value"]
            is_constant = producer[name].op_type == "Constant" and len(values) == 1
            return tensor_array(self._label, values[0]) if is_constant else None
        return self._known(name) if name in captured(body) else None

    def _known(self, name: str) -> AnyArray | None:
        """The value of a tensor of the model, where constants and shapes decide it."""
        for tensor in self._model.graph.initializer:
            if tensor.name == name:
                return tensor_array(f"initializer {tensor.name!r}", tensor)
        nodes = _cone(self._model, name, self._at)
        if nodes is None:
            return None
        cone = part(self._model, nodes, [name])
        types = {value.name: value for value in self._model.graph.input}
        for value in cone.graph.input:
            if value.name not in types:
                return None
            value.CopyFrom(types[value.name])
        return self._evaluate(cone, name)

    def _constant(self, name: str, value: AnyArray) -> str:
        self._model.graph.initializer.append(numpy_helper.from_array(value, name))
        return name

    def _inlined(
        self, body: onnx.GraphProto, prefix: str, formal: Mapping[str, str]
    ) -> tuple[list[onnx.NodeProto], list[str]]:
        """A body's nodes under names of their own, and those of its outputs."""
        own = {t.name for t in body.initializer} | {x for n in body.node for x in n.output if x}
        names = {**{x: f"{prefix}/{x}" for x in own}, **formal}
        for tensor in body.initializer:
            copy = onnx.TensorProto()
            copy.CopyFrom(tensor)
            copy.name = names[tensor.name]
            self._model.graph.initializer.append(copy)
        nodes = [_renamed(node, names) for node in body.node]
        for node in nodes:
            node.name = f"{prefix}/{node.name}" if node.name else ""
        return nodes, [names.get(value.name, value.name) for value in body.output]

    def _stacks(self, slices: list[list[str]], outputs: list[str]) -> list[onnx.NodeProto]:
        """What joins the scan outputs of all trips along a new first axis."""
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
        """Put nodes in the place of the one that is folded."""
        all_nodes = list(self._model.graph.node)
        replace_nodes(self._model, [*all_nodes[: self._at], *nodes, *all_nodes[self._at + 1 :]])


def _attribute(node: onnx.NodeProto, name: str) -> onnx.GraphProto:
    return next(a.g for a in node.attribute if a.name == name)


def _cone(model: onnx.ModelProto, name: str, before: int) -> list[onnx.NodeProto] | None:
    """The nodes that a tensor depends on, in their order; None where a control node is one."""
    wanted, chosen = {name}, []
    for node in reversed(model.graph.node[:before]):
        if wanted.isdisjoint(node.output):
            continue
        if is_control(node):
            return None
        chosen.append(node)
        wanted |= set(reads(node))
    return chosen[::-1]


def _renaming(made: list[str], outputs: list[str]) -> list[onnx.NodeProto]:
    pairs = zip(made, outputs, strict=False)
    return [onnx.helper.make_node("Identity", [x], [y]) for x, y in pairs if y]


def _renamed(node: onnx.NodeProto, names: Mapping[str, str]) -> onnx.NodeProto:
    """A copy of a node that reads and makes other names, in its bodies too."""
    copy = onnx.NodeProto()
    copy.CopyFrom(node)
    copy.input[:] = [names.get(x, x) for x in node.input]
    copy.output[:] = [names.get(x, x) for x in node.output]
    for body in bodies(copy):
        _rename_body(body, names)
    return copy


def _rename_body(body: onnx.GraphProto, names: Mapping[str, str]) -> None:
    """Rename what a body captures, in place; its own names hide those outside."""
    seen = set(captured(body))
    outer = {x: y for x, y in names.items() if x in seen}
    for value in body.output:
        value.name = outer.get(value.name, value.name)
    nodes = [_renamed(node, outer) for node in body.node]
    del body.node[:]
    body.node.extend(nodes)


def _unsqueeze(model: onnx.ModelProto, x: str, axes: str, y: str) -> onnx.NodeProto:
    if opset_of(model) < 13:
        return onnx.helper.make_node("Unsqueeze", [x], [y], axes=[0])
    return onnx.helper.make_node("Unsqueeze", [x, axes], [y])
