"""The border where a user's arrays enter a run: names, shapes and element types are checked here."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from autotune.errors import InputError
from autotune.graph.graph import Array, Graph


def checked_inputs(graph: Graph, arrays: Mapping[str, npt.NDArray[np.generic]]) -> dict[str, Array]:
    """The arrays as C-contiguous float32, one per input of the network.

    Raises ``InputError`` naming the tensor, what was given and what is expected.
    """
    wanted = ", ".join(f"{x!r} {list(graph.shape(x))}" for x in graph.inputs)
    unknown = [name for name in arrays if name not in graph.inputs]
    if unknown:
        raise InputError(f"{graph.name}: no input {unknown[0]!r}; the network takes {wanted}")
    missing = [name for name in graph.inputs if name not in arrays]
    if missing:
        raise InputError(
            f"{graph.name}: input {missing[0]!r} is missing; the network takes {wanted}"
        )
    return {name: _checked(graph, name, arrays[name]) for name in graph.inputs}


def _checked(graph: Graph, name: str, value: npt.NDArray[np.generic]) -> Array:
    array, shape = np.asarray(value), graph.shape(name)
    place = f"{graph.name}: input {name!r}"
    if array.dtype != np.float32:
        raise InputError(
            f"{place} is {array.dtype}, expected float32; convert it with .astype(numpy.float32)"
        )
    if array.shape != shape:
        raise InputError(f"{place} has shape {list(array.shape)}, expected {list(shape)}")
    return np.ascontiguousarray(array).reshape(shape)
