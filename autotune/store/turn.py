"""Turns: processes that share a store measure for one machine one after another, not side by side."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from autotune.disk.atomic_file import PRIVATE_MODE
from autotune.store.database import MEMORY


@contextmanager
def turn(place: str, profile_id: str, waits: Callable[[], None]) -> Iterator[None]:
    """Hold the turn of a hardware profile for the block; ``place`` is the store's file.

    Calls ``waits`` once if another process holds the turn. The turn of a process that dies is free.
    A store in memory, or in a folder that cannot be written to, has no turns.
    """
    if place == MEMORY:
        yield
        return
    path = Path(f"{place}.{profile_id}.lock")
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, PRIVATE_MODE)
    except OSError:
        yield
        return
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            waits()
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
