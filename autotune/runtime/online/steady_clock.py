"""Time of a session in seconds since 1970 that never jumps: what is older than what stays true when the
machine's clock is set."""

from __future__ import annotations

import time
from collections.abc import Callable


class SteadyClock:
    """The wall clock as it stood at the beginning, and from then on the seconds of a clock that only runs."""

    def __init__(
        self,
        wall: Callable[[], float] = time.time,
        running: Callable[[], float] = time.monotonic,
    ) -> None:
        self._running = running
        self._offset_seconds = wall() - running()

    def __call__(self) -> float:
        """Return the time now."""
        return self._offset_seconds + self._running()
