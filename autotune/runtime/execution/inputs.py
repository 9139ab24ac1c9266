"""The border where a user's arrays enter a run: names, shapes and element types are checked here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from autotune.errors import InputError
from autotune.graph.graph import Graph
from autotune.operators.tensor import NUMPY, Array, DType

FLOAT32 = np.dtype(np.float32)


def checked_inputs(graph: Graph, arrays: Mapping[str, npt.NDArray[np.generic]]) -> dict[str, Array]:
    """The arrays as C-contiguous float32, one per input of the network.

    Raises ``InputError`` naming the tensor, what was given and what is expected.
    """
    wanted, types = graph.inputs, graph.types
    if len(arrays) != len(wanted):
        raise _misnamed(graph, arrays)
    found: dict[str, Array] = {}
    for name in wanted:  # without calls: a small network takes a few microseconds
        if name not in arrays:
            raise _misnamed(graph, arrays)
        value, shape = arrays[name], types[name].shape
        if type(value) is np.ndarray and value.dtype is FLOAT32 and value.shape == shape:
            array = cast(Array, value)  # as nearly always
        else:
            array = _fitting(graph, name, as_array(graph.name, name, value), shape)
        found[name] = array if array.flags.c_contiguous else np.ascontiguousarray(array)
    return found


def as_array(network: str, name: str, value: object) -> npt.NDArray[Any]:
    """The input ``name`` as an array. Raises ``InputError`` for None, for a masked array, whose mask would be
    lost, and for what no array can hold."""
    if value is None:
        raise InputError(f"{network}: input {name!r} is None; give an array")
    if isinstance(value, np.ma.MaskedArray):
        raise InputError(
            f"{network}: input {name!r} is a masked array, and programs know no masks; "
            "fill it with .filled(NUMBER)"
        )
    try:
        return np.asarray(value)
    except (TypeError, ValueError) as error:
        raise InputError(f"{network}: input {name!r} is no array: {error}") from None


def of_type(value: npt.NDArray[Any], dtype: DType) -> npt.NDArray[Any]:
    """The array as one of ``dtype``, where that is a type that NumPy itself has not and the array is
    what becomes of it in a file: raw bytes, or float32 that holds nothing else."""
    kind = NUMPY[dtype]
    if kind.isbuiltin == 1 or value.dtype == kind:
        return value
    if value.dtype.type is np.void and value.dtype.itemsize == kind.itemsize:
        return value.view(kind)
    if value.dtype == FLOAT32:
        with np.errstate(all="ignore"):
            narrow = value.astype(kind)
            held = np.array_equal(narrow.astype(np.float32), value, equal_nan=True)
        return narrow if held else value
    return value


def _misnamed(graph: Graph, arrays: Mapping[str, npt.NDArray[np.generic]]) -> InputError:
    wanted = ", ".join(f"{x!r} {list(graph.shape(x))}" for x in graph.inputs)
    unknown = [name for name in arrays if name not in graph.inputs]
    if unknown:
        return InputError(f"{graph.name}: no input {unknown[0]!r}; the network takes {wanted}")
    missing = [name for name in graph.inputs if name not in arrays]
    return InputError(f"{graph.name}: input {missing[0]!r} is missing; the network takes {wanted}")


def _fitting(
    graph: Graph, name: str, array: npt.NDArray[np.generic], shape: tuple[int, ...]
) -> Array:
    if array.dtype != FLOAT32:
        raise InputError(
            f"{graph.name}: input {name!r} is {array.dtype}, expected float32; convert it with "
            ".astype(numpy.float32)"
        )
    if array.shape != shape:
        raise InputError(
            f"{graph.name}: input {name!r} has shape {list(array.shape)}, expected {list(shape)}"
        )
    return cast(Array, array)
