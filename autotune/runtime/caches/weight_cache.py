"""Cache of weights: one file of numbers for each network, which sessions map and never copy.

A file comes to its name whole, after its content is on the disk, and is never written again. Its
checksum is taken whenever it is loaded: 5 ms for the 100 MB of ResNet-50.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import mmap
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from autotune.disk.atomic_file import PRIVATE_MODE, replacing
from autotune.disk.eviction import bounded
from autotune.disk.private_folder import is_own, make_private
from autotune.disk.regular_file import open_regular
from autotune.errors import InputError
from autotune.operators.tensor import Array

LIMIT_BYTES = 1 << 30
"""Size of all networks' weights together; one network may take half of it."""
_ALIGNMENT_BYTES = 64
_SUFFIX = ".weights"
_PAGE_BYTES = 4096
_USED_SECONDS = 3600.0
"""Age from which a used file is marked as used again."""


class WeightCache:
    """A folder of weights. Safe to use from several threads and processes.

    Never raises for what the disk does: weights that cannot be stored only cost time.
    """

    def __init__(self, folder: Path, limit_bytes: int = LIMIT_BYTES) -> None:
        """``limit_bytes`` bounds the size of all files; the least recently used are removed."""
        self._folder, self._limit_bytes = folder, limit_bytes

    def store(self, key: str, constants: Mapping[str, Array]) -> dict[str, Any] | None:
        """Store the constants of a network in place of those under its ``key``.

        Returns the row that ``load`` takes; None where they cannot be stored.
        """
        rows, size = _laid_out(constants)
        if size > self._limit_bytes // 2 or any(x.dtype != np.float32 for x in constants.values()):
            return None
        stem = hashlib.sha256(key.encode(errors="surrogateescape")).hexdigest()[:32]
        with contextlib.suppress(OSError, InputError):
            make_private(self._folder)
            name = f"{stem}-{os.urandom(4).hex()}{_SUFFIX}"
            found = self._written(self._folder / name, rows, constants, size)
            self._forget(stem, name)
            bounded(self._folder, _SUFFIX, self._limit_bytes)
            return {"file": name, "size_bytes": size, "checksum": found, "rows": rows}
        return None

    def load(self, plain: Mapping[str, Any]) -> dict[str, Array] | None:
        """Return constants by name, mapped from the file; None if it is gone, damaged or foreign."""
        try:
            content = self._mapped(self._folder / plain["file"], plain["size_bytes"])
        except OSError:
            return None
        if content is None or checksum(content) != plain["checksum"]:
            return None
        return {row[0]: _array(content, *row[1:]) for row in plain["rows"]}

    def _written(
        self, path: Path, rows: list[_Row], constants: Mapping[str, Array], size: int
    ) -> str:
        """Write the arrays' numbers; return their checksum."""
        with replacing(path, mode=PRIVATE_MODE) as file:
            for name, offset, _, order in rows:
                file.seek(offset)
                file.write(np.ascontiguousarray(constants[name].transpose(order)).data)
            file.truncate(size)
        content = self._mapped(path, size)
        if content is None:
            raise OSError(errno.EIO, "is not what was written", str(path))
        return checksum(content)

    def _mapped(self, path: Path, size: int) -> mmap.mmap | bytes | None:
        """Map a file of this user of ``size`` bytes; None for any other. Raises ``OSError``."""
        with open_regular(path) as file:
            status = os.fstat(file.fileno())
            if status.st_size != size or not is_own(status):
                return None
            if time.time() - status.st_mtime > _USED_SECONDS:
                os.utime(path)
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if size else b""

    def _forget(self, stem: str, name: str) -> None:
        """Remove earlier files of a key; processes that mapped them keep their memory."""
        for path in self._folder.glob(f"{stem}-*{_SUFFIX}"):
            if path.name != name:
                path.unlink(missing_ok=True)


def checksum(content: mmap.mmap | bytes) -> str:
    """Hash the sums of a file's pages, each over its 64-bit words, and the bytes after the last page.

    A sum runs as fast as memory, 6 times as fast as CRC-32; pages are what disks and file systems
    damage, exchange and zero. Only the order of words within one page goes unseen.
    """
    pages, words = len(content) // _PAGE_BYTES, _PAGE_BYTES // 8
    table = np.frombuffer(content, np.uint64, pages * words).reshape(pages, words)
    digest = hashlib.sha256(table.sum(axis=1).tobytes())
    digest.update(content[pages * _PAGE_BYTES :])
    return digest.hexdigest()


_Row = tuple[str, int, tuple[int, ...], tuple[int, ...]]
"""Name, first byte, and extents and order of the axes as they lie in memory, outermost first."""


def _laid_out(constants: Mapping[str, Array]) -> tuple[list[_Row], int]:
    """Return a row for each array, axes in memory order, and the size of all in bytes."""
    rows: list[_Row] = []
    end = 0
    for name, value in constants.items():
        order = tuple(sorted(range(value.ndim), key=lambda axis: -value.strides[axis]))
        rows.append((name, end, tuple(value.shape[axis] for axis in order), order))
        end += -(-value.nbytes // _ALIGNMENT_BYTES) * _ALIGNMENT_BYTES
    return rows, end


def _array(content: mmap.mmap | bytes, offset: int, extents: list[int], order: list[int]) -> Array:
    count = int(np.prod(extents, dtype=np.int64))
    dense = np.frombuffer(content, np.float32, count, offset).reshape(extents)
    return dense.transpose(np.argsort(order)) if order else dense
