"""How long one thread may hold Python's interpreter while others wait: less while something compiles.

A run gives the interpreter up at every matrix product, and waits a whole interval of the compiler's
thread to get it back: 5 ms unless told otherwise.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

SECONDS = 0.0002
_LOCK = threading.Lock()
_BEFORE: list[float] = []
"""The interval to return to, once for each thread that asks for a short one."""


@contextmanager
def short_switches() -> Iterator[None]:
    """Let threads take turns of ``SECONDS`` at most; the process's own interval comes back with the
    last thread that leaves."""
    with _LOCK:
        _BEFORE.append(sys.getswitchinterval() if not _BEFORE else _BEFORE[0])
        sys.setswitchinterval(min(SECONDS, _BEFORE[0]))
    try:
        yield
    finally:
        with _LOCK:
            before = _BEFORE.pop()
            if not _BEFORE:
                sys.setswitchinterval(before)
