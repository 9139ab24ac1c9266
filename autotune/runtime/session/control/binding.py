"""Checks arrays against a model's declared inputs: types, extents of open dimensions, contradictions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from autotune.errors import InputError
from autotune.frontend.source_model import Declaration
from autotune.operators.tensor import NUMPY, DType
from autotune.runtime.execution.values import AnyArray, Value, Values


def check_values(network: str, declared: Mapping[str, Declaration], inputs: Values) -> None:
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
        if value.is_tensor:
            _check_type(network, value, inputs[name])
            _check_shape(network, value, inputs[name].shape, extents)


def unusual_types(inputs: Iterable[Declaration]) -> dict[str, DType]:
    """Return the inputs of element types that NumPy lacks, whose arrays may come as another."""
    types = {value.name: value.dtype for value in inputs}
    return {x: y for x, y in types.items() if y is not None and NUMPY[y].isbuiltin != 1}


def _check_type(network: str, declared: Declaration, value: Value) -> None:
    if not isinstance(value, np.ndarray):
        raise InputError(
            f"{network}: input {declared.name!r} is {type(value).__name__}; feed an array"
        )
    dtype = declared.dtype
    if dtype is not None and value.dtype != NUMPY[dtype]:
        raise InputError(
            f"{network}: input {declared.name!r} is {value.dtype}, expected {declared.element}; convert "
            f"it with .astype({NUMPY[dtype].name!r})"
        )


def _check_shape(
    network: str,
    declared: Declaration,
    shape: tuple[int, ...],
    extents: dict[str, tuple[str, int, int]],
) -> None:
    """Refuse other extents than declared, and two for one symbol; ``extents`` keeps, by symbol, the
    input and axis that gave it its extent."""
    if declared.shape is None:
        return
    name, symbols = declared.name, declared.open_axes
    wanted = [symbols.get(axis, extent) for axis, extent in enumerate(declared.shape)]
    if len(shape) != len(wanted):
        raise InputError(f"{network}: input {name!r} has shape {list(shape)}, expected {wanted}")
    for axis, extent in enumerate(shape):
        if axis not in symbols and extent != wanted[axis]:
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
    """Return the shapes and element types of a value: they decide which programs run it."""
    if isinstance(value, np.ndarray):
        return value.shape, value.dtype.num
    if value is None:
        return None
    return tuple(signature(item) for item in value)


def placeholder(value: Declaration) -> AnyArray:
    """Return an array of an input's type that takes no memory."""
    shape = [extent for extent in value.shape or () if isinstance(extent, int)]
    return np.broadcast_to(np.zeros((), value.numpy_dtype), shape)
