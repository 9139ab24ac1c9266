"""The type of a tensor: what shape inference, lowering and caching key on."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

from autotune.errors import ModelError


class DType(StrEnum):
    """Element types a tensor can hold."""

    FLOAT32 = "float32"

    @property
    def size_bytes(self) -> int:
        """Bytes of one element."""
        return 4


@dataclass(frozen=True, slots=True)
class TensorType:
    """Shape and element type; every extent is a positive integer, a scalar has shape ``()``."""

    shape: tuple[int, ...]
    dtype: DType = DType.FLOAT32

    def __post_init__(self) -> None:
        for extent in self.shape:
            if extent < 1:
                raise ModelError(f"shape {list(self.shape)}: extents must be ≥ 1, got {extent}")

    @property
    def elements(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def size_bytes(self) -> int:
        """Bytes when stored densely."""
        return self.elements * self.dtype.size_bytes
