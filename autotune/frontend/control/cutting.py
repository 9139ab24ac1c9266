"""Cuts an ONNX model with control flow into the steps of a tree, in running order."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from functools import cached_property

import onnx

from autotune.errors import ModelError
from autotune.frontend.control.folding import store_constants
from autotune.frontend.control.loop_slices import cut_slices
from autotune.frontend.control.tree import (
    Branch,
    GraphTree,
    Host,
    Loop,
    Move,
    Piece,
    Scan,
    ScanAxis,
    Step,
)
from autotune.frontend.modernise import OLDEST_OPSET
from autotune.frontend.node import Node, node_of
from autotune.frontend.source_model import SourceModel
from autotune.frontend.subgraphs import (
    captures_of,
    is_control,
    label_of,
    opset_of,
    part,
    reads_of,
    shell,
)
from autotune.frontend.translate.constant_folding import tensor_array
from autotune.graph.passes.note import Note


def tree_of(
    model: SourceModel, hosted: Mapping[int, Node] | None = None, notes: tuple[Note, ...] = ()
) -> GraphTree:
    """Cut a model whose nodes are in execution order; ``hosted`` maps positions to the nodes that
    numpy computes.

    Operators that wait for the same control node are one piece. A node over constants belongs to
    every piece that reads it, so that import still sees a constant there.
    """
    hosted = hosted or {}
    cut = _Cut(model, hosted.keys())
    steps: list[Step] = []
    for stage in range(len(cut.control) + 1):
        if stage > 0:
            at = cut.control[stage - 1]
            label = cut.labels[at]
            steps.append(Host(label, hosted[at]) if at in hosted else _step(model, at, label))
        piece = cut.piece(stage)
        if piece is not None:
            steps.append(piece)
    constants = {
        tensor.name: tensor_array(f"initializer {tensor.name!r}", model.weights.tensor(tensor))
        for tensor in model.proto.graph.initializer
        if tensor.name in cut.wanted
    }
    return GraphTree(tuple(steps), tuple(out.name for out in model.outputs), constants, notes)


def with_stored_constants(model: SourceModel) -> SourceModel:
    """Return the model with initializers in place of Constant nodes."""
    proto = onnx.ModelProto()
    proto.CopyFrom(model.proto)
    store_constants(proto)
    return SourceModel(proto, model.weights)


def passes_on(model: SourceModel) -> bool:
    """Return True if an output is an input or an initializer, which no operator makes."""
    graph = model.proto.graph
    names = {x.name for x in (*graph.input, *graph.initializer)}
    return any(value.name in names for value in graph.output)


class _Cut:
    """Assigns each node of a model a stage: the number of the last control node that it waits for."""

    def __init__(self, model: SourceModel, hosted: Container[int]) -> None:
        self._model, self._graph = model, model.proto.graph
        self.nodes = list(self._graph.node)
        self.control = [i for i, node in enumerate(self.nodes) if is_control(node) or i in hosted]
        self._straight = frozenset(range(len(self.nodes))) - frozenset(self.control)
        self._reads = [reads_of(node) for node in self.nodes]
        self._producer = {x: i for i, node in enumerate(self.nodes) for x in node.output if x}

    @cached_property
    def labels(self) -> Mapping[int, str]:
        """Label of each control node by position; unique, though ONNX lets nodes share a name."""
        positions: dict[str, int] = {}
        for i in self.control:
            label = label_of(self.nodes[i], i)
            positions[f"{label} #{i}" if label in positions else label] = i
        return {i: label for label, i in positions.items()}

    @cached_property
    def wanted(self) -> frozenset[str]:
        """The tensors that control nodes read, and the model's outputs."""
        read = {x for i in self.control for x in self._reads[i]}
        return frozenset(read | {value.name for value in self._graph.output})

    @cached_property
    def _free(self) -> frozenset[int]:
        """Positions of straight nodes that depend on constants alone."""
        constants = {t.name for t in self._graph.initializer}
        free = set()
        for i, node in enumerate(self.nodes):
            if i in self._straight and constants.issuperset(self._reads[i]):
                constants |= set(node.output)
                free.add(i)
        return frozenset(free)

    @cached_property
    def _stage(self) -> dict[int, int]:
        """Stage of each node by position; a control node begins its own."""
        begun = {i: place for place, i in enumerate(self.control, 1)}
        stages: dict[int, int] = {}
        for i in range(len(self.nodes)):
            before = [
                stages.get(self._producer[x], 0) for x in self._reads[i] if x in self._producer
            ]
            stages[i] = begun.get(i, max(before, default=0))
        return stages

    @cached_property
    def _leaving(self) -> frozenset[str]:
        """The tensors that another stage, a control node or the caller reads."""
        leaving = set(self.wanted)
        for i, names in enumerate(self._reads):
            for x in names:
                maker = self._producer.get(x)
                if maker is not None and maker not in self._free:
                    leaving |= {x} if self._stage[maker] != self._stage[i] else set()
        return frozenset(leaving)

    def piece(self, stage: int) -> Piece | None:
        """Return the straight operators of a stage; None if nothing reads their outputs."""
        members = [i for i, s in self._stage.items() if s == stage and self._is_own(i)]
        made = [x for i in members for x in self.nodes[i].output if x in self._leaving]
        if not made:
            return None
        chosen = [self.nodes[i] for i in sorted({*members, *self._constant_makers(members)})]
        own = part(self._model.proto, chosen, made)
        return Piece(f"piece {stage}", SourceModel(own, self._model.weights))

    def _is_own(self, i: int) -> bool:
        """Return True for a straight node, other than a constant that only pieces read."""
        if i in self._free:
            return not self.wanted.isdisjoint(self.nodes[i].output)
        return i in self._straight

    def _constant_makers(self, members: Iterable[int]) -> set[int]:
        """Return the nodes over constants that some nodes read, directly or not."""
        makers: set[int] = set()
        wanted = [x for i in members for x in self._reads[i]]
        while wanted:
            maker = self._producer.get(wanted.pop())
            if maker is not None and maker in self._free and maker not in makers:
                makers.add(maker)
                wanted += self._reads[maker]
        return makers


