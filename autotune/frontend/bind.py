"""Gives a model's inputs their extents and types: by names of dimensions, or as arrays have them."""

from __future__ import annotations

from collections.abc import Container, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx

from autotune.errors import ModelError
from autotune.frontend.modernise import ModernModel
from autotune.frontend.node import AnyArray
from autotune.frontend.source_model import SourceModel, declaration_of
from autotune.frontend.subgraphs import put_in_order
from autotune.frontend.weights import Weights
from autotune.graph.passes.note import Note


@dataclass(frozen=True, slots=True)
class BoundModel:
    """A modern model whose run-time inputs have extents.

    ``constants`` are values of inputs that are constants from here on; ``notes`` tell which control
    flow was folded.
    """

    proto: onnx.ModelProto
    weights: Weights
    inlined: tuple[str, ...]
    constants: Mapping[str, AnyArray]
    notes: tuple[Note, ...] = ()


def bind(
    model: ModernModel, dims: Mapping[str, int], constants: Mapping[str, AnyArray]
) -> BoundModel:
    """Give every open dimension of the run-time inputs its extent; ``constants`` need none.

    Raises ``ModelError`` for a dimension that is left open or that does not exist, an extent below 1,
    and an input without a shape.
    """
    proto = _bind_dims(model.proto, dims, constants)
    for value in _run_time_inputs(proto, constants):
        if value.type.WhichOneof("value") not in ("tensor_type", None):
            continue
        if not value.type.tensor_type.HasField("shape"):
            raise ModelError(f"input {value.name!r} has no shape; export the model with one")
        for axis, symbol in declaration_of(value).open_axes.items():
            raise ModelError(
                f"input {value.name!r} has the dynamic dimension {symbol!r} (axis {axis}); "
                f"bind it with --dim {symbol}=1"
            )
    return BoundModel(proto, model.weights, model.inlined, constants)


def bind_some(model: SourceModel, dims: Mapping[str, int]) -> SourceModel:
    """Give those dimensions that ``dims`` names their extents.

    Raises ``ModelError`` for a dimension that does not exist, and for an extent below 1.
    """
    return SourceModel(_bind_dims(model.proto, dims, ()), model.weights)


def declare_inputs(model: SourceModel, values: Mapping[str, Any]) -> SourceModel:
    """Return the model for inputs such as ``values``: of their types and shapes, outputs typed,
    producers before consumers. Raises ``ModelError`` for cycles."""
    proto = _copy(model.proto)
    for value in proto.graph.input:
        array = values.get(value.name)
        if isinstance(array, np.ndarray):
            kind = onnx.helper.np_dtype_to_tensor_dtype(array.dtype)
            value.CopyFrom(onnx.helper.make_tensor_value_info(value.name, kind, array.shape))
        elif not value.HasField("type"):
            value.type.CopyFrom(_type_of(array))
    declare_outputs(proto)
    put_in_order(proto)
    return SourceModel(proto, model.weights)


def declare_outputs(model: onnx.ModelProto) -> None:
    """Give undeclared outputs a type, in place, for ONNX's checker; import infers its own."""
    if all(value.HasField("type") for value in model.graph.output):
        return
    with suppress(onnx.shape_inference.InferenceError, RuntimeError):
        model.CopyFrom(onnx.shape_inference.infer_shapes(model))
    for value in model.graph.output:
        if not value.HasField("type"):
            value.type.CopyFrom(onnx.helper.make_tensor_type_proto(onnx.TensorProto.FLOAT, ()))
        if value.type.HasField("tensor_type"):
            value.type.tensor_type.shape.SetInParent()


def _bind_dims(
    model: onnx.ModelProto, dims: Mapping[str, int], constants: Container[str]
) -> onnx.ModelProto:
    """Return the model with the extents that ``dims`` gives: itself if there are none."""
    for symbol, extent in dims.items():
        if extent < 1:
            raise ModelError(f"dimension {symbol!r} must be ≥ 1, got {extent}")
    if not dims:
        return model
    proto = _copy(model)
    symbols: set[str] = set()
    for value in _run_time_inputs(proto, constants):
        for axis, symbol in declaration_of(value).open_axes.items():
            symbols.add(symbol)
            if symbol in dims:
                value.type.tensor_type.shape.dim[axis].dim_value = dims[symbol]
    for symbol in dims:
        if symbol not in symbols:
            raise ModelError(f"no dynamic dimension {symbol!r}; the model has {sorted(symbols)}")
    return proto


def _copy(model: onnx.ModelProto) -> onnx.ModelProto:
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    return copy


def _run_time_inputs(
    model: onnx.ModelProto, constants: Container[str]
) -> list[onnx.ValueInfoProto]:
    stored = {tensor.name for tensor in model.graph.initializer}
    return [v for v in model.graph.input if v.name not in stored and v.name not in constants]


def _type_of(value: Any) -> onnx.TypeProto:
    """Return ONNX's type of an array, a sequence or an empty optional."""
    if isinstance(value, np.ndarray):
        kind = onnx.helper.np_dtype_to_tensor_dtype(value.dtype)
        return onnx.helper.make_tensor_type_proto(kind, value.shape)
    if value is None:
        return onnx.helper.make_optional_type_proto(
            onnx.helper.make_tensor_type_proto(onnx.TensorProto.FLOAT, None)
        )
    item = value[0] if value else np.zeros((), np.float32)
    kind = onnx.helper.np_dtype_to_tensor_dtype(item.dtype)
    return onnx.helper.make_sequence_type_proto(onnx.helper.make_tensor_type_proto(kind, None))
