"""What a translation of one ONNX node sees: the node, what is known so far, and how to emit."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from autotune.errors import ModelError
from autotune.graph.builder import GraphBuilder
from autotune.graph.op import AttrValue, OpKind

AnyArray = npt.NDArray[Any]
"""An array of any element type, as ONNX stores them."""

MAX_TENSOR_BYTES = 2 << 30
"""A tensor larger than this is refused before memory for it is asked for."""


@dataclass(frozen=True, slots=True)
class Node:
    """One ONNX node, its attributes decoded; ``label`` is how messages call it."""

    operator: str
    name: str
    label: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attrs: dict[str, object]
    opset: int

    def has_input(self, index: int) -> bool:
        """Whether the optional input at this position is given."""
        return index < len(self.inputs) and self.inputs[index] != ""

    def ints(self, name: str) -> tuple[int, ...] | None:
        """A list-of-integers attribute, or None when it is absent."""
        value = self.attrs.get(name)
        if value is None:
            return None
        if not isinstance(value, list):
            raise ModelError(f"{self.label}: attribute {name} must be integers, got {value!r}")
        return tuple(int(v) for v in value)

    def int(self, name: str, default: int) -> int:
        """An integer attribute."""
        value = self.attrs.get(name, default)
        if not isinstance(value, int):
            raise ModelError(f"{self.label}: attribute {name} must be an integer, got {value!r}")
        return value

    def float(self, name: str, default: float) -> float:
        """A floating-point attribute."""
        value = self.attrs.get(name, default)
        if not isinstance(value, int | float):
            raise ModelError(f"{self.label}: attribute {name} must be a number, got {value!r}")
        return float(value)

    def text(self, name: str, default: str) -> str:
        """A string attribute."""
        value = self.attrs.get(name, default)
        return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


@dataclass(slots=True)
class Scope:
    """The import in progress: ONNX tensors that are values already, and those in the graph.

    ``arrays`` are known at import (initializers and what was folded), of any element type;
    ``tensors`` maps the other ONNX names to graph tensors. ``foreign`` names the run-time inputs
    that are not float32, with their type: harmless until an operator reads one.
    """

    builder: GraphBuilder
    arrays: dict[str, AnyArray]
    reserved: frozenset[str]
    tensors: dict[str, str] = field(default_factory=dict)
    foreign: dict[str, str] = field(default_factory=dict)
    _names: set[str] = field(default_factory=set)

    def is_array(self, name: str) -> bool:
        """Whether the ONNX tensor's value is known at import."""
        return name in self.arrays

    def array(self, node: Node, index: int) -> AnyArray:
        """The value of an input that must be known at import."""
        name = node.inputs[index]
        if name not in self.arrays:
            raise ModelError(
                f"{node.label}: {node.operator} reads {name!r} as input {index}, which is only known "
                "at run time; export the model with constant shapes and parameters"
            )
        value = self.arrays[name]
        if value.dtype.kind not in "fiub":
            raise self._not_float(node, name, str(value.dtype))
        return value

    def tensor(self, node: Node, index: int) -> str:
        """The graph tensor of an input; a value becomes a constant of the graph on first use."""
        name = node.inputs[index]
        if name in self.foreign:
            raise self._not_float(node, name, self.foreign[name])
        if name in self.arrays and name not in self.tensors:
            value = self.arrays[name]
            if value.dtype != np.float32:
                raise self._not_float(node, name, str(value.dtype))
            self.tensors[name] = self.builder.constant(value, self._unique_tensor(name))
        if name not in self.tensors:
            raise ModelError(f"{node.label}: input tensor {name!r} is not defined")
        return self.tensors[name]

    def shape(self, tensor: str) -> tuple[int, ...]:
        """Shape of a graph tensor."""
        return self.builder.shape(tensor)

    def constant(self, node: Node, value: npt.ArrayLike, role: str) -> str:
        """A new graph constant derived from a node's parameters."""
        return self.builder.constant(value, self._unique_tensor(f"{node.outputs[0]}.{role}"))

    def step(self, node: Node, kind: OpKind, *inputs: str, **attrs: AttrValue) -> str:
        """Emit an operator whose output is internal to this node's translation."""
        return self._emit(
            node, self._unique_tensor(f"{node.outputs[0]}.{kind}"), kind, inputs, attrs
        )

    def result(self, node: Node, kind: OpKind, *inputs: str, **attrs: AttrValue) -> str:
        """Emit the operator that makes this node's output, under its ONNX name."""
        return self._emit(node, node.outputs[0], kind, inputs, attrs)

    def give(self, node: Node, index: int, tensor: str) -> None:
        """State the tensor of one of a node's outputs; that of the first is what its translation
        returns."""
        if index < len(node.outputs) and node.outputs[index]:
            self.tensors[node.outputs[index]] = tensor

    def reshaped(self, node: Node, tensor: str, shape: tuple[int, ...]) -> str:
        """This node's output as another view of a tensor; the tensor itself if nothing changes."""
        if self.shape(tensor) == shape:
            return tensor
        return self.result(node, OpKind.RESHAPE, tensor, shape=shape)

    def _emit(
        self,
        node: Node,
        output: str,
        kind: OpKind,
        inputs: tuple[str, ...],
        attrs: dict[str, AttrValue],
    ) -> str:
        name = self._unique_op(node.name if node.name and output == node.outputs[0] else output)
        tensor = self.builder.add(kind, *inputs, name=name, output=output, **attrs)
        check_size(node.label, self.shape(tensor))
        return tensor

    def _unique_op(self, stem: str) -> str:
        name, suffix = stem, 2
        while name in self._names:
            name, suffix = f"{stem}#{suffix}", suffix + 1
        self._names.add(name)
        return name

    def _unique_tensor(self, stem: str) -> str:
        if stem in self.arrays and not self.builder.has(stem):
            return stem
        name, suffix = stem, 2
        while name in self.reserved or self.builder.has(name):
            name, suffix = f"{stem}#{suffix}", suffix + 1
        return name

    def _not_float(self, node: Node, name: str, dtype: str) -> ModelError:
        return ModelError(
            f"{node.label}: {node.operator} reads {name!r} of type {dtype}; only float32 is "
            "computed: convert the model to float32"
        )


def check_size(label: str, shape: tuple[int, ...], item_bytes: int = 4) -> None:
    """Refuse a tensor of more than ``MAX_TENSOR_BYTES``."""
    size_bytes = math.prod(shape) * item_bytes
    if size_bytes > MAX_TENSOR_BYTES:
        raise ModelError(
            f"{label}: a tensor of shape {list(shape)} takes {size_bytes / 2**30:.1f} GiB, more than "
            f"the limit of {MAX_TENSOR_BYTES >> 30} GiB; use smaller dimensions"
        )


Translate = Callable[[Scope, Node], str]
"""Emits a node's operators and returns the graph tensor that holds its first output."""