def _step(model: SourceModel, at: int, label: str) -> Step:
    node = model.proto.graph.node[at]
    outputs = tuple(node.output)
    match node.op_type:
        case "If":
            then, otherwise = (_body(model, node, x) for x in ("then_branch", "else_branch"))
            return Branch(label, node.input[0], then, otherwise, outputs)
        case "Loop":
            return _loop(model, node, label)
        case "Scan":
            return _scan(model, node, label)
        case _:
            return Move(label, node_of(node, label, opset_of(model.proto)))


def _loop(model: SourceModel, node: onnx.NodeProto, label: str) -> Loop:
    trips, condition, *carried = (*node.input, "", "")[: max(2, len(node.input))]
    cut = cut_slices(_body(model, node, "body"), 2 + len(carried))
    return Loop(label, trips, condition, tuple(carried), cut.body, tuple(node.output), cut.slices)


def _scan(model: SourceModel, node: onnx.NodeProto, label: str) -> Scan:
    attrs = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
    if opset_of(model.proto) < OLDEST_OPSET:
        raise ModelError(
            f"{label}: Scan of operator sets before 9 runs over batches; export the model with opset "
            "9 or newer"
        )
    body = _body(model, node, "body")
    count = int(attrs["num_scan_inputs"])
    carried, scanned = node.input[: len(node.input) - count], node.input[-count:]
    slices_out = len(node.output) - len(carried)
    return Scan(
        label,
        tuple(carried),
        tuple(scanned),
        _axes(attrs.get("scan_input_axes"), attrs.get("scan_input_directions"), count),
        _axes(attrs.get("scan_output_axes"), attrs.get("scan_output_directions"), slices_out),
        body,
        tuple(node.output),
    )


def _axes(axes: list[int] | None, directions: list[int] | None, count: int) -> tuple[ScanAxis, ...]:
    pairs = zip(axes or [0] * count, directions or [0] * count, strict=True)
    return tuple(ScanAxis(axis, bool(backwards)) for axis, backwards in pairs)


def _body(model: SourceModel, node: onnx.NodeProto, name: str) -> SourceModel:
    """Return a body as a model: captures follow its own inputs, outer constants become its own."""
    graph = next(a.g for a in node.attribute if a.name == name)
    own = shell(model.proto)
    own.graph.CopyFrom(graph)
    for value in own.graph.input:  # it runs with the shapes that it is given
        value.ClearField("type")
    stored = {t.name: t for t in model.proto.graph.initializer}
    for x in captures_of(graph):
        if x in stored:
            own.graph.initializer.append(stored[x])
        else:
            own.graph.input.append(onnx.ValueInfoProto(name=x))
    return SourceModel(own, model.weights)
