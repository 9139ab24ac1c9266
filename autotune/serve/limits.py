"""Limits of a service: what one request, and one client, may take."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

MEBIBYTE = 1 << 20
CLIENTS = 4096
"""Clients whose rate is kept; the one that asked longest ago goes."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Each is a maximum."""

    body_bytes: int = 4 * MEBIBYTE
    """Body of a JSON request."""
    model_bytes: int = 512 * MEBIBYTE
    """Uploaded network."""
    items: int = 4096
    """Questions of a batch."""
    layers: int = 32
    """Layers of a group."""
    seconds: float = 30.0
    """Time of an answer."""
    plan_seconds: float = 600.0
    """Time of a plan."""
    rate: float = 20_000.0
    """Requests per second of a client."""


class Rate:
    """A token bucket per client: ``rate`` requests per second, as many at once.

    Not thread-safe: the event loop alone asks it.
    """

    def __init__(self, rate: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate = rate
        self._clock = clock
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def admits(self, client: str) -> bool:
        """Return True if a client may ask now, and count the request."""
        now = self._clock()
        left, before = self._left.pop(client, (self._rate, now))
        left = min(self._rate, left + (now - before) * self._rate)
        admitted = left >= 1.0
        self._left[client] = (left - 1.0 if admitted else left, now)
        if len(self._left) > CLIENTS:
            self._left.popitem(last=False)
        return admitted
