"""State of a translation: known values, graph tensors, and how to emit operators."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from autotune.errors import ModelError
from autotune.frontend.element_types import ONE_TYPE, dtype_of_array, result_types
from autotune.frontend.limits import check_size, check_type, not_computed
from autotune.frontend.node import AnyArray, Node, RunTimeValue
from autotune.graph.builder import GraphBuilder
from autotune.operators.op import AttrValue, OpKind
from autotune.operators.tensor import NUMPY, DType, is_bf16, is_fp16

MAX_FOLDED_BYTES = 4 << 30
"""Limit on all values computed at import together."""


@dataclass(slots=True)
class Scope:
    """ONNX tensors of a model in translation, as values or as tensors of the graph.

    ``arrays`` are values known at import, of any element type; ``tensors`` maps the other ONNX
    names to graph tensors, ``types`` to their element types. ``foreign`` names run-time inputs
    whose type the graph lacks: an error only where an operator reads one. ``made`` are graph
    tensors that operators compute.
    """

    builder: GraphBuilder
    arrays: dict[str, AnyArray]
    reserved: frozenset[str]
    tensors: dict[str, str] = field(default_factory=dict)
    types: dict[str, DType] = field(default_factory=dict)
    foreign: dict[str, str] = field(default_factory=dict)
    made: set[str] = field(default_factory=set)
    halves: frozenset[DType] = frozenset()
    """Those of bfloat16 and float16 that the file stores numbers of: constants that are such keep that type."""
    folded_bytes: int = 0
    _results: dict[str, DType] = field(default_factory=dict)
    _names: set[str] = field(default_factory=set)

    def is_array(self, name: str) -> bool:
        """Return True if the ONNX tensor's value is known at import."""
        return name in self.arrays

    def count(self, node: Node) -> None:
        """Add up the bytes of a node's known outputs; refuse more than ``MAX_FOLDED_BYTES``."""
        values = [self.arrays[x] for x in node.outputs if x in self.arrays]
        self.folded_bytes += sum(value.nbytes for value in values if value.base is None)
        if self.folded_bytes > MAX_FOLDED_BYTES:
            raise ModelError(
                f"{node.label}: the values computed at import take {self.folded_bytes / 2**30:.1f} GiB "
                f"together, more than the limit of {MAX_FOLDED_BYTES >> 30} GiB; use smaller constants"
            )

    def array(self, node: Node, index: int) -> AnyArray:
        """Return the value of an input that must be known at import."""
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
        """Return the single number of an input that must be known at import; integers are exact."""
        value = self.array(node, index)
        check_type(node.reads, node.inputs[index], value)
        if value.size != 1:
            raise ModelError(
                f"{node.label}: {node.operator} input {index} must be one number, got shape "
                f"{list(value.shape)}"
            )
        return float(np.asarray(value, np.float64).reshape(()))

    def tensor(self, node: Node, index: int) -> str:
        """Return the graph tensor of an input; a value becomes a constant of the graph on first
        use."""
        name = node.inputs[index]
        if name in self.foreign:
            raise not_computed(node.reads, name, self.foreign[name])
        if name in self.arrays and name not in self.tensors:
            value = self.arrays[name]
            dtype = check_type(node.reads, name, value)
            if dtype is DType.FLOAT32:
                dtype = self._half_of(value)
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

    def _half_of(self, value: AnyArray) -> DType:
        """Return the type of two bytes that the file stores and that holds a constant, else float32."""
        if DType.BFLOAT16 in self.halves and is_bf16(value):
            return DType.BFLOAT16
        return DType.FLOAT16 if DType.FLOAT16 in self.halves and is_fp16(value) else DType.FLOAT32

    def add_output_constant(self, name: str) -> str:
        """Return a constant of the graph for a network output that is known at import."""
        dtype = check_type("the network gives", name, self.arrays[name])
        return self.builder.constant(self.arrays[name], name, dtype)

    def dtype(self, node: Node, index: int) -> DType:
        """Return the element type of an input; float32 for types that the graph lacks."""
        return self._dtype(node.inputs[index])

    def foreign_type(self, name: str) -> str | None:
        """Return the type of a value or input if the graph lacks it, else None."""
        if name in self.arrays and dtype_of_array(self.arrays[name]) is None:
            return str(self.arrays[name].dtype)
        return self.foreign.get(name)

    def begin(self, node: Node) -> None:
        """Start the translation of a node: its outputs have ONNX's types."""
        inputs = [self._dtype(x) if x else None for x in node.inputs]
        if node.operator in ONE_TYPE:
            self._check_numbers(node)
        types = result_types(node.operator, node.opset, node.attrs, inputs)
        types += types[-1:] * (len(node.outputs) - len(types))
        self._results = dict(zip(node.outputs, types, strict=False))

    def give_nothing(self, node: Node, place: int, shape: tuple[int, ...]) -> None:
        """Register an output without elements."""
        self.give_known(node, place, np.empty(shape))

    def give_known(self, node: Node, place: int, value: AnyArray) -> None:
        """Register an output with a known value."""
        name = node.outputs[place]
        if name:
            self.arrays[name] = value.astype(NUMPY[self._results[name]])

    def result_type(self, node: Node, place: int) -> DType:
        """Return the element type of an output of the current node, by ONNX's schema."""
        return self._results[node.outputs[place]]

    def shape(self, tensor: str) -> tuple[int, ...]:
        """Return the shape of a graph tensor."""
        return self.builder.shape(tensor)

    def constant(self, node: Node, value: npt.ArrayLike, role: str) -> str:
        """Return a new graph constant derived from a node's parameters."""
        return self.builder.constant(value, self._unique_tensor(f"{node.outputs[0]}.{role}"))

    def step(self, node: Node, kind: OpKind, *inputs: str, **attrs: AttrValue) -> str:
        """Emit an operator whose output is internal to this node's translation."""
        return self._emit(
            node, self._unique_tensor(f"{node.outputs[0]}.{kind}"), kind, inputs, attrs
        )

    def number(self, node: Node, kind: OpKind, *inputs: str, **attrs: AttrValue) -> str:
        """Emit an internal operator that makes fractions, even on the way to integers."""
        tensor = self.step(node, kind, *inputs, **attrs)
        self.builder.mean(tensor, DType.FLOAT32)
        return tensor

    def result(self, node: Node, kind: OpKind, *inputs: str, **attrs: AttrValue) -> str:
        """Emit the operator that makes this node's first output, under its ONNX name."""
        return self._emit(node, node.outputs[0], kind, inputs, attrs)

    def give(self, node: Node, index: int, tensor: str) -> None:
        """Register output ``index`` ≥ 1 of a node; output 0 is the translation's return value."""
        if index < len(node.outputs) and node.outputs[index]:
            name = node.outputs[index]
            self.tensors[name] = tensor
            self.types[name] = self._results[name]

    def reshape_result(self, node: Node, tensor: str, shape: tuple[int, ...]) -> str:
        """Emit this node's output as a reshape of a tensor; return the tensor itself if nothing
        changes."""
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
        """Return the type of internal tensors: exact integers towards an integer output, float64
        towards float64, else float32."""
        result = self._results.get(node.outputs[0], DType.FLOAT32)
        if result is DType.FLOAT64:
            return result
        return DType.FLOAT32 if result.is_float else DType.INT64

    def _check_numbers(self, node: Node) -> None:
        """Refuse fractions mixed with integers, which ONNX's checker accepts."""
        types = [self._dtype(x) for x in node.inputs if x and self.foreign_type(x) is None]
        other = next((x for x in types if x.is_float != types[0].is_float), None)
        if other is not None:
            raise ModelError(
                f"{node.label}: {node.operator} of {types[0]} and {other}, where ONNX takes one "
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
"""Emits a node's operators; returns the graph tensor of output 0 and registers the others."""
