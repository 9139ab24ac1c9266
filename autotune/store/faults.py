"""Faults: turns what databases and the disk report into one line that says where and how to go on."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy.exc import DBAPIError

from autotune.disk.private_folder import make_private
from autotune.errors import StoreError
from autotune.store.server_faults import server_reason

ELSEWHERE = "set AUTOTUNE_HOME to another folder"
FULL_BELOW_BYTES = 1 << 20
"""Less free space than this explains an I/O error: SQLite reports a full disk as one when it
cannot grow its shared-memory file."""


@contextmanager
def explained(place: str) -> Iterator[None]:
    """Raise ``StoreError`` naming ``place``, a file or a server without its password, for a database error inside."""
    try:
        yield
    except (DBAPIError, sqlite3.Error) as error:
        cause = error.orig if isinstance(error, DBAPIError) else error
        if isinstance(cause, sqlite3.Error):
            raise StoreError(f"{place}: {_reason(cause, place)}") from error
        if isinstance(cause, Exception):
            raise StoreError(f"{place}: {server_reason(cause)}") from None
        raise
    except UnicodeDecodeError as error:  # SQLite quotes the damaged bytes in its message
        raise StoreError(f"{place}: {_unsound(error.reason)}") from error


def _reason(error: sqlite3.Error, place: str) -> str:
    name = getattr(error, "sqlite_errorname", "") or ""
    undecodable = not name and "UTF-8" in str(error)  # raised by the driver, which has no code
    if name.startswith(("SQLITE_NOTADB", "SQLITE_CORRUPT")) or undecodable:
        return _unsound(" ".join(str(error).split()))
    if name.startswith("SQLITE_FULL") or (name.startswith("SQLITE_IOERR") and _is_full(place)):
        return f"the disk is full; nothing of this change was stored: free space or {ELSEWHERE}"
    if name.startswith("SQLITE_READONLY"):
        return f"the store is read-only ({error}); make it writable or {ELSEWHERE}"
    if name.startswith(("SQLITE_CANTOPEN", "SQLITE_PERM", "SQLITE_AUTH")):
        return f"cannot be opened ({error}); check its folder's permissions or {ELSEWHERE}"
    if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
        return f"another program holds the store ({error}); end it or try again"
    if name.startswith("SQLITE_IOERR"):
        return f"the disk failed ({error}); check it or {ELSEWHERE}"
    return f"unexpected database error ({error}); move the file away or {ELSEWHERE}"


def _unsound(detail: str) -> str:
    return f"not a sound SQLite database ({detail}); move it away or {ELSEWHERE}"


def _is_full(place: str) -> bool:
    folder = Path(place).parent
    return folder.exists() and shutil.disk_usage(folder).free < FULL_BELOW_BYTES


class UnwritableError(StoreError):
    """A store whose file or folder cannot be written."""


def prepare_folder(path: Path) -> None:
    """Make the folder of a store and check that both can be written, before anything is measured.

    Raises ``UnwritableError`` when they cannot, ``StoreError`` for a path that is no regular file.
    """
    try:
        make_private(path.parent)
        if path.is_dir():
            raise StoreError(f"{path}: is a folder, not a store; move it away or {ELSEWHERE}")
        if path.exists() and not path.is_file():
            raise StoreError(f"{path}: is not a regular file; move it away or {ELSEWHERE}")
        _check_writable(path)
    except OSError as error:
        raise UnwritableError(
            f"{path}: cannot make the store's folder ({error.strerror}); {ELSEWHERE}"
        ) from None


def _check_writable(path: Path) -> None:
    """Test by permission bits: opening would create files, and the kernel decides again anyway."""
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise UnwritableError(
            f"{path}: the folder {path.parent} is read-only; make it writable or {ELSEWHERE}"
        )
    if path.exists() and not os.access(path, os.R_OK | os.W_OK):
        raise UnwritableError(f"{path}: the store is read-only; make it writable or {ELSEWHERE}")
