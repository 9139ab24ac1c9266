"""Pauses the garbage collector while a network opens: it makes many objects, and all of them stay."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_lock = threading.Lock()
_resting = 0


@contextmanager
def pause_collector() -> Iterator[None]:
    """Disable collections until the last concurrent pause has ended; a collector that was off stays off.

    Opening ResNet-50 makes 50 generations of objects without garbage; scanning them takes a tenth of
    the time.
    """
    began = _begin()
    try:
        yield
    finally:
        if began:
            _end()


def _begin() -> bool:
    """Join the pause; return False if the collector was off without us."""
    global _resting  # noqa: PLW0603 -- the collector is the process's, and so is who holds it
    with _lock:
        if _resting == 0 and not gc.isenabled():
            return False
        _resting += 1
        gc.disable()
        return True


def _end() -> None:
    global _resting  # noqa: PLW0603 -- as above
    with _lock:
        _resting -= 1
        if _resting == 0:
            gc.enable()
