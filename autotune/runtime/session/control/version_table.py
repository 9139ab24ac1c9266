"""Table of a model's versions: counts the runs in each, evicts the oldest, and closes them."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import NoReturn, Protocol

from autotune.errors import AutotuneError
from autotune.graph.passes.note import Note
from autotune.runtime.execution.values import Value, Values

VERSIONS_KEPT = 8
"""Versions of one model, or of one body; the one that was not used for longest goes first."""


class Version(Protocol):
    """A model at given shapes."""

    @property
    def notes(self) -> tuple[Note, ...]:
        """Control flow that was folded for these shapes."""
        ...

    def run(self, inputs: Values) -> dict[str, Value]:
        """Outputs by name."""
        ...

    def close(self) -> None:
        """Give back what it holds; it is not run again."""
        ...


@dataclass(slots=True)
class Entry:
    """A version in the table with the number of its runs; the last run closes an evicted one."""

    version: Version
    users: int = 1
    gone: bool = False


class VersionTable:
    """Versions by what decides them. Safe from several threads."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._entries: OrderedDict[Hashable, Entry] = OrderedDict()
        self._failures: list[AutotuneError] = []
        self._closed = False
        self._lock = threading.Lock()

    @property
    def held(self) -> tuple[Version, ...]:
        """Existing versions, the most recently used last."""
        with self._lock:
            return tuple(entry.version for entry in self._entries.values())

    def find(self, key: Hashable) -> Entry | None:
        """The entry of a key, with one more user. Raises ``AutotuneError`` once closed."""
        with self._lock:
            if self._closed:
                raise self._refusal()
            entry = self._entries.get(key)
            if entry is None:
                return None
            self._entries.move_to_end(key)
            entry.users += 1
            return entry

    def peek(self, key: Hashable) -> Version | None:
        """The version of a key, which this is no use of; None if there is none."""
        with self._lock:
            entry = self._entries.get(key)
            return None if entry is None else entry.version

    def keep(self, key: Hashable, version: Version) -> Entry:
        """Add a new version with one user, in place of the one under its key; evict the oldest.

        Closes the version and raises ``AutotuneError`` if the table was closed meanwhile.
        """
        oldest = None
        with self._lock:
            closed = self._closed
            replaced = None if closed else self._entries.pop(key, None)
            if not closed:
                self._entries[key] = Entry(version)
            if len(self._entries) > VERSIONS_KEPT:
                _, oldest = self._entries.popitem(last=False)
            entry = self._entries.get(key)
        for gone in (replaced, oldest):
            if gone is not None:
                self._retire(gone)
        if entry is None:
            version.close()
            raise self._refusal()
        return entry

    def give_up(self, is_it: Callable[[Version], bool]) -> bool:
        """Evict the version that ``is_it`` says; return False if there is none."""
        with self._lock:
            key = next((k for k, x in self._entries.items() if is_it(x.version)), None)
            entry = None if key is None else self._entries.pop(key)
        if entry is not None:
            self._retire(entry)
        return entry is not None

    def leave(self, entry: Entry) -> None:
        """Count one user less."""
        with self._lock:
            entry.users -= 1
            last = entry.gone and entry.users == 0
        if last:
            self._close(entry.version)

    def close(self) -> None:
        """Close all versions; those that are running, when they have run. Closing again does nothing.

        Raises what closing one of them raised, now or when it was evicted, after all are closed.
        """
        with self._lock:
            self._closed = True
            entries, failures = list(self._entries.values()), list(self._failures)
            self._entries.clear()
            self._failures.clear()
        with ExitStack() as closing:
            for failure in failures:
                closing.callback(_raise, failure)
            for entry in entries:
                closing.callback(self._retire, entry)

    def _retire(self, entry: Entry) -> None:
        with self._lock:
            entry.gone = True
            idle = entry.users == 0
        if idle:
            self._close(entry.version)

    def _close(self, version: Version) -> None:
        """Close a version.

        Errors while evicting do not fail the current run: ``close()`` raises them later, or they are
        raised here if it was already called.
        """
        try:
            version.close()
        except AutotuneError as error:
            with self._lock:
                if self._closed:
                    raise
                self._failures.append(error)

    def _refusal(self) -> AutotuneError:
        return AutotuneError(f"{self.name}: was closed; open another")


def _raise(error: AutotuneError) -> NoReturn:
    raise error
