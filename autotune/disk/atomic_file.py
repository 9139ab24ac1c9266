"""Writes a file whole or not at all: a part file with a random name takes the place of the one before.

Every file that this program writes goes through here, except the store, which SQLite keeps.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from autotune.errors import InputError

_HEAD_BYTES = 256
"""Enough of a file to tell its kind."""
_LONGEST_SUFFIX = 16
_DEFAULT_MODE = 0o666
"""Less the umask, as for any file that a program makes."""
PRIVATE_MODE = 0o600


@dataclass(frozen=True, slots=True)
class FileKind:
    """A file format, as far as its first bytes tell: ``beginnings`` in lower case, without white space."""

    name: str
    beginnings: tuple[bytes, ...]

    def __post_init__(self) -> None:
        assert all(x and x == _plain(x) for x in self.beginnings), self.beginnings

    def matches(self, head: bytes) -> bool:
        """Return True if a file that begins with ``head`` is empty or of this kind."""
        plain = _plain(head)
        return not plain or plain.startswith(self.beginnings)


def check_place(path: Path, kind: FileKind | None = None) -> None:
    """Check that ``path`` can be written, before long work.

    Raises ``InputError`` for a missing folder, a folder, a block device, a socket, another user's link
    and, with ``kind``, a file of another kind.
    """
    _destination(path, kind)


@contextmanager
def replacing(
    path: Path, kind: FileKind | None = None, *, mode: int | None = None, synced: bool = True
) -> Iterator[BinaryIO]:
    """Open a part file beside ``path`` for writing; rename it over ``path`` when the block ends, remove it
    when the block fails.

    A link is followed to its end. A pipe or character device is written to directly. ``mode`` is that
    of a new file; None keeps the mode of the file before. ``synced`` puts the content on the disk
    before its name. Raises ``InputError`` as ``check_place`` does, ``OSError`` naming ``path``.
    """
    end = _destination(path, kind)
    try:
        if end.exists() and not end.is_file():
            with _opened_stream(end) as stream:
                yield stream
            return
        with _part_file(end, mode, synced) as part:
            yield part
    except OSError as error:
        raise OSError(error.errno, error.strerror or str(error), str(path)) from None


def replace_file(
    path: Path,
    content: str | bytes,
    kind: FileKind | None = None,
    *,
    mode: int | None = None,
    synced: bool = True,
) -> None:
    """Write a whole file by ``replacing``; text as UTF-8."""
    with replacing(path, kind, mode=mode, synced=synced) as file:
        file.write(content.encode() if isinstance(content, str) else content)


def _destination(path: Path, kind: FileKind | None) -> Path:
    """Follow links from ``path`` and check what is there."""
    end = path
    try:
        end = _followed(path)
        status = end.stat()
    except FileNotFoundError:
        if not end.parent.is_dir():
            raise InputError(f"{path}: there is no folder {end.parent}; make it first") from None
        return end
    except (OSError, RuntimeError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise InputError(f"{path}: cannot be written: {reason}; choose another file") from None
    if stat.S_ISDIR(status.st_mode):
        raise InputError(f"{path}: is a folder; give the name of a file in it")
    if stat.S_ISBLK(status.st_mode) or stat.S_ISSOCK(status.st_mode):
        raise InputError(f"{path}: is a block device or socket; choose a file")
    if kind is not None and stat.S_ISREG(status.st_mode) and not kind.matches(_head(end)):
        raise InputError(
            f"{path}: is not empty and holds no {kind.name}; remove it or choose another file"
        )
    return end


def _followed(path: Path) -> Path:
    """Resolve a link that this user or root made to a file. Raises ``InputError`` for another user's: in a
    shared folder it would lead the output elsewhere."""
    if not path.is_symlink():
        return path
    if path.lstat().st_uid not in (0, os.geteuid()):
        raise InputError(f"{path}: is a link of another user; choose another file")
    # only the system itself can follow /dev/stdout to a pipe
    return path if path.exists() and not path.is_file() else path.resolve()


def _head(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(_HEAD_BYTES)
    except OSError:  # may be replaced without being readable
        return b""


def _plain(head: bytes) -> bytes:
    return b"".join(head.lower().split())


def _opened_stream(path: Path) -> BinaryIO:
    """Open a pipe or character device without waiting for a reader. Raises ``OSError`` where none reads."""
    handle = os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    os.set_blocking(handle, True)
    return io.BufferedWriter(_Stream(handle, "wb"))


class _Stream(io.FileIO):
    """A pipe or device: /dev/null has positions, which tell nothing."""

    def seekable(self) -> bool:
        """Return False."""
        return False

    def tell(self) -> int:
        """Raise ``OSError``, as a pipe does."""
        raise OSError(errno.ESPIPE, os.strerror(errno.ESPIPE))


@contextmanager
def _part_file(path: Path, mode: int | None, synced: bool) -> Iterator[BinaryIO]:
    folder = path.parent
    suffix = (
        path.suffix if len(path.suffix.encode(errors="surrogateescape")) <= _LONGEST_SUFFIX else ""
    )
    part = folder / f".{os.urandom(16).hex()}{suffix}"
    handle = os.open(part, _NEW, _DEFAULT_MODE if mode is None else mode)
    try:
        with os.fdopen(handle, "wb") as file:
            if mode is None and path.exists():
                os.fchmod(handle, stat.S_IMODE(path.stat().st_mode))
            yield file
            file.flush()
            if synced:
                os.fsync(handle)
        part.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)
        raise
    if synced:
        _sync_folder(folder)


_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def _sync_folder(folder: Path) -> None:
    """Put a new name on the disk, where the file system can."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
