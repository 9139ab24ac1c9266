"""Builds a graph operator by operator, inferring shapes: for import, tests and generated work."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from autotune.errors import ModelError
from autotune.graph.graph import Graph
from autotune.isa.formats import Format
from autotune.operators.families import infer_shape
from autotune.operators.op import OPERATORS, AttrValue, Op, OpKind
from autotune.operators.tensor import Array, DType, TensorType

DEFAULTS: dict[str, AttrValue] = {
    "strides": (1, 1),
    "pads": (0, 0, 0, 0),
    "dilations": (1, 1),
    "group": 1,
    "trans_a": 0,
    "trans_b": 0,
    "count_include_pad": 0,
    "alpha": 0.01,
    "epsilon": 1e-5,
}
"""Attribute values taken when the caller gives none, those of the ONNX operator set."""


class GraphBuilder:
    """Collects operators in order; tensors are named by the caller or ``<kind>_<n>``."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._types: dict[str, TensorType] = {}
        self._constants: dict[str, Array] = {}
        self._inputs: list[str] = []
        self._ops: list[Op] = []
        self._op_names: set[str] = set()

    def input(self, name: str, shape: tuple[int, ...], dtype: DType = DType.FLOAT32) -> str:
        """Declare a network input and return its tensor name."""
        self._declare(name, tuple(shape), dtype)
        self._inputs.append(name)
        return name

    def constant(
        self,
        value: npt.ArrayLike,
        name: str | None = None,
        dtype: DType = DType.FLOAT32,
        storage: Format = Format.FP32,
    ) -> str:
        """Add a constant, as float32 without a copy where possible, and return its name."""
        array = np.asarray(value, dtype=np.float32)
        name = name or self._fresh("const")
        self._declare(name, array.shape, dtype, storage)
        self._constants[name] = array
        return name

    def add(
        self,
        kind: OpKind,
        *inputs: str,
        name: str | None = None,
        output: str | None = None,
        **attrs: AttrValue,
    ) -> str:
        """Append an operator and return its output tensor.

        Attributes left out take the value in ``DEFAULTS``; ``axis`` and ``axes`` may be negative.
        Raises ``ModelError`` for undefined inputs and shapes that do not fit.
        """
        for x in inputs:
            if x not in self._types:
                raise ModelError(f"{name or kind}: input tensor {x!r} is not defined")
        output = output or self._fresh(kind.value)
        name = name or output
        if name in self._op_names:
            raise ModelError(f"{self.name}: two operators are named {name!r}")
        shapes = [self._types[x].shape for x in inputs]
        values = {k: DEFAULTS[k] for k in OPERATORS[kind].attrs if k in DEFAULTS} | attrs
        rank = len(shapes[0]) if shapes else 0
        op = Op.make(
            name, kind, inputs, output, {k: positive(k, v, rank) for k, v in values.items()}
        )
        self._declare(output, infer_shape(op, shapes))
        self._ops.append(op)
        self._op_names.add(name)
        return output

    def mean(self, tensor: str, dtype: DType) -> None:
        """Declare the element type that a tensor stands for; it is float32 by default."""
        self._types[tensor] = TensorType(self._types[tensor].shape, dtype)

    def shape(self, tensor: str) -> tuple[int, ...]:
        """Return the shape of a tensor made so far."""
        return self._types[tensor].shape

    def has(self, tensor: str) -> bool:
        """Return True if a tensor of this name exists."""
        return tensor in self._types

    def build(self, outputs: list[str] | tuple[str, ...]) -> Graph:
        """Return the finished graph; the builder may continue with a larger one."""
        return Graph(
            self.name, self._ops, self._types, tuple(self._inputs), tuple(outputs), self._constants
        )

    def _declare(
        self,
        name: str,
        shape: tuple[int, ...],
        dtype: DType = DType.FLOAT32,
        storage: Format = Format.FP32,
    ) -> None:
        if name in self._types:
            raise ModelError(f"{self.name}: tensor {name!r} is defined twice")
        self._types[name] = TensorType(shape, dtype, storage)

    def _fresh(self, stem: str) -> str:
        index = len(self._types)
        while f"{stem}_{index}" in self._types or f"{stem}_{index}" in self._op_names:
            index += 1
        return f"{stem}_{index}"


def positive(name: str, value: AttrValue, rank: int) -> AttrValue:
    """Return an attribute's value for an operand of ``rank``: axes counted from the front."""
    if name == "axis" and isinstance(value, int):
        return value + rank if value < 0 else value
    if name == "axes" and isinstance(value, tuple):
        return tuple(sorted(v + rank if v < 0 else v for v in value))
    return value
