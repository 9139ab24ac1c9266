"""Object code on disk between processes: what one has compiled, the next ones load."""

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
"""Some 100 000 micro-kernels."""

_MAGIC = b"autotune object 1\n"
_CHECK_BYTES = 32
_SUFFIX = ".object"
_STALE_SECONDS = 86_400.0
"""An entry not used for as long is marked as used when it is."""


class ObjectCache:
    """A folder of object code. Safe to use from several threads and processes: entries appear
    whole; a damaged one is as good as none, and so is one that another user could have written. Never
    raises for what the disk does: a cache that cannot be read or written only costs time."""

    def __init__(self, folder: Path, limit_bytes: int = LIMIT_BYTES) -> None:
        """``limit_bytes`` is what all entries take; beyond it, those longest unused are removed."""
        self._folder, self._limit_bytes = folder, limit_bytes
        self._bytes: int | None = None
        self._trusted: bool | None = None
        self._lock = threading.Lock()

    def load(self, key: str) -> bytes | None:
        """The object code stored under a key, None when there is none or it is damaged."""
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
        code = entry[head:]
        return code if len(entry) > head and entry[:head] == _head(key, code) else None

    def store(self, key: str, code: bytes) -> None:
        """Store object code, in place of what was there."""
        entry = _head(key, code) + code
        try:
            make_private(self._folder)
            if self._is_trusted():
                # the checksum finds what a power failure leaves: no entry waits for the disk
                replace_file(self._path(key), entry, mode=PRIVATE_MODE, synced=False)
                self._bound(len(entry))
        except (OSError, InputError) as error:
            warn_unwritable_home(error)

    def _is_trusted(self) -> bool:
        """Check the folder once per object, as soon as there is one. Raises ``OSError`` before."""
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


def _head(key: str, code: bytes) -> bytes:
    """First bytes of an entry: a checksum over key, length and code."""
    text = f"{key}\n{len(code)}\n".encode(errors="surrogateescape")
    return _MAGIC + hashlib.sha256(text + code).digest()
