"""Pauses the garbage collector while a network opens: it makes many objects, and all of them stay.

Where a session learns, the collector then looks at all of them once, before the first request, as it soon would beside requests.
"""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

BREATH_SECONDS = 0.25
"""Time after which long work that pauses the collector lets it look at what is young."""

MOST_NEW = 0.25
"""Share of all objects: CPython's collector looks at all of them once so many more have become old since the last time."""

_lock = threading.Lock()
_OLDEST = 2
_resting = 0


@contextmanager
def pause_collector() -> Iterator[Callable[[], None]]:
    """Disable collections until the last concurrent pause has ended; a collector that was off stays off.

    Opening ResNet-50 makes 50 generations of objects without garbage; scanning them takes a tenth of
    the time. Work beside requests calls what this gives now and then: every ``BREATH_SECONDS`` it collects the garbage
    of all threads since the last time. What such work made is looked at once, as it is old from then on.
    """
    began = _begin()
    last = time.monotonic()

    def breathe() -> None:
        nonlocal last
        if began and time.monotonic() - last >= BREATH_SECONDS:
            gc.collect(1)
            last = time.monotonic()

    try:
        yield breathe
    finally:
        if began:
            _end()


@contextmanager
def collect_before_requests() -> Iterator[None]:
    """Have the collector look at all objects at the end of an opening, if it soon would: if they are ``MOST_NEW`` more than
    when it last did, or than at the beginning.

    Requests would wait for it: 125 ms where they are learned from. Opening takes that much longer; a session that only
    runs, and is perhaps closed soon, leaves it to the collector.
    """
    looked_at = len(gc.get_objects())

    def note(phase: str, collection: dict[str, int]) -> None:
        nonlocal looked_at
        if phase == "stop" and collection["generation"] == _OLDEST:
            looked_at = len(gc.get_objects())

    gc.callbacks.append(note)
    try:
        yield
    finally:
        gc.callbacks.remove(note)
    with _lock:
        is_on = gc.isenabled() or _resting > 0
    if is_on and len(gc.get_objects()) > (1 + MOST_NEW) * looked_at:
        gc.collect()


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
