"""Eviction: what is kept on disk between processes stays within a limit, and those longest unused go."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

ABANDONED_SECONDS = 86_400.0
"""A temporary file (its name begins with a dot) as old as this was left by a process that died."""

_Entry = tuple[float, int, Path]
"""When it was last used, its bytes, where it is."""


def bounded(folder: Path, suffix: str, limit_bytes: int) -> int:
    """Where a folder's files with a suffix take more than ``limit_bytes``, remove those longest
    unused, down to three quarters of it; the bytes of those that stay.

    Other processes may store and remove files meanwhile: what cannot be looked at or removed is
    passed over, and temporary files are theirs.
    """
    entries = sorted(_entries(folder, suffix))
    kept = sum(size for _, size, _ in entries)
    if kept <= limit_bytes:
        return kept
    for _, size, path in entries:
        if kept <= limit_bytes * 3 // 4:
            break
        with suppress(OSError):
            path.unlink(missing_ok=True)
            kept -= size
    return kept


def _entries(folder: Path, suffix: str) -> Iterator[_Entry]:
    abandoned = time.time() - ABANDONED_SECONDS
    for path in folder.glob(f"*{suffix}"):
        with suppress(OSError):  # another process removed it
            status = path.stat()
            if not path.name.startswith(".") or status.st_mtime < abandoned:
                yield status.st_mtime, status.st_size, path
