"""A cache on disk: byte strings by key in a private folder of bounded size.

Every cache that outlives a process is one, under its own folder: object code, networks, schedules and
program tables. Keys hold everything that decides an entry, versions of sources included.
"""

from __future__ import annotations

import hashlib
import os
import threading
import time
from pathlib import Path

from autotune.disk.atomic_file import PRIVATE_MODE, replace_file
from autotune.disk.eviction import bounded
from autotune.disk.private_folder import is_own, is_trusted, make_private
from autotune.disk.regular_file import open_regular
from autotune.disk.unwritable_home import warn_unwritable_home
from autotune.errors import InputError

LIMIT_BYTES = 256 << 20
"""Default size of one cache: some 100 000 micro-kernels."""

_MAGIC = b"autotune object 1\n"
_CHECK_BYTES = 32
_SUFFIX = ".object"
_STALE_SECONDS = 86_400.0
"""An entry not used for as long is marked as used when it is."""


class DiskCache:
    """A folder of entries by key. Safe to use from several threads and processes.

    Entries appear whole. A damaged entry counts as missing, and so does one that another user could
    have written. Never raises for what the disk does: a cache that cannot be read or written only
    costs time.
    """

    def __init__(self, folder: Path, limit_bytes: int = LIMIT_BYTES) -> None:
        """``limit_bytes`` bounds the size of all entries; the least recently used are removed."""
        self._folder, self._limit_bytes = folder, limit_bytes
        self._bytes: int | None = None
        self._trusted: bool | None = None
        self._lock = threading.Lock()

    def load(self, key: str) -> bytes | None:
        """Return the bytes stored under a key; None when there are none or they are damaged."""
        path = self._path(key)
        try:
            if not self._is_trusted():
                return None
            with open_regular(path) as file:
                status = os.fstat(file.fileno())
                if not is_own(status):
                    return None
                entry = file.read()
            if time.time() - status.st_mtime > _STALE_SECONDS:
                os.utime(path)
        except OSError:
            return None
        head = len(_MAGIC) + _CHECK_BYTES
        content = entry[head:]
        return content if len(entry) > head and entry[:head] == _head(key, content) else None

    def store(self, key: str, content: bytes) -> None:
        """Store bytes under a key, in place of the entry that was there."""
        entry = _head(key, content) + content
        try:
            make_private(self._folder)
            if self._is_trusted():
                # the checksum finds what a power failure leaves: no entry waits for the disk
                replace_file(self._path(key), entry, mode=PRIVATE_MODE, synced=False)
                self._bound(len(entry))
        except (OSError, InputError) as error:
            warn_unwritable_home(error)

    def _is_trusted(self) -> bool:
        """Return True if only this user can write to the folder; checked once it exists.

        Raises ``OSError`` while there is no folder.
        """
        if self._trusted is None:
            self._trusted = is_trusted(self._folder)
        return self._trusted

    def _path(self, key: str) -> Path:
        return (
            self._folder
            / f"{hashlib.sha256(key.encode(errors='surrogateescape')).hexdigest()}{_SUFFIX}"
        )

    def _bound(self, added_bytes: int) -> None:
        with self._lock:
            # Other processes add too; each bounds what it has seen, so the sum stays close.
            if self._bytes is None or self._bytes + added_bytes > self._limit_bytes:
                self._bytes = bounded(self._folder, _SUFFIX, self._limit_bytes)
            else:
                self._bytes += added_bytes


def _head(key: str, content: bytes) -> bytes:
    """Return the first bytes of an entry: a checksum over key, length and content."""
    text = f"{key}\n{len(content)}\n".encode(errors="surrogateescape")
    return _MAGIC + hashlib.sha256(text + content).digest()
