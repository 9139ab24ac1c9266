"""What arrays say about a model's declared inputs: extents of open dimensions, types, contradictions."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from autotune.errors import InputError, ModelError
from autotune.frontend.control.flow import declare_outputs
from autotune.frontend.model_file import bind_some, open_axes, read_model
from autotune.frontend.translate.element_types import dtype_of_elem, elem_name
from autotune.frontend.translate.scope import AnyArray
from autotune.frontend.weights import restore
from autotune.operators.tensor import NUMPY, DType
from autotune.runtime.execution.values import Value, Values


def check_values(network: str, declared: Mapping[str, onnx.ValueInfoProto], inputs: Values) -> None:
    """Refuse what does not fit the declared inputs, or gives one dimension two extents. Raises
    ``InputError`` naming the input."""
    for name in inputs:
        if name not in declared:
            raise InputError(f"{network}: no input {name!r}; the network takes {list(declared)}")
    extents: dict[str, tuple[str, int, int]] = {}
    for name, value in declared.items():
        if name not in inputs:
            raise InputError(
                f"{network}: input {name!r} is missing; the network takes {list(declared)}"
            )
        if value.type.HasField("tensor_type"):
            _check_type(network, value, inputs[name])
            _check_shape(network, value, inputs[name].shape, extents)


def bound_model(path: Path, dims: Mapping[str, int]) -> onnx.ModelProto:
    """An ONNX file as a model whose dimensions are bound as far as ``dims`` goes.

    Raises ``ModelError`` naming the file.
    """
    model, apart = read_model(path)
    if apart is not None:
        restore(model, apart)
    try:
        bind_some(model, dims)
    except ModelError as error:
        raise ModelError(f"{path}: {error}") from None
    return model


def unusual_types(model: onnx.ModelProto) -> dict[str, DType]:
    """The inputs of element types that NumPy has not, which may come as another."""
    found = {v.name: dtype_of_elem(v.type.tensor_type.elem_type) for v in model.graph.input}
    return {x: y for x, y in found.items() if y is not None and NUMPY[y].isbuiltin != 1}


def _check_type(network: str, declared: onnx.ValueInfoProto, value: Value) -> None:
    if not isinstance(value, np.ndarray):
        raise InputError(
            f"{network}: input {declared.name!r} is {type(value).__name__}; feed an array"
        )
    elem = declared.type.tensor_type.elem_type
    dtype = dtype_of_elem(elem)
    if dtype is not None and value.dtype != NUMPY[dtype]:
        raise InputError(
            f"{network}: input {declared.name!r} is {value.dtype}, expected {elem_name(elem)}; convert "
            f"it with .astype({NUMPY[dtype].name!r})"
        )


def _check_shape(
    network: str,
    declared: onnx.ValueInfoProto,
    shape: tuple[int, ...],
    extents: dict[str, tuple[str, int, int]],
) -> None:
    """Refuse other extents than declared, and two for one symbol; ``extents`` keeps, by symbol, the
    input and axis that gave it its extent."""
    if not declared.type.tensor_type.HasField("shape"):
        return
    name, dims = declared.name, declared.type.tensor_type.shape.dim
    symbols = open_axes(declared)
    wanted = [symbols.get(axis, dim.dim_value) for axis, dim in enumerate(dims)]
    if len(shape) != len(dims):
        raise InputError(f"{network}: input {name!r} has shape {list(shape)}, expected {wanted}")
    for axis, extent in enumerate(shape):
        if axis not in symbols and extent != dims[axis].dim_value:
            raise InputError(
                f"{network}: input {name!r} has shape {list(shape)}, expected {wanted}"
            )
        if axis in symbols:
            first = extents.setdefault(symbols[axis], (name, axis, extent))
            if first[2] != extent:
                raise InputError(
                    f"{network}: dimension {symbols[axis]!r} is {extent} in input {name!r} (axis "
                    f"{axis}) and {first[2]} in input {first[0]!r} (axis {first[1]}); feed equal "
                    "extents"
                )


def signature(value: Value) -> Any:
    """What of a value decides which programs run it: shapes and element types."""
    if isinstance(value, np.ndarray):
        return value.shape, value.dtype.num
    if value is None:
        return None
    return tuple(signature(item) for item in value)


def passes_on(graph: onnx.GraphProto) -> bool:
    """Whether an output is an input or a constant, which no operator makes."""
    given = {x.name for x in (*graph.input, *graph.initializer)}
    return any(value.name in given for value in graph.output)


def placeholder(value: onnx.ValueInfoProto) -> AnyArray:
    """An array of an input's type that takes no memory."""
    kind = value.type.tensor_type
    dtype = onnx.helper.tensor_dtype_to_np_dtype(kind.elem_type)
    return np.broadcast_to(np.zeros((), dtype), [dim.dim_value for dim in kind.shape.dim])


def is_empty(value: Value) -> bool:
    """Whether a value is a tensor without elements."""
    return isinstance(value, np.ndarray) and value.size == 0


def give_types(model: onnx.ModelProto, inputs: Values) -> None:
    """Declare the inputs as the arrays are, and outputs that have no type, in place."""
    for value in model.graph.input:
        given = inputs.get(value.name)
        if isinstance(given, np.ndarray):
            kind = onnx.helper.np_dtype_to_tensor_dtype(given.dtype)
            value.CopyFrom(onnx.helper.make_tensor_value_info(value.name, kind, given.shape))
        elif not value.HasField("type"):
            value.type.CopyFrom(_type_of(given))
    declare_outputs(model)


def _type_of(value: Value) -> onnx.TypeProto:
    """ONNX's type of a value."""
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
