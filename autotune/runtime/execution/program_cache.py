"""The cache of lowered programs: what makes compiling the next table cheap, for all of a process's sessions."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

from autotune.fusion.group import Group
from autotune.isa.program import Program
from autotune.runtime.execution.compilation import Compilation, ProgramSource
from autotune.runtime.execution.resources import program_bytes
from autotune.schedule.schedule import Schedule
from autotune.targets.spec import HardwareSpec
from autotune.tuner.choice import Choice

LIMIT_BYTES = 64 << 20
"""Default size of a cache: some thousand programs."""

_Key = tuple[str, Schedule, str]


@dataclass(slots=True)
class _Entry:
    """A program, its bytes, the seconds that it took to make, and what eviction decides by."""

    group: Group
    program: Program
    size_bytes: int
    seconds: float
    uses: int = 0
    priority: float = 0.0


class Lowered(NamedTuple):
    """A program, the group's tensor names by the program's, and how the program came here."""

    program: Program
    bindings: dict[str, str]
    compilation: Compilation


@dataclass(frozen=True, slots=True)
class CacheFigures:
    """Programs in a cache, their bytes, and how often a program was found, made and evicted."""

    programs: int
    size_bytes: int
    hits: int
    misses: int
    evictions: int


class ProgramCache:
    """Lowered programs by (group key, schedule, hardware profile). Safe to use from several threads.

    The group key covers structure, shapes and element types, and what a class of inputs allows: its
    operators are in the group, or are not. Beyond ``limit_bytes`` the program of the least priority
    goes: the seconds to make it, times its uses, over its bytes, plus the priority of the last one
    that went, so that programs age (GreedyDual-Size with frequency, Cherkasova 1998).
    """

    def __init__(
        self, limit_bytes: int = LIMIT_BYTES, clock: Callable[[], float] = time.perf_counter
    ) -> None:
        self._limit_bytes, self._clock = limit_bytes, clock
        self._lock = threading.Lock()
        self._entries: dict[_Key, _Entry] = {}
        self._bytes = 0
        self._age = 0.0
        self._hits = self._misses = self._evictions = 0

    def lowered(self, choice: Choice, spec: HardwareSpec) -> Lowered:
        """Return the program of a group; make it if the cache has none.

        Groups of equal key list their tensors in the same order, so one's program serves another.
        Raises ``ScheduleError`` when the schedule is not legal on the machine.
        """
        assert choice.schedule is not None
        key = (choice.group.key, choice.schedule, spec.profile_id)
        began = self._clock()
        with self._lock:
            entry = self._entries.get(key)
            if entry is not None:
                self._hits += 1
                self._use(entry)
        source = ProgramSource.LOWERED if entry is None else ProgramSource.MEMORY
        if entry is None:
            entry = self._make(key, choice.group, spec)
        pairs = zip(entry.group.types, choice.group.types, strict=True)
        bindings = {theirs: ours for (theirs, _), (ours, _) in pairs}
        return Lowered(
            entry.program, bindings, Compilation(time.time(), self._clock() - began, source)
        )

    @property
    def figures(self) -> CacheFigures:
        """What the cache holds, and what it did so far."""
        with self._lock:
            counts = self._hits, self._misses, self._evictions
            return CacheFigures(len(self._entries), self._bytes, *counts)

    def _make(self, key: _Key, group: Group, spec: HardwareSpec) -> _Entry:
        from autotune.lowering.lower import lower  # not where every program is kept

        began = self._clock()
        program = lower(group, key[1], spec)
        entry = _Entry(group, program, program_bytes(program), self._clock() - began)
        with self._lock:
            self._misses += 1
            known = self._entries.setdefault(
                key, entry
            )  # another thread may have made it meanwhile
            self._use(known)
            if known is entry:
                self._bytes += entry.size_bytes
                self._evict()
        return known

    def _use(self, entry: _Entry) -> None:
        entry.uses += 1
        entry.priority = self._age + entry.seconds * entry.uses / entry.size_bytes

    def _evict(self) -> None:
        """Remove entries until the others fit. One that does not fit alone goes as well."""
        while self._bytes > self._limit_bytes:
            key = min(self._entries, key=lambda key: self._entries[key].priority)
            gone = self._entries.pop(key)
            self._bytes -= gone.size_bytes
            self._age = gone.priority
            self._evictions += 1


@cache
def shared_programs() -> ProgramCache:
    """Return the cache that all sessions of this process share."""
    return ProgramCache()
