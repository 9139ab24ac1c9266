"""The type of a tensor: shape and element type."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from autotune.errors import ModelError
from autotune.isa.formats import Format

Array = npt.NDArray[np.float32]
"""Values of a tensor as engines compute them."""

EXACT_LIMIT = 2**24
"""Up to here float32 holds every whole number; beyond it some are missing."""


FLOAT_MAX = float(np.finfo(np.float32).max)
"""The largest finite number of float32."""


class DType(StrEnum):
    """Element types. All are computed as float32, but for products of 8-bit integers: booleans as 0 and 1,
    integers exactly up to ``EXACT_LIMIT``, narrower floats with more digits than they have, float64 with
    fewer. ``TensorType.storage`` tells how a tensor is stored."""

    FLOAT32 = "float32"
    FLOAT64 = "float64"
    FLOAT16 = "float16"
    BFLOAT16 = "bfloat16"
    FLOAT8_E4M3FN = "float8_e4m3fn"
    FLOAT8_E4M3FNUZ = "float8_e4m3fnuz"
    FLOAT8_E5M2 = "float8_e5m2"
    FLOAT8_E5M2FNUZ = "float8_e5m2fnuz"
    FLOAT4_E2M1FN = "float4_e2m1fn"
    BOOL = "bool"
    INT2 = "int2"
    UINT2 = "uint2"
    INT4 = "int4"
    UINT4 = "uint4"
    INT8 = "int8"
    INT16 = "int16"
    INT32 = "int32"
    INT64 = "int64"
    UINT8 = "uint8"
    UINT16 = "uint16"
    UINT32 = "uint32"
    UINT64 = "uint64"

    @property
    def is_float(self) -> bool:
        """True where numbers may have fractions."""
        return "float" in self.value

    @property
    def is_tiny(self) -> bool:
        """True for floats of 4 or 8 bits: every computation has to round to them."""
        return self.value.startswith(("float4", "float8"))

    @property
    def is_integer(self) -> bool:
        """True for integer types; a boolean is none."""
        return not self.is_float and self is not DType.BOOL

    @property
    def limits(self) -> tuple[int, int]:
        """Smallest and largest value of an integer or boolean type."""
        if self is DType.BOOL:
            return 0, 1
        assert self.is_integer
        unsigned = self.value.startswith("u")
        bits = int(self.value.lstrip("uint"))
        return (0, 2**bits - 1) if unsigned else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)

    def holds(self, other: DType) -> bool:
        """Return True if every value of another integer or boolean type is one of this type."""
        return self.limits[0] <= other.limits[0] and other.limits[1] <= self.limits[1]


NARROW: dict[DType, Format] = {DType.INT8: Format.INT8, DType.UINT8: Format.UINT8}
"""Format of the element types that machines may store and multiply as they are."""


if TYPE_CHECKING:
    NUMPY: dict[DType, np.dtype[Any]]
    """The numpy type that arrays of each element type come in and go out as."""
else:

    def __getattr__(name: str) -> dict[DType, np.dtype[Any]]:
        """Make ``NUMPY`` on first use (PEP 562): predictors see no arrays."""
        if name != "NUMPY":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        import ml_dtypes

        types = {x: np.dtype(getattr(ml_dtypes, x.value, x.value)) for x in DType}
        globals()["NUMPY"] = types
        return types


def converted(value: np.ndarray[Any, Any], kind: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """The numbers of an array as ``kind``. Integers of few bits keep the low ones, as ONNX Runtime's do: what ml_dtypes
    makes of a float beyond them differs between its versions."""
    if kind.isbuiltin != 1 and kind.name.startswith(("int", "uint")):
        value = value.astype(np.int64)
    return value.astype(kind)


def beyond_float32(value: np.ndarray[Any, Any]) -> bool:
    """Return True if a finite number of an array would be infinite as float32."""
    with np.errstate(over="ignore"):
        return bool((np.isinf(value.astype(np.float32)) & np.isfinite(value)).any())


def is_bf16(value: np.ndarray[Any, Any]) -> bool:
    """Return True if BF16 holds every number of an array."""
    first = value.flat[:64]
    return all(not (_bits(x) & 0xFFFF).any() for x in (first, value))


def is_fp16(value: np.ndarray[Any, Any]) -> bool:
    """Return True if FP16 holds every number of an array."""
    with np.errstate(over="ignore"):
        return all(
            np.array_equal(x.astype(np.float16).astype(np.float32), x, equal_nan=True)
            for x in (value.flat[:64], value)
        )


def _bits(value: np.ndarray[Any, Any]) -> npt.NDArray[np.uint32]:
    return np.ascontiguousarray(value, np.float32).view(np.uint32)


def below_float32(value: np.ndarray[Any, Any]) -> bool:
    """Return True if a number of an array other than 0 would be 0 as float32."""
    with np.errstate(over="ignore", under="ignore"):
        return bool(((value.astype(np.float32) == 0) & (value != 0)).any())


@dataclass(frozen=True, slots=True)
class TensorType:
    """Shape and element type; every extent is a positive integer, a scalar has shape ``()``.

    Programs find the tensor in DRAM in the format ``storage``.
    """

    shape: tuple[int, ...]
    dtype: DType = DType.FLOAT32
    storage: Format = Format.FP32

    def __post_init__(self) -> None:
        for extent in self.shape:
            if extent < 1:
                raise ModelError(f"shape {list(self.shape)}: extents must be ≥ 1, got {extent}")

    @property
    def stored(self) -> TensorType:
        """The same tensor as engines see it: computed as float32, stored as it is."""
        return self if self.dtype is DType.FLOAT32 else TensorType(self.shape, storage=self.storage)

    @property
    def elements(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def size_bytes(self) -> int:
        """Bytes when stored densely."""
        return self.elements * self.storage.bytes
