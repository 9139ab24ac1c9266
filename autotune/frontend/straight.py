"""A straight model: decoded nodes in execution order that ONNX's checker accepts, ready to translate."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass

import onnx

from autotune.errors import ModelError
from autotune.frontend.bind import BoundModel
from autotune.frontend.node import AnyArray, Node, first_line, nodes_of
from autotune.frontend.source_model import Declaration, declaration_of
from autotune.frontend.weights import CutTensor, Weights
from autotune.graph.passes.note import Note
from autotune.graph.topological_order import order_by_tensors


@dataclass(frozen=True, slots=True)
class StraightModel:
    """A bound model without control flow.

    ``nodes`` stand in execution order; ``inputs`` and ``outputs`` are declared, ``initializers``
    stored, ``constants`` known inputs by name.
    """

    nodes: tuple[Node, ...]
    inputs: tuple[Declaration, ...]
    outputs: tuple[str, ...]
    initializers: tuple[onnx.TensorProto | CutTensor, ...]
    constants: Mapping[str, AnyArray]
    notes: tuple[Note, ...]


def straighten(model: BoundModel) -> StraightModel:
    """Decode, order and check the nodes of a model without control flow.

    Raises ``ModelError`` for a model that computes nothing, reads undefined tensors, has a cycle or
    non-tensor inputs, or that ONNX's checker refuses.
    """
    proto = model.proto
    nodes = nodes_of(proto, model.weights, model.inlined)
    if not nodes:
        raise ModelError("the graph is empty: it has no operators")
    if not proto.graph.output:
        raise ModelError("the graph has no outputs: nothing to compute; export it with outputs")
    if proto.graph.sparse_initializer:
        raise ModelError("sparse initializers are not supported; export dense weights")
    _check_defined(nodes, proto)
    order = order_by_tensors([n.inputs for n in nodes], [n.outputs for n in nodes])
    _check_tensors(proto, model.constants)
    _check_bytes(proto)
    check_valid(_reorder(proto, order), model.weights)
    return StraightModel(
        tuple(nodes[index] for index in order),
        tuple(map(declaration_of, proto.graph.input)),
        tuple(value.name for value in proto.graph.output),
        tuple(map(model.weights.tensor, proto.graph.initializer)),
        model.constants,
        model.notes,
    )


def load_schemas() -> None:
    """Load ONNX's schemas, which the first check of a process would do: 8 to 40 ms."""
    onnx.defs.get_schema("Identity")


def check_valid(model: onnx.ModelProto, weights: Weights) -> None:
    """Refuse a model that ONNX's own checker refuses. Raises ``ModelError``."""
    try:
        onnx.checker.check_model(weights.checkable(model))
    except onnx.checker.ValidationError as error:
        raise ModelError(f"not valid ONNX: {first_line(error)}; export it again") from None
    except UnicodeDecodeError:
        raise ModelError("not valid ONNX: a text in it is not UTF-8; export it again") from None


def _reorder(model: onnx.ModelProto, order: Sequence[int]) -> onnx.ModelProto:
    """Return the model with its nodes in this order: itself if they are."""
    if order == sorted(order):
        return model
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    del copy.graph.node[:]
    copy.graph.node.extend(model.graph.node[index] for index in order)
    return copy


def _check_tensors(model: onnx.ModelProto, constants: Container[str]) -> None:
    """Refuse sequences and optionals among the run-time inputs."""
    for value in model.graph.input:
        kind = value.type.WhichOneof("value")
        if kind not in ("tensor_type", None) and value.name not in constants:
            raise ModelError(
                f"input {value.name!r} is of ONNX's {kind}; only tensors are supported: export the "
                "model with tensors"
            )


def _check_bytes(model: onnx.ModelProto) -> None:
    """Refuse stored 8-bit integers that are beyond their type: ONNX's fields for them are wider."""
    ends = {onnx.TensorProto.INT8: (-128, 127), onnx.TensorProto.UINT8: (0, 255)}
    for tensor in model.graph.initializer:
        if not tensor.int32_data or tensor.data_type not in ends:
            continue
        low, high = ends[tensor.data_type]
        worst = max(tensor.int32_data, key=lambda value: max(low - value, value - high))
        if not low <= worst <= high:
            raise ModelError(
                f"initializer {tensor.name!r} holds {worst}, beyond {low} to {high} of its type; export it again"
            )


def _check_defined(nodes: Sequence[Node], model: onnx.ModelProto) -> None:
    defined = {value.name for value in model.graph.input}
    defined |= {tensor.name for tensor in model.graph.initializer}
    defined |= {output for node in nodes for output in node.outputs}
    for node in nodes:
        for x in node.inputs:
            if x and x not in defined:
                raise ModelError(
                    f"{node.label}: {node.operator} reads {x!r}, which is no input, no initializer "
                    "and no node's output; export the model again"
                )
