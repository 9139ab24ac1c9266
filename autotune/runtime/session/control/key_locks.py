"""Locks by key: who makes one version never waits for another version."""

from __future__ import annotations

import threading
from collections.abc import Hashable, Iterator
from contextlib import contextmanager


class KeyLocks:
    """One lock for each key in use; none is kept for a key that nobody holds or waits for."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held: dict[Hashable, tuple[threading.Lock, list[None]]] = {}

    @contextmanager
    def of(self, key: Hashable) -> Iterator[None]:
        """Hold the lock of a key."""
        with self._lock:
            lock, users = self._held.setdefault(key, (threading.Lock(), []))
            users.append(None)
        try:
            with lock:
                yield
        finally:
            with self._lock:
                users.pop()
                if not users:
                    del self._held[key]
