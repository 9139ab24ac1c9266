"""Limits of import on tensors: bytes, axes, element types, numbers that float32 holds."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from autotune.errors import ModelError
from autotune.frontend.element_types import dtype_of_array
from autotune.operators.tensor import EXACT_LIMIT, FLOAT_MAX, DType, below_float32, beyond_float32

COMPUTED = "floats, integers and booleans are computed: convert the model"
"""Remedy for element types without a counterpart in the graph."""

MAX_TENSOR_BYTES = 2 << 30
"""Largest tensor that import allocates."""

MAX_RANK = 64
"""Most axes of a tensor: numpy's limit."""


class WideConstant(ModelError):
    """A program would read an integer beyond float32; numpy has to compute with it."""


def is_exact(value: npt.NDArray[Any]) -> bool:
    """Return True if float32 holds every number of an array of integers."""
    if value.dtype.itemsize <= 2 or not value.size:
        return True
    extreme = max(int(value.max()), -int(value.min()))
    if extreme <= EXACT_LIMIT:
        return True
    return all(int(np.float32(x)) == int(x) for x in np.unique(value).tolist())


def check_size(label: str, shape: tuple[int, ...], item_bytes: int = 4) -> None:
    """Refuse a tensor of more than ``MAX_TENSOR_BYTES`` or ``MAX_RANK`` axes. Raises
    ``ModelError``."""
    if len(shape) > MAX_RANK:
        raise ModelError(
            f"{label}: a tensor of {len(shape)} axes, more than the limit of {MAX_RANK}; use fewer"
        )
    size_bytes = math.prod(shape) * item_bytes
    if size_bytes > MAX_TENSOR_BYTES:
        raise ModelError(
            f"{label}: a tensor of shape {list(shape)} takes {size_bytes / 2**30:.1f} GiB, more than "
            f"the limit of {MAX_TENSOR_BYTES >> 30} GiB; use smaller dimensions"
        )


def check_type(reader: str, name: str, value: npt.NDArray[Any]) -> DType:
    """Return the element type of a value that ``reader`` computes with. Raises ``ModelError`` for
    types that the graph lacks and numbers beyond float32."""
    dtype = dtype_of_array(value)
    if dtype is None:
        raise not_computed(reader, name, str(value.dtype))
    if dtype is DType.FLOAT64:
        _check_float64(f"{reader} {name!r}", value)
    if dtype.is_integer and not is_exact(value):
        extreme = max(int(value.max()), -int(value.min()))
        raise WideConstant(
            f"{reader} {name!r}, which holds {extreme}; integers are computed exactly up to "
            f"{EXACT_LIMIT}: use smaller ones"
        )
    return dtype


def not_computed(reader: str, name: str, dtype: str) -> ModelError:
    """Return the error for a tensor whose type the graph lacks."""
    return ModelError(f"{reader} {name!r} of type {dtype}; {COMPUTED}")


def _check_float64(reads: str, value: npt.NDArray[Any]) -> None:
    """Refuse numbers that become infinite or 0 as float32."""
    if beyond_float32(value):
        raise ModelError(
            f"{reads}, which holds {np.abs(value).max():g}; float64 is computed as float32, which "
            f"ends at {FLOAT_MAX:g}: use smaller numbers"
        )
    if below_float32(value):
        raise ModelError(
            f"{reads}, which holds {np.abs(value[value != 0]).min():g}; float64 is computed as "
            "float32, which takes that for 0: use larger numbers, or 0"
        )
