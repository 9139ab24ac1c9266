"""Drafts on the way between processes: what the other side has already, and code that the disk cache has, stays behind.

Programs travel one by one, as to unpickle a whole draft would hold the interpreter from requests for as long.
"""

from __future__ import annotations

import io
import pickle
from dataclasses import dataclass
from typing import Any

from autotune.fusion.group import Group
from autotune.isa.program import Program
from autotune.runtime.execution.native_table import Draft
from autotune.targets.native.linking.linking import Linkable

_SHARED = (Program, Linkable, Group)


@dataclass(frozen=True, slots=True)
class SentDraft:
    """A pickled draft whose shared objects are numbers, and the pickles of those that were not sent before, in order."""

    draft: bytes
    objects: tuple[tuple[int, bytes], ...]


class DraftSender:
    """Pickles drafts. Holds what it sent, as objects are known by identity."""

    def __init__(self) -> None:
        self._numbers: dict[int, int] = {}
        self._held: list[object] = []
        self._new: list[tuple[int, bytes]] = []

    def send(self, draft: Draft) -> SentDraft:
        """Return the draft for a ``DraftReceiver`` that received all that this one sent before."""
        self._new = []
        content = self._pickled(draft)
        return SentDraft(content, tuple(self._new))

    def number(self, shared: object) -> int:
        """Return the number of a shared object; pickle it before if it is new."""
        known = self._numbers.get(id(shared))
        if known is not None:
            return known
        portable = shared.by_name if isinstance(shared, Linkable) else shared
        content = self._pickled(portable)
        self._held.append(shared)
        number = self._numbers[id(shared)] = len(self._held)
        self._new.append((number, content))
        return number

    def _pickled(self, root: object) -> bytes:
        buffer = io.BytesIO()
        _Pickler(buffer, self, root).dump(root)
        return buffer.getvalue()


class _Pickler(pickle.Pickler):
    def __init__(self, buffer: io.BytesIO, sender: DraftSender, root: object) -> None:
        super().__init__(buffer, pickle.HIGHEST_PROTOCOL)
        self._sender, self._root = sender, root

    def persistent_id(self, obj: Any) -> int | None:
        """Return the number of a shared object within another one."""
        shared = isinstance(obj, _SHARED) and obj is not self._root
        return self._sender.number(obj) if shared else None


class DraftReceiver:
    """Unpickles drafts of one sender, in the order in which they were sent."""

    def __init__(self) -> None:
        self._objects: dict[int, object] = {}

    def receive(self, sent: SentDraft) -> Draft:
        """Return the draft, whose programs are those of earlier drafts where they are equal."""
        for number, content in sent.objects:
            self._objects[number] = self._unpickled(content)
        draft = self._unpickled(sent.draft)
        assert isinstance(draft, Draft)
        return draft

    def _unpickled(self, content: bytes) -> object:
        return _Unpickler(io.BytesIO(content), self._objects).load()


class _Unpickler(pickle.Unpickler):
    def __init__(self, buffer: io.BytesIO, objects: dict[int, object]) -> None:
        super().__init__(buffer)
        self._objects = objects

    def persistent_load(self, pid: Any) -> object:
        """Return a shared object."""
        return self._objects[pid]
