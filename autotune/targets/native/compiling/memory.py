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
    if 4 * count < POPULATED_BYTES or not hasattr(mmap, "MADV_HUGEPAGE"):
        return aligned_floats(count)
    size = -(-4 * count // PAGE_BYTES) * PAGE_BYTES
    block = mmap.mmap(-1, size + PAGE_BYTES, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    skip = -np.frombuffer(block, np.uint8).ctypes.data % PAGE_BYTES
    _populate(np.frombuffer(block, np.float32, size // 4, skip))
    return np.frombuffer(block, np.float32, count, skip)


def _populate(floats: Floats) -> None:
    """Have the system provide the pages of a block; large ones until they take too long."""
    large = _advise(floats, mmap.MADV_HUGEPAGE)
    for first in range(0, len(floats), _STEP):
        part = floats[first : first + _STEP]
        begin = time.perf_counter()
        if not _advise(part, _POPULATE_WRITE):
            part[:: mmap.PAGESIZE // 4] = 0
        if large and time.perf_counter() - begin > _SLOW * part.nbytes:
            large = False
            _advise(floats[first + _STEP :], mmap.MADV_NOHUGEPAGE)


def _advise(floats: Floats, advice: int) -> bool:
    """Give advice on whole pages. Return True if the system takes it; other threads run meanwhile."""
    while _madvise()(floats.ctypes.data, floats.nbytes, advice):
        if ctypes.get_errno() != errno.EINTR:
            return False
    return True


@functools.cache
def _madvise() -> ctypes._NamedFuncPointer:
    function = ctypes.CDLL(None, use_errno=True).madvise
    function.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    return function
