"""Leases of a machine's cores: measurements that are timed have the machine alone, others share it.

Locks of files in the folder for temporary files hold for all processes of a user on one machine, and end
with their process. Locks of Dask would hold for a whole cluster, and live on for a while after a death.
"""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from autotune.disk.atomic_file import PRIVATE_MODE


@contextmanager
def lease(alone: bool) -> Iterator[None]:
    """Hold the cores of this machine for the block: ``alone``, or beside others that are not alone.

    Blocks until they are free. Who waits to be alone is passed by nobody: the gate is shut meanwhile.
    """
    gate, cores = _opened("gate"), _opened("cores")
    try:
        fcntl.flock(gate, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        fcntl.flock(cores, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        if not alone:
            fcntl.flock(gate, fcntl.LOCK_UN)
        yield
    finally:
        os.close(cores)
        os.close(gate)


class Seat:
    """The right to time measurements on this machine: one worker process holds it until its end."""

    def __init__(self) -> None:
        self._handle: int | None = None

    def take(self) -> bool:
        """Return True if this process has the seat, now or since an earlier call."""
        if self._handle is not None:
            return True
        handle = _opened("seat")
        with suppress(BlockingIOError):
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._handle = handle
            return True
        os.close(handle)
        return False

    def leave(self) -> None:
        """Give the seat back."""
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None


def _opened(name: str) -> int:
    path = Path(tempfile.gettempdir()) / f"autotune-{os.getuid()}-{name}.lock"
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, PRIVATE_MODE)
