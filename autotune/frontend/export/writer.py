"""Collects the nodes and initializers of an exported model, in order."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper

from autotune.operators.tensor import TensorType

IR_VERSION = 8
OPSET = 17
"""The oldest operator set with LayerNormalization: many systems read it."""
DILATED_OPSET = 19
"""The oldest operator set whose AveragePool has dilations."""


class NodeWriter:
    """Appends nodes; tensors between the nodes of one operator get names of their own.

    ``types`` are those of the graph's tensors, ``integers`` the tensors that the model holds as int64.
    """

    def __init__(self, types: Mapping[str, TensorType], integers: frozenset[str]) -> None:
        self.types = types
        self.integers = integers
        self.opset = OPSET
        self._nodes: list[onnx.NodeProto] = []
        self._initializers: list[onnx.TensorProto] = []
        self._scope = ""

    def begin(self, scope: str) -> None:
        """Begin an operator, by whose output the names of inner tensors start."""
        self._scope = scope

    def shape(self, tensor: str) -> tuple[int, ...]:
        """Return the shape of a tensor of the graph."""
        return self.types[tensor].shape

    def node(self, kind: str, *inputs: str, output: str | None = None, **attributes: object) -> str:
        """Append a node and return its output tensor."""
        name = f"{self._scope}/{len(self._nodes)}"
        made = output or name
        self._nodes.append(helper.make_node(kind, list(inputs), [made], name=name, **attributes))
        return made

    def value(self, name: str, values: npt.NDArray[Any]) -> str:
        """Add an initializer of this name."""
        self._initializers.append(numpy_helper.from_array(values, name))
        return name

    def number(self, value: float) -> str:
        """Add a float32 scalar."""
        return self._inner(np.asarray(value, np.float32))

    def wholes(self, *values: int) -> str:
        """Add a list of int64 numbers."""
        return self._inner(np.asarray(values, np.int64))

    def _inner(self, values: npt.NDArray[Any]) -> str:
        return self.value(f"{self._scope}/c{len(self._initializers)}", values)

    def model(self, name: str, inputs: tuple[str, ...], outputs: tuple[str, ...]) -> bytes:
        """Return the serialized model."""
        graph = helper.make_graph(
            self._nodes,
            name,
            [self._declared(x) for x in inputs],
            [self._declared(x) for x in outputs],
            self._initializers,
        )
        model = helper.make_model(
            graph,
            opset_imports=[helper.make_opsetid("", self.opset)],
            producer_name="autotune",
            ir_version=IR_VERSION if self.opset == OPSET else onnx.IR_VERSION,
        )
        content: bytes = model.SerializeToString()
        return content

    def _declared(self, tensor: str) -> onnx.ValueInfoProto:
        kind = TensorProto.INT64 if tensor in self.integers else TensorProto.FLOAT
        return helper.make_tensor_value_info(tensor, kind, list(self.shape(tensor)))
