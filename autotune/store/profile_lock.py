"""Locks of a store in a file: processes that share it measure one machine one after another."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from autotune.disk.atomic_file import PRIVATE_MODE


@contextmanager
def profile_lock(place: str, profile_id: str, on_wait: Callable[[], None]) -> Iterator[None]:
    """Hold the lock of a hardware profile for the block; ``place`` is the store's file.

    Call ``on_wait`` once if another process holds the lock. A process that dies frees its lock.
    A folder that cannot be written has no locks.
    """
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
            on_wait()
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
