"""Signature of a network as its users see it: inputs and outputs with names, shapes and element types."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from autotune.errors import InputError
from autotune.graph.graph import Graph
from autotune.operators.tensor import NUMPY

if TYPE_CHECKING:  # sessions that run by programs alone take no time to import ONNX
    from autotune.frontend.source_model import Declaration


_ONNX_NAMES = {"float32": "float", "float64": "double"}
"""ONNX's name of an element type by numpy's, where more than an underscore differs."""


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """One input or output of a network.

    An extent in ``shape`` is a number, the name of an open dimension, or None if it is not known.
    ``shape`` is None for an unknown rank, ``dtype`` for a sequence or an optional.
    """

    name: str
    shape: tuple[int | str | None, ...] | None
    dtype: np.dtype[Any] | None
    composite: str | None = None
    """ONNX type of a sequence or an optional, such as ``seq(tensor(float))``; None for a tensor."""

    @property
    def onnx_type(self) -> str:
        """ONNX type as a text, such as ``tensor(float)``."""
        return self.composite or _tensor_type(self.dtype)

    @property
    def cells(self) -> tuple[str, str, str]:
        """Name, shape and element type as texts."""
        extents = "?" if self.shape is None else ", ".join(map(_extent, self.shape))
        return self.name, f"[{extents}]", "no tensor" if self.dtype is None else str(self.dtype)

    def __str__(self) -> str:
        _, shape, dtype = self.cells
        return f"{self.name!r} {shape} {dtype}"


def _tensor_type(dtype: np.dtype[Any] | None) -> str:
    name = "unknown" if dtype is None else dtype.name
    return f"tensor({_ONNX_NAMES.get(name, name.replace('_', ''))})"


def _extent(extent: int | str | None) -> str:
    return "?" if extent is None else str(extent)


def tensors_of_graph(graph: Graph, names: Iterable[str]) -> tuple[TensorInfo, ...]:
    """Return the named tensors of a graph."""
    types = graph.types
    return tuple(TensorInfo(x, types[x].shape, NUMPY[types[x].dtype]) for x in names)


def tensors_of_model(declared: Iterable[Declaration]) -> tuple[TensorInfo, ...]:
    """Return declared inputs or outputs of an ONNX model."""
    return tuple(map(_declared, declared))


def _declared(value: Declaration) -> TensorInfo:
    shape = None if value.shape is None else tuple(extent or None for extent in value.shape)
    dtype = None if value.dtype is None else NUMPY[value.dtype]
    return TensorInfo(value.name, shape, dtype, None if value.is_tensor else value.type)


def arrays_by_name(
    network: str,
    wanted: Sequence[TensorInfo],
    positional: Sequence[Any],
    named: Mapping[str, Any],
) -> Mapping[str, Any]:
    """Return the arrays of a run by input name.

    ``positional`` is one mapping by name, or arrays in the order of the inputs; ``named`` adds
    arrays by name. Raises ``InputError`` for too many arrays, and for two for one input.
    """
    if len(positional) == 1 and isinstance(positional[0], Mapping):
        given: Mapping[str, Any] = positional[0]
    elif _is_list_of_arrays(positional, wanted):
        raise InputError(
            f"{network}: got a {type(positional[0]).__name__} of arrays; give a mapping by input name, or "
            "the arrays one by one: run(*arrays)"
        )
    elif len(positional) > len(wanted):
        raise InputError(
            f"{network}: takes {len(wanted)} inputs ({', '.join(map(str, wanted))}), "
            f"got {len(positional)} arrays"
        )
    else:
        given = {info.name: array for info, array in zip(wanted, positional, strict=False)}
    for name in named:
        if name in given:
            raise InputError(f"{network}: input {name!r} is given twice; give it once")
    return {**given, **named}


def _is_list_of_arrays(positional: Sequence[Any], wanted: Sequence[TensorInfo]) -> bool:
    """Return True for one list or tuple of arrays where no input is a sequence."""
    return (
        len(positional) == 1
        and isinstance(positional[0], list | tuple)
        and any(isinstance(item, np.ndarray) for item in positional[0])
        and all(info.dtype is not None for info in wanted)
    )
