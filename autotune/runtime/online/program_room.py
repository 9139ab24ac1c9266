"""Memory that programs for single shapes and classes of inputs may take: one room for all sessions of a process.

Sessions bound the number of such programs as well. What goes is what costs least to be without: seconds to make it × its recent
uses, over its bytes, as in the cache of programs.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeVar
from weakref import WeakKeyDictionary

from autotune.runtime.execution.program_table import ProgramTable
from autotune.runtime.execution.resources import program_bytes
from autotune.runtime.online.memory_room import FREE_SHARE, free_bytes

Owner = TypeVar("Owner")
Holder = TypeVar("Holder", bound="_HasTable")
MOST_BYTES = 256 << 20
"""Size of the room on a machine with memory to spare."""


class _HasTable(Protocol):
    @property
    def table(self) -> ProgramTable: ...


@dataclass(slots=True)
class _Held:
    size: Callable[[], int]
    seconds: float
    uses: Callable[[], int]
    leave: Callable[[], None]
    seen: int = 0
    recent: float = 1.0
    size_bytes: int = 0
    """When ``weigh`` was called last."""

    def weigh(self) -> int:
        """Return bytes now: callers who run at once make more."""
        self.size_bytes = self.size()
        return self.size_bytes

    def fade(self) -> None:
        """Count the uses since the last time; those before count half."""
        now = self.uses()
        self.recent, self.seen = self.recent / 2 + (now - self.seen), now

    @property
    def worth(self) -> float:
        return self.seconds * self.recent / self.size_bytes


class ProgramRoom:
    """What sessions hold beside their first programs. Safe to use from several threads."""

    def __init__(
        self,
        most_bytes: int = MOST_BYTES,
        free: Callable[[], int | None] = free_bytes,
    ) -> None:
        self._most_bytes, self._free = most_bytes, free
        self._lock = threading.Lock()
        self._held: WeakKeyDictionary[object, _Held] = WeakKeyDictionary()

    def add(
        self,
        holder: object,
        size: Callable[[], int],
        seconds: float,
        uses: Callable[[], int],
        leave: Callable[[], None],
    ) -> None:
        """Note programs that took ``seconds`` to make; have others leave while all do not fit.

        ``holder`` holds them: with it they are gone. ``size`` tells their bytes > 0, asked whenever programs are added: memory
        of more runs at once comes later. ``uses`` counts their runs. ``leave`` gives them up; it is called at most once,
        without a lock, by the thread that adds. None may refer to the holder. The newest stay.
        """
        with self._lock:
            for one in self._held.values():
                one.fade()
            self._held[holder] = _Held(size, seconds, uses, leave)
            leaving = self._surplus(holder)
        for one in leaving:
            one.leave()

    def remove(self, holder: object) -> None:
        """Forget programs that are gone."""
        with self._lock:
            self._held.pop(holder, None)

    @property
    def taken_bytes(self) -> int:
        """Bytes of all that is held."""
        with self._lock:
            return sum(one.weigh() for one in self._held.values())

    def _surplus(self, newest: object) -> list[_Held]:
        """Take out what has to leave, the least worth first. The lock is held."""
        taken = sum(one.weigh() for one in self._held.values())
        free = self._free()
        limit = (
            self._most_bytes if free is None else min(self._most_bytes, FREE_SHARE * (free + taken))
        )
        rows = sorted(
            (
                (one.worth, one, holder)
                for holder, one in self._held.items()
                if holder is not newest
            ),
            key=lambda row: row[0],
        )
        found = []
        for _, one, holder in rows:
            if taken <= limit:
                break
            del self._held[holder]
            taken -= one.size_bytes
            found.append(one)
        return found


def programs_bytes(table: ProgramTable) -> int:
    """Return the memory of a table's programs, each once. Tables share packed weights."""
    programs = {id(step.program): step.program for step in table.group_steps}
    return sum(map(program_bytes, programs.values()))


def arenas_bytes(table: ProgramTable) -> int:
    """Return the memory for intermediates of a table's executable so far; 0 without one."""
    return 0 if table.executable is None else table.executable.memory_bytes


def hold_programs(
    owner: Owner,
    holder: Holder,
    seconds: float,
    uses: Callable[[Holder], int],
    give_up: Callable[[Owner, Holder], None],
) -> None:
    """Note the programs of a ``holder`` in the room of this process, which took ``seconds`` to make; others may have to leave.

    ``owner`` gives the holder up when its turn comes. Neither is kept alive.
    """
    held, ours = weakref.ref(holder), weakref.ref(owner)
    in_programs = programs_bytes(holder.table)

    def size() -> int:
        one = held()
        return in_programs + (0 if one is None else arenas_bytes(one.table))

    def used() -> int:
        one = held()
        return 0 if one is None else uses(one)

    def leave() -> None:
        one, mine = held(), ours()
        if one is not None and mine is not None:
            give_up(mine, one)

    program_room().add(holder, size, seconds, used, leave)


_ROOM = ProgramRoom()


def program_room() -> ProgramRoom:
    """Return the room of this process."""
    return _ROOM


def _forget() -> None:
    """Begin anew in a forked process, which has no sessions of its own yet."""
    global _ROOM  # noqa: PLW0603 -- one a process
    _ROOM = ProgramRoom()


os.register_at_fork(after_in_child=_forget)
