"""What a translation of one ONNX node sees: the node, what is known so far, and how to emit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from autotune.errors import ModelError
from autotune.frontend.element_types import ONE_TYPE, dtype_of_array, result_types
from autotune.frontend.limits import check_size, checked_type, not_computed
from autotune.frontend.node import AnyArray, Node, RunTimeValue
from autotune.graph.builder import GraphBuilder
from autotune.operators.op import AttrValue, OpKind
from autotune.operators.tensor import NUMPY, DType

MAX_FOLDED_BYTES = 4 << 30
"""What all values that are computed at import may take together."""


@dataclass(slots=True)
class Scope:
    """The import in progress: ONNX tensors that are values already, and those in the graph.

    ``arrays`` are known at import (initializers and what was folded), of any element type;
    ``tensors`` maps the other ONNX names to graph tensors, and ``types`` to what their numbers
    mean. ``foreign`` names the run-time inputs of types that the graph has not: harmless until an
    operator reads one.
    """

    builder: GraphBuilder
    arrays: dict[str, AnyArray]
    reserved: frozenset[str]
    tensors: dict[str, str] = field(default_factory=dict)
    types: dict[str, DType] = field(default_factory=dict)
    foreign: dict[str, str] = field(default_factory=dict)
    made: set[str] = field(default_factory=set)
    folded_bytes: int = 0
    _results: dict[str, DType] = field(default_factory=dict)
    _names: set[str] = field(default_factory=set)

    def is_array(self, name: str) -> bool:
        """Whether the ONNX tensor's value is known at import."""
        return name in self.arrays

    def count(self, node: Node) -> None:
        """Count what the values of a node's outputs take; refuse more than ``MAX_FOLDED_BYTES``."""
        values = [self.arrays[x] for x in node.outputs if x in self.arrays]
        self.folded_bytes += sum(value.nbytes for value in values if value.base is None)
        if self.folded_bytes > MAX_FOLDED_BYTES:
            raise ModelError(
                f"{node.label}: the values computed at import take {self.folded_bytes / 2**30:.1f} GiB "
                f"together, more than the limit of {MAX_FOLDED_BYTES >> 30} GiB; use smaller constants"
            )

    def array(self, node: Node, index: int) -> AnyArray:
        """The value of an input that must be known at import."""
        name = node.inputs[index]
        if name not in self.arrays:
            raise RunTimeValue(
                f"{node.label}: {node.operator} reads {name!r} as input {index}, which is only known "
                "at run time; export the model with constant shapes and parameters",
                name,
            )
        value = self.arrays[name]
        if value.dtype.kind not in "fiub" and dtype_of_array(value) is None:
            raise not_computed(node.reads, name, str(value.dtype))
        return value

    def number_of(self, node: Node, index: int) -> float:
        """The one number of an input that must be known at import; an integer is exact."""
        value = self.array(node, index)
        checked_type(node.reads, node.inputs[index], value)
        if value.size != 1:
            raise ModelError(
                f"{node.label}: {node.operator} input {index} must be one number, got shape "
                f"{list(value.shape)}"
            )
        return float(np.asarray(value, np.float64).reshape(()))

    def tensor(self, node: Node, index: int) -> str:
        """The graph tensor of an input; a value becomes a constant of the graph on first use."""
        name = node.inputs[index]
        if name in self.foreign:
            raise not_computed(node.reads, name, self.foreign[name])
        if name in self.arrays and name not in self.tensors:
            value = self.arrays[name]
            dtype = checked_type(node.reads, name, value)
            if value.size == 0:
                raise ModelError(
                    f"{node.label}: {node.operator} reads {name!r} of shape {list(value.shape)}, which "
                    "holds nothing; remove what computes nothing from the model"
                )
            self.tensors[name] = self.builder.constant(value, self._unique_tensor(name), dtype)
        if name not in self.tensors:
            raise ModelError(f"{node.label}: input tensor {name!r} is not defined")
        if self._dtype(name).is_tiny and self.tensors[name] in self.made:
            raise ModelError(
                f"{node.label}: {node.operator} reads {name!r} of type {self._dtype(name)}, which is "
                "rounded to only where it leaves the network; make it an output or leave it out"
            )
        return self.tensors[name]

    def known_output(self, name: str) -> str:
        """A constant of the graph for an output of the network that is known at import."""
        dtype = checked_type("the network gives", name, self.arrays[name])
        return self.builder.constant(self.arrays[name], name, dtype)

    def dtype(self, node: Node, index: int) -> DType:
        """What the numbers of an input mean; of types that the graph has not, float32."""
        return self._dtype(node.inputs[index])

    def foreign_type(self, name: str) -> str | None:
        """The type of a value or run-time input that the graph has none for; None where it has."""
        if name in self.arrays and dtype_of_array(self.arrays[name]) is None:
            return str(self.arrays[name].dtype)
        return self.foreign.get(name)

    def begin(self, node: Node) -> None:
        """The node whose operators are emitted next: its outputs have ONNX's types."""
        given = [self._dtype(x) if x else None for x in node.inputs]
        if node.operator in ONE_TYPE:
            self._check_numbers(node)
        found = result_types(node.operator, node.opset, node.attrs, given)
        found += found[-1:] * (len(node.outputs) - len(found))
        self._results = dict(zip(node.outputs, found, strict=False))

    def give_nothing(self, node: Node, place: int, shape: tuple[int, ...]) -> None:
        """State that one of a node's outputs has no elements, and so is known."""
        self.give_known(node, place, np.empty(shape))

    def give_known(self, node: Node, place: int, value: AnyArray) -> None:
        """State what one of a node's outputs is, whatever the run-time inputs are."""
        name = node.outputs[place]
        if name:
            self.arrays[name] = value.astype(NUMPY[self._results[name]])

    def result_type(self, node: Node, place: int) -> DType:
        """What the numbers of one of the outputs of the node in hand mean, by ONNX's schema."""
        return self._results[node.outputs[place]]

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

    def number(self, node: Node, kind: OpKind, *inputs: str, **attrs: AttrValue) -> str:
        """Emit an internal operator that makes fractions, even on the way to whole numbers."""
        tensor = self.step(node, kind, *inputs, **attrs)
        self.builder.mean(tensor, DType.FLOAT32)
        return tensor

    def result(self, node: Node, kind: OpKind, *inputs: str, **attrs: AttrValue) -> str:
        """Emit the operator that makes this node's first output, under its ONNX name."""
        return self._emit(node, node.outputs[0], kind, inputs, attrs)

    def give(self, node: Node, index: int, tensor: str) -> None:
        """State the tensor of one of a node's outputs; that of the first is what its translation
        returns."""
        if index < len(node.outputs) and node.outputs[index]:
            name = node.outputs[index]
            self.tensors[name] = tensor
            self.types[name] = self._results[name]

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
        dtype = self._results.get(output) or self._step_type(node)
        tensor = self.builder.add(kind, *inputs, name=name, output=output, **attrs)
        self.builder.mean(tensor, dtype)
        self.made.add(tensor)
        check_size(node.label, self.shape(tensor))
        return tensor

    def _step_type(self, node: Node) -> DType:
        """Whole numbers on the way to whole numbers have to be exact too, and those in float64 stay
        known for what they are."""
        result = self._results.get(node.outputs[0], DType.FLOAT32)
        if result is DType.FLOAT64:
            return result
        return DType.FLOAT32 if result.is_float else DType.INT64

    def _check_numbers(self, node: Node) -> None:
        """Refuse fractions beside integers, on which ONNX's checker is silent."""
        known = [self._dtype(x) for x in node.inputs if x and self.foreign_type(x) is None]
        other = next((x for x in known if x.is_float != known[0].is_float), None)
        if other is not None:
            raise ModelError(
                f"{node.label}: {node.operator} of {known[0]} and {other}, where ONNX takes one "
                "type; put a Cast before it"
            )

    def _dtype(self, name: str) -> DType:
        if name in self.arrays:
            return dtype_of_array(self.arrays[name]) or DType.FLOAT32
        return self.types.get(name, DType.FLOAT32)

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


Translate = Callable[[Scope, Node], str]
"""Emits a node's operators and returns the graph tensor that holds its first output; the others are
given to the scope."""
