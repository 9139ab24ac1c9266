"""Numpy arrays of a program's tensors, and the numpy type of each format."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import ml_dtypes
import numpy as np

from autotune.errors import InputError
from autotune.isa.formats import Format
from autotune.isa.program import DramTensor, Program, Role
from autotune.targets.protocol import Array

ARRAY_TYPES: dict[Format, np.dtype[Any]] = {
    Format.FP32: np.dtype(np.float32),
    Format.BF16: np.dtype(ml_dtypes.bfloat16),
    Format.INT8: np.dtype(np.int8),
    Format.UINT8: np.dtype(np.uint8),
    Format.INT32: np.dtype(np.int32),
    Format.FP16: np.dtype(np.float16),
}


def array_for(
    program: Program, tensor: DramTensor, given: Mapping[str, Array], stored: bool = False
) -> Array:
    """Return the array of a tensor in a run.

    It is a fresh array for an OUTPUT (NaN, or 0 for integers), else the given one, C-contiguous.
    With ``stored`` the run writes all of an OUTPUT and reads none, so it may begin as anything.
    BF16 may be given as its bits in uint16. Raises ``InputError`` for an array that is missing or
    does not fit.
    """
    dtype = ARRAY_TYPES[tensor.format]
    if tensor.role is Role.OUTPUT:
        if stored:
            return np.empty(tensor.shape, dtype)
        unwritten = np.nan if tensor.format.is_float else 0
        return np.full(tensor.shape, unwritten, dtype)
    if tensor.name not in given:
        raise InputError(f"{program.name}: no array for {tensor.role} tensor {tensor.name!r}")
    array = given[tensor.name]
    if tensor.format is Format.BF16 and array.dtype == np.uint16:
        array = array.view(dtype)
    if array.dtype != dtype or array.size != math.prod(tensor.shape):
        raise InputError(
            f"{program.name}: {tensor.name!r} is {array.dtype} {list(array.shape)}; "
            f"it must be {dtype} {list(tensor.shape)}"
        )
    return np.ascontiguousarray(array)
