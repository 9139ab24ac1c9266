"""Pauses the garbage collector while a network opens: it makes many objects, and all of them stay.

Before the first request of a session that learns it then looks at all of them, as it soon would beside requests.
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
_looked_at = len(gc.get_objects())
"""Objects that were left when the collector last looked at all; before, those at import."""
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


def collect_before_requests() -> None:
    """Look through all objects once a network has been opened, if they are so many more that the collector soon will.

    Requests would wait for it: 125 ms, where they are learned from. Opening takes as long: a session that only runs, and is perhaps
    closed soon, leaves it to the collector (60 ms).
    """
    if gc.isenabled() and len(gc.get_objects()) > (1 + MOST_NEW) * _looked_at:
        gc.collect()


def _note(phase: str, collection: dict[str, int]) -> None:
    """Note how many objects the collector has looked at, whenever it has looked at all."""
    global _looked_at  # noqa: PLW0603 -- the collector is the process's
    if phase == "stop" and collection["generation"] == _OLDEST:
        _looked_at = len(gc.get_objects())


gc.callbacks.append(_note)


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
