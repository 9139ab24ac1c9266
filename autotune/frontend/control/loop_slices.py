"""Cuts out of a loop's body the slices whose place differs from trip to trip, and evaluates them in numpy.

The slices become inputs of the body, so that one program serves all trips. Slices of long constants
(weights of all layers, tables of indices) stay: import packs weights and needs some indices, at the
price of a program for each trip.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx

from autotune.errors import InputError, ModelError
from autotune.frontend.node import BOUND_ELEMENTS, AnyArray, Node, nodes_of
from autotune.frontend.source_model import SourceModel
from autotune.frontend.subgraphs import is_standard, part, put_in_order, reads_of, replace_nodes
from autotune.frontend.translate.constant_folding import STATIC, fold, fold_shape, stored_array

PLACING = STATIC | frozenset(
    {
        *("Constant", "Identity", "Cast", "Add", "Sub", "Mul", "Div", "Mod", "Neg", "Abs", "Min", "Max"),
        *("Squeeze", "Unsqueeze", "Reshape", "Concat", "Gather"),
    }
)  # fmt: skip
"""Operators that may compute the place of a slice."""


@dataclass(frozen=True, slots=True)
class LoopSlices:
    """The slices of a body: ``nodes`` in execution order make ``outputs`` from ``inputs`` and
    ``constants``. Safe to use from several threads."""

    nodes: tuple[Node, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    constants: Mapping[str, AnyArray]

    def evaluate(self, label: str, values: Mapping[str, Any]) -> dict[str, AnyArray]:
        """Return the slices by name, from the values of a trip by name; ``label`` names the loop.

        Raises ``InputError`` for places outside of the sliced tensor, and for a sequence.
        """
        arrays = {**self.constants, **{x: _tensor(label, x, values[x]) for x in self.inputs}}
        for node in self.nodes:
            try:
                arrays[node.outputs[0]] = _evaluate(node, arrays)
            except ModelError as error:
                raise InputError(
                    f"{label}: a slice in its body does not fit: {error}; check the model's indices"
                ) from None
        return {x: arrays[x] for x in self.outputs}


@dataclass(frozen=True, slots=True)
class SlicedBody:
    """A body that takes its slices as inputs; ``slices`` is None if it has none."""

    body: SourceModel
    slices: LoopSlices | None


def cut_slices(body: SourceModel, own: int) -> SlicedBody:
    """Cut slices out of a body whose first ``own`` inputs each trip hands to it."""
    slices, places = _slices(body.proto)
    if not slices:
        return SlicedBody(body, None)
    names = [node.output[0] for node in slices]
    model = part(body.proto, [*places, *slices], names)
    put_in_order(model)
    rest = SourceModel(_remove_slices(body.proto, names, own), body.weights)
    return SlicedBody(rest, _loop_slices(SourceModel(model, body.weights)))


def _loop_slices(model: SourceModel) -> LoopSlices:
    """Decode the nodes of a model, and evaluate those over constants alone.

    A misfit is left to a trip to refuse: the loop may have none.
    """
    stored = {t.name: stored_array(model.weights.tensor(t)) for t in model.proto.graph.initializer}
    constants = {x: _read_only(value) for x, value in stored.items()}
    nodes = []
    for node in nodes_of(model.proto, model.weights):
        value = _constant(node, constants)
        if value is None:
            nodes.append(node)
        else:
            constants[node.outputs[0]] = value
    inputs = tuple(value.name for value in model.proto.graph.input)
    outputs = tuple(value.name for value in model.proto.graph.output)
    return LoopSlices(tuple(nodes), inputs, outputs, constants)


def _constant(node: Node, constants: Mapping[str, AnyArray]) -> AnyArray | None:
    if not constants.keys() >= set(node.inputs):
        return None
    try:
        return _read_only(_evaluate(node, constants))
    except ModelError:
        return None


def _read_only(array: AnyArray) -> AnyArray:
    view = np.asarray(array).view()
    view.flags.writeable = False
    return view


def _tensor(label: str, name: str, value: Any) -> AnyArray:
    if not isinstance(value, np.ndarray):
        raise InputError(
            f"{label}: a slice in its body reads {name!r}, which is {type(value).__name__}; "
            "only tensors are sliced: export the model again"
        )
    return value


def _evaluate(node: Node, arrays: Mapping[str, AnyArray]) -> AnyArray:
    """Return the output of a node. Raises ``ModelError`` if its inputs do not fit."""
    values = [arrays[x] for x in node.inputs]
    return fold_shape(node, values[0].shape) if node.operator in STATIC else fold(node, values)


@dataclass(frozen=True, slots=True)
class _Places:
    """The nodes that compute a place; ``decided`` is True if values decide it, not shapes alone."""

    nodes: tuple[onnx.NodeProto, ...]
    decided: bool


def _slices(body: onnx.ModelProto) -> tuple[list[onnx.NodeProto], list[onnx.NodeProto]]:
    """Return the Slice nodes over a body input or short constant whose start depends on input values,
    slices of those, and the nodes that compute the starts."""
    extents = {tensor.name: math.prod(tensor.dims) for tensor in body.graph.initializer}
    stored, short = set(extents), {x for x, size in extents.items() if size <= BOUND_ELEMENTS}
    given = {value.name for value in body.graph.input} - stored
    producer = {x: node for node in body.graph.node for x in node.output}
    slices: list[onnx.NodeProto] = []
    places: dict[str, onnx.NodeProto] = {}
    for node in body.graph.node:
        if not _is_slice(node) or node.input[0] not in given | short:
            continue
        again = any(node.input[0] == before.output[0] for before in slices)
        place = _places(node.input[1:], given, stored, producer)
        if place is not None and (again or place.decided):
            slices.append(node)
            places |= {x.output[0]: x for x in place.nodes}
            given.add(node.output[0])
    return slices, list(places.values())


def _is_slice(node: onnx.NodeProto) -> bool:
    """Return True for a Slice whose starts and ends are inputs."""
    return node.op_type == "Slice" and len(node.input) > 2 and _is_plain(node)


def _is_plain(node: onnx.NodeProto) -> bool:
    """Return True for a standard operator all of whose tensors have names."""
    return is_standard(node) and any(node.output) and all(node.input)


def _places(
    names: Iterable[str],
    given: set[str],
    stored: set[str],
    producer: Mapping[str, onnx.NodeProto],
) -> _Places | None:
    """Return the nodes that compute a place from ``given`` tensors; None if another operator takes part."""
    wanted, nodes, decided = list(names), {}, False
    while wanted:
        x = wanted.pop()
        if x in given:
            decided = True
        elif x and x not in stored and x not in nodes:
            node = producer.get(x)
            if node is None or node.op_type not in PLACING or not _is_plain(node):
                return None
            nodes[x] = node
            if node.op_type not in STATIC:
                wanted += node.input
            elif not set(node.input) <= given | stored:
                return None
    return _Places(tuple(nodes.values()), decided)


def _remove_slices(body: onnx.ModelProto, made: list[str], own: int) -> onnx.ModelProto:
    """Return the body with the tensors ``made`` as inputs, without nodes that nothing needs."""
    rest = onnx.ModelProto()
    rest.CopyFrom(body)
    needed = {value.name for value in body.graph.output}
    kept = []
    for node in reversed(body.graph.node):
        if not needed.isdisjoint(node.output) and not set(made) & set(node.output):
            kept.append(node)
            needed |= set(reads_of(node))
    replace_nodes(rest, kept[::-1])
    del rest.graph.input[own:], rest.graph.initializer[:], rest.graph.value_info[:]
    rest.graph.input.extend(x for x in body.graph.input[own:] if x.name in needed)
    rest.graph.initializer.extend(x for x in body.graph.initializer if x.name in needed)
    rest.graph.input.extend(onnx.ValueInfoProto(name=x) for x in made if x in needed)
    return rest
