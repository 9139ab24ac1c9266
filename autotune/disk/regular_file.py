"""Opens regular files only: a pipe or device in the place of a file is refused, never waited for."""

from __future__ import annotations

import errno
import os
import stat
from io import BufferedReader
from pathlib import Path


def open_regular(path: Path) -> BufferedReader:
    """Open a regular file for reading. Raises ``OSError`` naming ``path`` for anything else."""
    _check(path.stat(), path)  # opening a device may already do something
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    try:
        _check(os.fstat(handle), path)
    except OSError:
        os.close(handle)
        raise
    return os.fdopen(handle, "rb")


def regular_text(path: Path, encoding: str = "utf-8") -> str:
    """Read the text of a regular file. Raises ``OSError`` as ``open_regular`` does, and
    ``UnicodeDecodeError``."""
    with open_regular(path) as file:
        return file.read().decode(encoding)


def _check(status: os.stat_result, path: Path) -> None:
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "is a device or pipe; give a file", str(path))
