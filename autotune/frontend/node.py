"""ONNX nodes decoded to plain values: operator, names of tensors, attributes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy.typing as npt
import onnx

from autotune.errors import ModelError
from autotune.frontend.subgraphs import label_of, opset_of
from autotune.frontend.weights import NO_WEIGHTS, Weights

AnyArray = npt.NDArray[Any]
"""An array of any element type, as ONNX stores them."""

BOUND_ELEMENTS = 4096
"""Largest run-time tensor that may decide shapes; one with more elements is data."""


class RunTimeValue(ModelError):
    """Import needs the value of ``tensor``, which only a run knows: a shape, axes, an element count.

    ``inputs`` names the run-time inputs that decide it; a caller may bind them and import again.
    """

    def __init__(self, message: str, tensor: str, inputs: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.tensor = tensor
        self.inputs = inputs


@dataclass(frozen=True, slots=True)
class Node:
    """One ONNX node with decoded attributes; ``label`` names it in messages."""

    operator: str
    name: str
    label: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attrs: dict[str, object]
    opset: int

    @property
    def reads(self) -> str:
        """Beginning of a message about a tensor that this node reads."""
        return f"{self.label}: {self.operator} reads"

    def has_input(self, index: int) -> bool:
        """Return True if the optional input at a position is present."""
        return index < len(self.inputs) and self.inputs[index] != ""

    def ints(self, name: str) -> tuple[int, ...] | None:
        """Return a list-of-integers attribute; None if it is absent."""
        value = self.attrs.get(name)
        if value is None:
            return None
        if not isinstance(value, list):
            raise ModelError(f"{self.label}: attribute {name} must be integers, got {value!r}")
        return tuple(int(v) for v in value)

    def int(self, name: str, default: int) -> int:
        """Return an integer attribute."""
        value = self.attrs.get(name, default)
        if not isinstance(value, int):
            raise ModelError(f"{self.label}: attribute {name} must be an integer, got {value!r}")
        return value

    def float(self, name: str, default: float) -> float:
        """Return a floating-point attribute."""
        value = self.attrs.get(name, default)
        if not isinstance(value, int | float):
            raise ModelError(f"{self.label}: attribute {name} must be a number, got {value!r}")
        return float(value)

    def text(self, name: str, default: str) -> str:
        """Return a string attribute."""
        value = self.attrs.get(name, default)
        return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def nodes_of(
    model: onnx.ModelProto, weights: Weights, inlined: tuple[str, ...] = ()
) -> tuple[Node, ...]:
    """Decode the nodes of a model, in its order.

    ``inlined`` names the functions that were replaced by their bodies. Raises ``ModelError`` for
    attributes that make no sense.
    """
    opset = opset_of(model)
    return tuple(
        node_of(
            proto,
            label_with_functions(proto, index, inlined),
            opset,
            weights,
            f"{proto.op_type}#{index}",
        )
        for index, proto in enumerate(model.graph.node)
    )


def label_with_functions(proto: onnx.NodeProto, index: int, inlined: tuple[str, ...]) -> str:
    """Return the name of a node for messages, with the functions that it may come from."""
    label = label_of(proto, index)
    return f"{label} (in what {' or '.join(inlined)} stands for)" if inlined else label


def node_of(
    proto: onnx.NodeProto,
    label: str,
    opset: int,
    weights: Weights = NO_WEIGHTS,
    first_output: str = "",
) -> Node:
    """Decode a node; ``first_output`` names its first output if the model does not. Raises
    ``ModelError`` for attributes that make no sense."""
    outputs = tuple(proto.output)
    if not any(outputs):
        raise ModelError(f"{label}: {proto.op_type} has no output; the file is damaged")
    try:
        attrs = {a.name: onnx.helper.get_attribute_value(a) for a in proto.attribute}
    except ValueError as error:
        raise ModelError(f"{label}: {proto.op_type}: {first_line(error)}") from None
    if weights.in_attributes:
        tensors = {x: y for x, y in attrs.items() if isinstance(y, onnx.TensorProto)}
        attrs |= {x: weights.tensor(y) for x, y in tensors.items()}
    if not outputs[0]:  # a recurrent node of which only the last state is used
        outputs = (first_output, *outputs[1:])
    return Node(proto.op_type, proto.name, label, tuple(proto.input), outputs, attrs, opset)


def first_line(error: Exception) -> str:
    """Return a library's error as one line."""
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
