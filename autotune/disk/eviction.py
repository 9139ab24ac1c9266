"""Eviction: caches on disk stay within a size limit, the least recently used files go."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

ABANDONED_SECONDS = 86_400.0
"""A temporary file (its name begins with a dot) as old as this was left by a process that died."""

_Entry = tuple[float, int, str]
"""When it was last used, its bytes, where it is."""


def bounded(folder: Path, suffix: str, limit_bytes: int) -> int:
    """Bound the size of a folder's files with a suffix; return the bytes that remain.

    Beyond ``limit_bytes``, the least recently used files go until three quarters of it remain. Other
    processes may store and remove files meanwhile: files that cannot be read or removed are skipped,
    and temporary files are theirs.
    """
    entries = list(_entries(folder, suffix))
    kept = sum(size for _, size, _ in entries)
    if kept <= limit_bytes:
        return kept
    for _, size, path in sorted(entries):
        if kept <= limit_bytes * 3 // 4:
            break
        with suppress(OSError):
            Path(path).unlink(missing_ok=True)
            kept -= size
    return kept


@dataclass(frozen=True, slots=True)
class Pruned:
    """Files that a prune removed, and those that stay."""

    removed_files: int
    removed_bytes: int
    kept_files: int
    kept_bytes: int


def prune(folders: Iterable[Path], keep_bytes: int, unused_seconds: float | None) -> Pruned:
    """Remove the least recently used files of ``folders`` until less than ``keep_bytes`` remain.

    Also removes files unused for ``unused_seconds``. Files that cannot be removed stay.
    """
    entries = sorted((entry for folder in folders for entry in _entries(folder, "")), reverse=True)
    oldest = 0.0 if unused_seconds is None else time.time() - unused_seconds
    removed_files = removed_bytes = kept_files = kept_bytes = 0
    for used, size, path in entries:
        if (kept_bytes + size < keep_bytes and used >= oldest) or not _removed(path):
            kept_files, kept_bytes = kept_files + 1, kept_bytes + size
        else:
            removed_files, removed_bytes = removed_files + 1, removed_bytes + size
    return Pruned(removed_files, removed_bytes, kept_files, kept_bytes)


def _removed(path: str) -> bool:
    try:
        Path(path).unlink(missing_ok=True)
    except OSError:
        return False
    return True


def folder_bytes(folder: Path) -> int:
    """Return the bytes of all files in a folder and the folders below it."""
    found = 0
    for path in folder.rglob("*"):
        with suppress(OSError):  # another process removed it
            found += path.lstat().st_size if path.is_file() else 0
    return found


def _entries(folder: Path, ending: str) -> Iterator[_Entry]:
    """Yield the regular files; a cache has tens of thousands, so no ``Path`` is made for a look."""
    abandoned = time.time() - ABANDONED_SECONDS
    with suppress(OSError), os.scandir(folder) as files:  # no folder yet: nothing is in it
        for file in files:
            if not file.name.endswith(ending):
                continue
            with suppress(OSError):  # another process removed it
                status = file.stat()
                if not stat.S_ISREG(status.st_mode):
                    continue
                if not file.name.startswith(".") or status.st_mtime < abandoned:
                    yield status.st_mtime, status.st_size, file.path
