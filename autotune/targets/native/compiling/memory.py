"""Memory of floats for loading and running: aligned to cache lines, large blocks in large pages.

The loader's packed constants, arenas and outputs lie in it.
"""

from __future__ import annotations

import ctypes
import errno
import functools
import mmap
import time

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]
ALIGNMENT_BYTES = 64
POPULATED_BYTES = 1 << 20
"""From this size on pages are asked of the system at once."""
PAGE_BYTES = 2 << 20
"""A large page of x86-64, and of AArch64 with small ones of 4 KiB."""
_POPULATE_WRITE = 23
"""MADV_POPULATE_WRITE of Linux 5.14, which Python does not name."""
_STEP = 4 << 20
"""Floats that are populated at a time: eight large pages."""
_SLOW = 1e-9
"""Seconds for a byte that large pages may take. They take 0.13e-9 where the system has some free, small pages 0.25e-9
(Sapphire Rapids); where the system must make room, large pages take up to 3e-9."""


def aligned_floats(count: int) -> Floats:
    """``count`` floats that begin on a cache line."""
    raw = np.empty(4 * count + ALIGNMENT_BYTES, np.uint8)
    skip = -raw.ctypes.data % ALIGNMENT_BYTES
    return raw[skip : skip + 4 * count].view(np.float32)


def populated_floats(count: int) -> Floats:
    """Return ``count`` floats as ``aligned_floats``, with all their pages there at once.

    Pages that are first touched one by one take half as long again. A large block begins where a large page may,
    and lies in large pages as long as the system provides them quickly.
    """
    memory = ReservedFloats(count)
    memory.populate(0, count)
    return memory.floats


class ReservedFloats:
    """Memory of ``populated_floats`` before its pages are there: threads may each populate a part."""

    def __init__(self, count: int) -> None:
        self._is_large = False
        self._has_pages = 4 * count < POPULATED_BYTES or not hasattr(mmap, "MADV_HUGEPAGE")
        if self._has_pages:
            self.floats = aligned_floats(count)
            return
        size = -(-4 * count // PAGE_BYTES) * PAGE_BYTES
        block = mmap.mmap(-1, size + PAGE_BYTES, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        skip = -np.frombuffer(block, np.uint8).ctypes.data % PAGE_BYTES
        self.floats = np.frombuffer(block, np.float32, count, skip)
        self._is_large = _advise(
            np.frombuffer(block, np.float32, size // 4, skip), mmap.MADV_HUGEPAGE
        )

    def populate(self, begin: int, end: int) -> None:
        """Have the system provide the pages of floats ``begin`` to ``end``, before they are written.

        Pages are large ones until these take too long. Other threads run meanwhile.
        """
        if self._has_pages:
            return
        for first in range(begin, end, _STEP):
            part = self.floats[first : min(first + _STEP, end)]
            started = time.perf_counter()
            if not _advise(part, _POPULATE_WRITE):
                part[:: mmap.PAGESIZE // 4] = 0
            if self._is_large and time.perf_counter() - started > _SLOW * part.nbytes:
                self._is_large = False
                _advise(self.floats[first + len(part) :], mmap.MADV_NOHUGEPAGE)


def _advise(floats: Floats, advice: int) -> bool:
    """Give advice on the pages of floats. Return True if the system takes it; other threads run meanwhile."""
    if not floats.nbytes:
        return True
    before = floats.ctypes.data % mmap.PAGESIZE
    while _madvise()(floats.ctypes.data - before, floats.nbytes + before, advice):
        if ctypes.get_errno() != errno.EINTR:
            return False
    return True


@functools.cache
def _madvise() -> ctypes._NamedFuncPointer:
    function = ctypes.CDLL(None, use_errno=True).madvise
    function.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    return function
