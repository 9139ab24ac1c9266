"""Short turns of the interpreter: background work in Python makes a request wait for its turn, 5 ms unless told."""

from __future__ import annotations

import sys
import threading
from types import TracebackType

TURN_SECONDS = 1e-4
"""Time after which a thread that runs Python makes way for another that waits."""


class ShortTurns:
    """Shortens the turns of this process's threads while it is entered; from several threads at once too."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._depth = 0
        self._usual_seconds = 0.0

    def __enter__(self) -> None:
        with self._lock:
            if self._depth == 0:
                self._usual_seconds = sys.getswitchinterval()
                sys.setswitchinterval(min(TURN_SECONDS, self._usual_seconds))
            self._depth += 1

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with self._lock:
            self._depth -= 1
            if self._depth == 0:
                sys.setswitchinterval(self._usual_seconds)


SHORT_TURNS = ShortTurns()
"""Those of this process: the interval is one for all threads."""
