"""Memory of floats for loading and running: aligned to cache lines, and in time in large pages; the loader's
packed constants, arenas and outputs lie in it."""

from __future__ import annotations

import ctypes
import errno
import functools
import mmap
from collections.abc import Iterable
from threading import Thread

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]
ALIGNMENT_BYTES = 64
POPULATED_BYTES = 1 << 20
"""From this size on pages are asked of the system at once."""
PAGE_BYTES = 2 << 20
"""A large page of x86-64, and of AArch64 with small ones of 4 KiB."""
_POPULATE_WRITE, _COLLAPSE = 23, 25
"""MADV_POPULATE_WRITE of Linux 5.14 and MADV_COLLAPSE of 6.1, which Python does not name."""


def aligned_floats(count: int) -> Floats:
    """``count`` floats that begin on a cache line."""
    raw = np.empty(4 * count + ALIGNMENT_BYTES, np.uint8)
    skip = -raw.ctypes.data % ALIGNMENT_BYTES
    return raw[skip : skip + 4 * count].view(np.float32)


def populated_floats(count: int) -> Floats:
    """As ``aligned_floats``, with its pages there at once: one by one, when they are first touched,
    they take half as long again. Large ones begin where a large page may."""
    if 4 * count < POPULATED_BYTES or not hasattr(mmap, "MADV_HUGEPAGE"):
        return aligned_floats(count)
    size = -(-4 * count // PAGE_BYTES) * PAGE_BYTES
    block = mmap.mmap(-1, size + PAGE_BYTES, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    skip = -np.frombuffer(block, np.uint8).ctypes.data % PAGE_BYTES
    floats = np.frombuffer(block, np.float32, count, skip)
    if not _advise(floats, _POPULATE_WRITE, mmap.PAGESIZE):
        floats[:: mmap.PAGESIZE // 4] = 0
    return floats


def enlarge_pages(blocks: Iterable[Floats]) -> Thread:
    """Have the system put blocks of ``populated_floats`` into large pages, in a thread that is given
    back: it takes 40 ms of CPU time for 100 MB, 250 where room must be made, and may fail, which
    only costs time. To ask for such pages at once would hold up loading as much."""
    large = [floats for floats in blocks if floats.nbytes >= POPULATED_BYTES]
    thread = Thread(target=_enlarge, args=(large,), daemon=True, name="large pages")
    thread.start()
    return thread


def _enlarge(blocks: list[Floats]) -> None:
    if not hasattr(mmap, "MADV_HUGEPAGE"):
        return
    for floats in blocks:
        _advise(floats, mmap.MADV_HUGEPAGE, PAGE_BYTES)  # older systems then come to it by and by
        _advise(floats, _COLLAPSE, PAGE_BYTES)


def _advise(floats: Floats, advice: int, unit_bytes: int) -> bool:
    """Whether the system takes advice on the pages of a block; others run meanwhile."""
    size = -(-floats.nbytes // unit_bytes) * unit_bytes
    while _madvise()(floats.ctypes.data, size, advice):
        if ctypes.get_errno() != errno.EINTR:
            return False
    return True


@functools.cache
def _madvise() -> ctypes._NamedFuncPointer:
    function = ctypes.CDLL(None, use_errno=True).madvise
    function.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    return function
