"""Writing a file in one step, so that a full disk or Ctrl-C leaves the one before and no half of it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A file beside ``path`` to write to, renamed over it when the block ends, removed when it fails.

    What is no regular file, as a pipe or /dev/null, is written to directly. Raises ``OSError``
    naming ``path``.
    """
    if path.exists() and not path.is_file():
        with path.open("wb") as device:
            yield device
        return
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with temporary.open("wb") as file:
            yield file
        temporary.replace(path)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from None
    finally:
        temporary.unlink(missing_ok=True)


def replace_file(path: Path, content: str | bytes) -> None:
    """Write a whole file by ``replacing``; text as UTF-8."""
    with replacing(path) as file:
        file.write(content.encode() if isinstance(content, str) else content)
