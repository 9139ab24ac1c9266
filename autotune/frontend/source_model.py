"""An ONNX model as its author states it: first stage of import, and what a session holds of an open network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import onnx

from autotune.frontend.element_types import dtype_of_elem, elem_name
from autotune.frontend.weights import NO_WEIGHTS, Weights
from autotune.operators.tensor import DType


@dataclass(frozen=True, slots=True)
class Declaration:
    """A declared input or output of a model.

    An extent in ``shape`` is a number, the name of an open dimension, or None; ``shape`` is None for
    an unknown rank. ``type`` is ONNX's notation, such as ``tensor(float)``, or empty. ``dtype`` is
    None for element types without a counterpart in the graph, ``numpy_dtype`` for unknown ones.
    """

    name: str
    type: str
    is_tensor: bool
    shape: tuple[int | str | None, ...] | None = None
    dtype: DType | None = None
    numpy_dtype: np.dtype[Any] | None = None

    @property
    def element(self) -> str:
        """ONNX's name of the tensor's element type."""
        return self.type.removeprefix("tensor(").removesuffix(")") or "undefined"

    @property
    def open_axes(self) -> dict[int, str]:
        """Axes without an extent, and the names by which ``dims`` binds them."""
        return {
            axis: extent if isinstance(extent, str) else f"{self.name}:{axis}"
            for axis, extent in enumerate(self.shape or ())
            if not isinstance(extent, int) or extent < 1
        }

    def bound(self, dims: Mapping[str, int]) -> Declaration:
        """Return the declaration with the extents that ``dims`` gives open axes by their names."""
        if self.shape is None:
            return self
        given = {axis: dims[name] for axis, name in self.open_axes.items() if name in dims}
        shape = tuple(given.get(axis, extent) for axis, extent in enumerate(self.shape))
        return replace(self, shape=shape)

    def extents(self, shape: Sequence[int]) -> dict[str, int]:
        """Return the extents by name that an array of this shape [rank] gives open axes."""
        return {name: shape[axis] for axis, name in self.open_axes.items()}


@dataclass(frozen=True, slots=True)
class ModelMetadata:
    """Facts that an ONNX file states about its model."""

    producer_name: str
    graph_name: str
    domain: str
    description: str
    graph_description: str
    version: int
    custom_metadata_map: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class SourceModel:
    """A parsed model: operators are unchecked, dimensions may be open.

    ``proto`` is never written to; ``weights`` holds data that was cut out of it.
    """

    proto: onnx.ModelProto
    weights: Weights = NO_WEIGHTS

    @cached_property
    def inputs(self) -> tuple[Declaration, ...]:
        """The run-time inputs: those without a stored value."""
        stored = {tensor.name for tensor in self.proto.graph.initializer}
        return tuple(declaration_of(v) for v in self.proto.graph.input if v.name not in stored)

    @cached_property
    def outputs(self) -> tuple[Declaration, ...]:
        """The outputs, as far as the model declares them."""
        return tuple(map(declaration_of, self.proto.graph.output))

    @property
    def metadata(self) -> ModelMetadata:
        """The model's descriptive fields."""
        model = self.proto
        return ModelMetadata(
            producer_name=model.producer_name,
            graph_name=model.graph.name,
            domain=model.domain,
            description=model.doc_string,
            graph_description=model.graph.doc_string,
            version=model.model_version,
            custom_metadata_map={row.key: row.value for row in model.metadata_props},
        )


def declaration_of(value: onnx.ValueInfoProto) -> Declaration:
    """Return a declared input or output as a plain value."""
    notation = type_notation(value.type)
    if not value.type.HasField("tensor_type"):
        return Declaration(value.name, notation, False)
    kind = value.type.tensor_type
    shape = tuple(map(_extent, kind.shape.dim)) if kind.HasField("shape") else None
    dtype = dtype_of_elem(kind.elem_type)
    return Declaration(value.name, notation, True, shape, dtype, _numpy_dtype(kind.elem_type))


def type_notation(kind: onnx.TypeProto) -> str:
    """Return a type in ONNX's notation; empty for an undeclared one."""
    match kind.WhichOneof("value"):
        case "tensor_type":
            return f"tensor({elem_name(kind.tensor_type.elem_type)})"
        case "sequence_type":
            return f"seq({type_notation(kind.sequence_type.elem_type)})"
        case "optional_type":
            return f"optional({type_notation(kind.optional_type.elem_type)})"
        case other:
            return other or ""


def _extent(dim: onnx.TensorShapeProto.Dimension) -> int | str | None:
    return dim.dim_value if dim.HasField("dim_value") else dim.dim_param or None


def _numpy_dtype(elem_type: int) -> np.dtype[Any] | None:
    try:
        numpy_dtype: np.dtype[Any] = onnx.helper.tensor_dtype_to_np_dtype(elem_type)
    except KeyError:
        return None
    return numpy_dtype
