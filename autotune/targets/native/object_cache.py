"""Object code on disk between processes: what one has compiled, the next ones load."""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
import threading
import time
from pathlib import Path

from autotune.eviction import bounded

LIMIT_BYTES = 256 << 20
"""Some 100 000 micro-kernels."""

_MAGIC = b"autotune object 1\n"
_CHECK_BYTES = 32
_SUFFIX = ".object"
_STALE_SECONDS = 86_400.0
"""An entry not used for as long is marked as used when it is."""


class ObjectCache:
    """A folder of object code. Safe to use from several threads and processes: entries appear
    whole, and a damaged one is as good as none. Never raises for what the disk does: a cache that
    cannot be read or written only costs time."""

    def __init__(self, folder: Path, limit_bytes: int = LIMIT_BYTES) -> None:
        """``limit_bytes`` is what all entries take; beyond it, those longest unused are removed."""
        self._folder, self._limit_bytes = folder, limit_bytes
        self._bytes: int | None = None
        self._lock = threading.Lock()

    def load(self, key: str) -> bytes | None:
        """The object code stored under a key, None when there is none or it is damaged."""
        path = self._path(key)
        try:
            with path.open("rb") as file:
                last_used = os.fstat(file.fileno()).st_mtime
                entry = file.read()
            if time.time() - last_used > _STALE_SECONDS:
                os.utime(path)
        except OSError:
            return None
        head = len(_MAGIC) + _CHECK_BYTES
        code = entry[head:]
        return code if len(entry) > head and entry[:head] == _head(key, code) else None

    def store(self, key: str, code: bytes) -> None:
        """Store object code, in place of what was there."""
        entry = _head(key, code) + code
        with contextlib.suppress(OSError):
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            handle, temporary = tempfile.mkstemp(_SUFFIX, ".", self._folder)
            try:
                with os.fdopen(handle, "wb") as file:
                    file.write(entry)
                Path(temporary).replace(self._path(key))
            except BaseException:
                Path(temporary).unlink(missing_ok=True)
                raise
            self._bound(len(entry))

    def _path(self, key: str) -> Path:
        return self._folder / f"{hashlib.sha256(key.encode()).hexdigest()}{_SUFFIX}"

    def _bound(self, added_bytes: int) -> None:
        with self._lock:
            # Other processes add too; each bounds what it has seen, so the sum stays close.
            if self._bytes is None or self._bytes + added_bytes > self._limit_bytes:
                self._bytes = bounded(self._folder, _SUFFIX, self._limit_bytes)
            else:
                self._bytes += added_bytes


def _head(key: str, code: bytes) -> bytes:
    """First bytes of an entry: a checksum over key, length and code."""
    text = f"{key}\n{len(code)}\n".encode()
    return _MAGIC + hashlib.sha256(text + code).digest()
