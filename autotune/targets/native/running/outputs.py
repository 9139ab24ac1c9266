"""Memory of a plan's outputs: what callers let go of is used again, so that the executable writes
pages that are there already.

Memory fresh from the system is cleared page by page as it is written, which takes longer than
computing an element-wise network (64 MiB: 7 ms of 14 on Zen 3).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from autotune.targets.native.compiling.memory import aligned_floats

Floats = npt.NDArray[np.float32]
FLOAT32 = np.dtype(np.float32)
LARGE_BYTES = 1 << 16
"""From this size on memory is kept: smaller pieces the allocator keeps itself."""
SPARE = 2
"""Pieces kept that no one holds: a caller may have one result while the next is made."""


class OutputMemory:
    """Makes arrays of one shape. Memory is given out again only when its array and all views of
    it are gone. Safe to use from several threads."""

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype[Any] = FLOAT32) -> None:
        self._shape, self._dtype = shape, dtype
        self._spare: deque[Floats] | None = None
        if dtype.itemsize * prod(shape) >= LARGE_BYTES and dtype == FLOAT32:
            self._spare = deque(maxlen=SPARE)

    @property
    def maker(self) -> Callable[[], Floats] | None:
        """``array`` where memory is kept; None where a new array will do."""
        return None if self._spare is None else self.array

    def array(self) -> Floats:
        """A C-contiguous array that no one else holds; large ones begin on a cache line."""
        if self._spare is None:
            return np.empty(self._shape, self._dtype)
        try:
            block = self._spare.pop()
        except IndexError:
            block = aligned_floats(prod(self._shape)).reshape(self._shape)
        return np.asarray(_Lease(block, self._spare))


class _Lease:
    """A block that is lent: the base of the array that the caller gets, and so alive as long as
    any view of it. It returns the block when it dies."""

    def __init__(self, block: Floats, spare: deque[Floats]) -> None:
        self._block, self._spare = block, spare

    @property
    def __array_interface__(self) -> dict[str, Any]:
        return self._block.__array_interface__

    def __del__(self) -> None:
        self._spare.append(self._block)
