"""The cache of lowered programs: what makes compiling the next table cheap, for all of a process's sessions."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from autotune.fusion.group import Group
from autotune.isa.program import Program
from autotune.runtime.execution.compilation import Compilation, ProgramSource
from autotune.runtime.execution.resources import program_bytes
from autotune.schedule.schedule import Schedule
from autotune.targets.spec import HardwareSpec
from autotune.tuner.choice import Choice

LIMIT_BYTES = 64 << 20
"""Default size of a cache: some thousand programs."""

ProgramKey = tuple[str, Schedule, str]
"""Group key, schedule, hardware profile."""


@dataclass(frozen=True, slots=True)
class KeptProgram:
    """A program, and the tensors of the group that it was made for: those of another group of equal
    key stand in the same order."""

    tensors: tuple[str, ...]
    program: Program


class ProgramShelf(Protocol):
    """Keeps programs beyond this process."""

    def load(self, key: ProgramKey) -> KeptProgram | None:
        """Return the program of a key; None without one."""
        ...

    def store(self, key: ProgramKey, kept: KeptProgram) -> None:
        """Keep the program of a key. Never raises for what a disk does."""
        ...


@dataclass(slots=True)
class _Entry:
    """A program, its bytes, the seconds that it took to get, and what eviction decides by."""

    kept: KeptProgram
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
    """Programs in a cache, their bytes, and how often a program was found, got and evicted.

    Of the ``misses``, ``loads`` were read from disk; the others were lowered.
    """

    programs: int
    size_bytes: int
    hits: int
    misses: int
    evictions: int
    loads: int = 0


class ProgramCache:
    """Lowered programs by (group key, schedule, hardware profile). Safe to use from several threads.

    The group key covers structure, shapes and element types, and what a class of inputs allows: its
    operators are in the group, or are not. Beyond ``limit_bytes`` the program of the least priority
    goes: the seconds to get it, times its uses, over its bytes, plus the priority of the last one
    that went, so that programs age (GreedyDual-Size with frequency, Cherkasova 1998). ``files`` is
    asked before a program is lowered, and told what was.
    """

    def __init__(
        self,
        limit_bytes: int = LIMIT_BYTES,
        clock: Callable[[], float] = time.perf_counter,
        files: ProgramShelf | None = None,
    ) -> None:
        self._limit_bytes, self._clock, self._files = limit_bytes, clock, files
        self._lock = threading.Lock()
        self._entries: dict[ProgramKey, _Entry] = {}
        self._bytes = 0
        self._age = 0.0
        self._hits = self._misses = self._evictions = self._loads = 0

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
        source = ProgramSource.MEMORY
        if entry is None:
            kept, source = self._got(key, choice.group, spec)
            entry = self._added(key, kept, self._clock() - began, source)
        bindings = dict(zip(entry.kept.tensors, choice.group.tensors, strict=True))
        note = Compilation(time.time(), self._clock() - began, source)
        return Lowered(entry.kept.program, bindings, note)

    @property
    def figures(self) -> CacheFigures:
        """What the cache holds, and what it did so far."""
        with self._lock:
            counts = self._hits, self._misses, self._evictions, self._loads
            return CacheFigures(len(self._entries), self._bytes, *counts)

    def _got(
        self, key: ProgramKey, group: Group, spec: HardwareSpec
    ) -> tuple[KeptProgram, ProgramSource]:
        """Return a program from disk, or make it and keep it there."""
        known = None if self._files is None else self._files.load(key)
        if known is not None and len(known.tensors) == len(group.tensors):
            return known, ProgramSource.DISK
        from autotune.lowering.lower import lower  # not where every program is kept

        made = KeptProgram(group.tensors, lower(group, key[1], spec))
        if self._files is not None:
            self._files.store(key, made)
        return made, ProgramSource.LOWERED

    def _added(
        self, key: ProgramKey, kept: KeptProgram, seconds: float, source: ProgramSource
    ) -> _Entry:
        """Add a program that took so long to get, unless another thread has added it meanwhile."""
        entry = _Entry(kept, program_bytes(kept.program), seconds)
        with self._lock:
            self._misses += 1
            self._loads += source is ProgramSource.DISK
            known = self._entries.setdefault(key, entry)
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
