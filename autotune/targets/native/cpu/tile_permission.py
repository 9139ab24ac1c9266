"""The system's permission to use tile registers (AMX), which a process asks for once; its threads and children
have it too. Without it the first instruction of them ends the process."""

from __future__ import annotations

import ctypes
import functools
import platform
import sys

ARCH_PRCTL = 158
"""Number of the system call on x86-64."""
REQUEST, TILE_DATA = 0x1023, 18
"""ARCH_REQ_XCOMP_PERM and XFEATURE_XTILEDATA (Linux, Documentation/arch/x86/xstate.rst)."""


@functools.cache
def may_use_tiles() -> bool:
    """Whether this process may use tile registers; asks the system when first called."""
    if sys.platform != "linux" or platform.machine().lower() != "x86_64":
        return False
    try:
        call = ctypes.CDLL(None).syscall
    except (OSError, AttributeError):
        return False
    call.restype = ctypes.c_long
    return bool(
        call(ctypes.c_long(ARCH_PRCTL), ctypes.c_long(REQUEST), ctypes.c_long(TILE_DATA)) == 0
    )
