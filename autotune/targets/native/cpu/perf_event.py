"""Hardware counters of the calling thread, by the Linux system call ``perf_event_open``.

Only what the thread itself does in user mode is counted: that needs no privilege where the kernel
allows counting at all. Many virtual machines have no counters.
"""

from __future__ import annotations

import ctypes
import os
import platform
import sys
from types import TracebackType
from typing import Self

EVENTS = {"perf_cycles": 0, "perf_instructions": 1, "perf_cache_misses": 3}
"""Names, and codes of ``PERF_TYPE_HARDWARE`` (linux/perf_event.h)."""

_SYSTEM_CALLS = {"x86_64": 298, "aarch64": 241}
_EXCLUDE_KERNEL, _EXCLUDE_HYPERVISOR = 1 << 5, 1 << 6
_CLOSE_ON_EXEC = 8
_THIS_THREAD, _ANY_CORE, _NO_GROUP = 0, -1, -1


class _Attributes(ctypes.Structure):
    """``struct perf_event_attr`` in its first published size."""

    _fields_ = (
        ("type", ctypes.c_uint32),
        ("size", ctypes.c_uint32),
        ("config", ctypes.c_uint64),
        ("sample_period", ctypes.c_uint64),
        ("sample_type", ctypes.c_uint64),
        ("read_format", ctypes.c_uint64),
        ("flags", ctypes.c_uint64),
        ("wakeup_events", ctypes.c_uint32),
        ("bp_type", ctypes.c_uint32),
        ("bp_addr", ctypes.c_uint64),
    )


class PerfCounters:
    """Counts from ``with`` on; ``read`` gives the counts so far, None where there are none."""

    def __init__(self) -> None:
        self._files: list[int] = []

    def __enter__(self) -> Self:
        for code in EVENTS.values():
            file = _opened(code)
            if file < 0:
                self._close()
                break
            self._files.append(file)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._close()

    def read(self) -> dict[str, int] | None:
        """Counts by name since the counters were opened."""
        if not self._files:
            return None
        counts = (int.from_bytes(os.read(file, 8), sys.byteorder) for file in self._files)
        return dict(zip(EVENTS, counts, strict=True))

    def _close(self) -> None:
        for file in self._files:
            os.close(file)
        self._files.clear()


def _opened(code: int) -> int:
    """File descriptor of a counter; negative where the system has none."""
    number = _SYSTEM_CALLS.get(platform.machine())
    if sys.platform != "linux" or number is None:
        return -1
    attributes = _Attributes(
        size=ctypes.sizeof(_Attributes),
        config=code,
        flags=_EXCLUDE_KERNEL | _EXCLUDE_HYPERVISOR,
    )
    call = ctypes.CDLL(None).syscall
    call.restype = ctypes.c_long
    return int(
        call(
            ctypes.c_long(number),
            ctypes.byref(attributes),
            ctypes.c_long(_THIS_THREAD),
            ctypes.c_long(_ANY_CORE),
            ctypes.c_long(_NO_GROUP),
            ctypes.c_ulong(_CLOSE_ON_EXEC),
        )
    )
