"""Memory that adopted edits may take beyond what they replaced: one room for all sessions of a process.

The room shrinks with the memory that the machine has left. Who holds the edit that saves least for its bytes gives it up.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from weakref import WeakKeyDictionary

MOST_BYTES = 64 << 20
"""Size of the room on a machine with memory to spare."""
FREE_SHARE = 1 / 8
"""Share of the memory left, edits included, that they may take."""

_CGROUP = Path("/sys/fs/cgroup")


class MemoryRoom:
    """What sessions hold. Safe to use from several threads; a session that is gone holds nothing."""

    def __init__(self, free_bytes: Callable[[], int | None], most_bytes: int = MOST_BYTES) -> None:
        """``free_bytes`` is called at every question while anything is held; None: unknown."""
        self._free_bytes, self._most_bytes = free_bytes, most_bytes
        self._lock = threading.Lock()
        self._held: WeakKeyDictionary[object, Mapping[str, tuple[int, float]]] = WeakKeyDictionary()

    def hold(self, owner: object, edits: Mapping[str, tuple[int, float]]) -> None:
        """Note all edits of an owner by key: the bytes that each takes, more than 0, and what it saves."""
        with self._lock:
            self._held[owner] = edits

    def surplus(self, owner: object) -> str | None:
        """Return the key of an edit that this owner is to give up now; None while all fit, or another owner's saves
        less for its bytes."""
        with self._lock:
            rows = [
                (saved / taken, holder is owner, key)
                for holder, edits in self._held.items()
                for key, (taken, saved) in edits.items()
            ]
            taken = self._taken()
        if not rows or taken <= self._limit(taken):
            return None
        _, is_own, key = min(rows)
        return key if is_own else None

    def fits(self, size_bytes: int) -> bool:
        """Return True if so many bytes fit beside what is held."""
        with self._lock:
            taken = self._taken()
        return size_bytes <= 0 or taken + size_bytes <= self._limit(taken)

    def _taken(self) -> int:
        return sum(size for edits in self._held.values() for size, _ in edits.values())

    def _limit(self, taken: int) -> float:
        free = self._free_bytes()
        return (
            self._most_bytes if free is None else min(self._most_bytes, FREE_SHARE * (free + taken))
        )


def free_bytes() -> int | None:
    """Return the memory that this process may still take: of the machine, or of its control group if that has less.

    None where the system does not tell.
    """
    known = [one for one in (_machine_bytes(), _group_bytes()) if one is not None]
    return min(known, default=None)


def _machine_bytes() -> int | None:
    with suppress(OSError, ValueError, IndexError):
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return 1024 * int(line.split()[1])
    return None


def _group_bytes() -> int | None:
    """Return what the process's control group (version 2) has left; files that may be dropped count as left."""
    with suppress(OSError, ValueError, IndexError):
        rows = Path("/proc/self/cgroup").read_text().splitlines()
        own = next((x.split(":", 2)[2] for x in rows if x.startswith("0::")), "/")
        folder = _CGROUP / own.lstrip("/")
        most = (folder / "memory.max").read_text().strip()
        if most == "max":
            return None
        stat = (folder / "memory.stat").read_text().splitlines()
        files = next((int(x.split()[1]) for x in stat if x.startswith("inactive_file ")), 0)
        return max(0, int(most) - int((folder / "memory.current").read_text()) + files)
    return None


_ROOM = MemoryRoom(free_bytes)


def memory_room() -> MemoryRoom:
    """Return the room of this process."""
    return _ROOM


def _forget() -> None:
    """Begin anew in a forked process, which has no sessions of its own yet."""
    global _ROOM  # noqa: PLW0603 -- one a process
    _ROOM = MemoryRoom(free_bytes)


os.register_at_fork(after_in_child=_forget)
