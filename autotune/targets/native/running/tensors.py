"""Arrays that native programs run on: aligned ones to compute in, seeded ones to time with."""

from __future__ import annotations

import functools
import math

import numpy as np
import numpy.typing as npt

from autotune.isa.program import DramTensor
from autotune.targets.arrays import ARRAY_TYPES
from autotune.targets.native.compiling.memory import ALIGNMENT_BYTES
from autotune.targets.protocol import Array

_NORMALS = (1 << 20) + 7
"""Numbers that are drawn: large arrays repeat them, as drawing takes ten times as long as a copy."""


def tensor_bytes(tensor: DramTensor) -> int:
    """Bytes that a tensor takes."""
    return math.prod(tensor.shape) * ARRAY_TYPES[tensor.format].itemsize


def aligned(tensor: DramTensor) -> Array:
    """Room for a tensor on a cache line, with whatever was there."""
    dtype, size_bytes = ARRAY_TYPES[tensor.format], tensor_bytes(tensor)
    raw = np.empty(size_bytes + ALIGNMENT_BYTES, np.uint8)
    skip = -raw.ctypes.data % ALIGNMENT_BYTES
    return raw[skip : skip + size_bytes].view(dtype).reshape(tensor.shape)


def unwritten(tensor: DramTensor) -> Array:
    """Room for an output: NaN, in integers 0."""
    array = aligned(tensor)
    array.fill(np.nan if tensor.format.is_float else 0)
    return array


def draw(array: Array) -> None:
    """Fill an array with standard normal numbers, in integers ten times as large: neither zeros nor
    denormals, which are multiplied faster or slower than others on some CPUs. The same in every
    process."""
    flat, numbers = array.reshape(-1), _normals()
    if array.dtype.kind in "iu":
        numbers = np.abs(10.0 * numbers).astype(np.float32)
    for begin in range(0, flat.size, numbers.size):
        part = flat[begin : begin + numbers.size]
        part[...] = numbers[: part.size].astype(array.dtype, copy=False)


@functools.cache
def _normals() -> npt.NDArray[np.float32]:
    return np.random.default_rng(0).standard_normal(_NORMALS, dtype=np.float32)
