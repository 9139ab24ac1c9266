"""Marks of files: what tells without reading a file whether it still is what was once read of it.

As git and build tools do: by the file's place, size and times. Two writes within one tick of a file
system's clock may look alike, so a file that changed just before it was read gets no mark.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

SETTLED_SECONDS = 2.0
"""The coarsest clock of a file system in use (FAT's), and more than any tick of the others."""


@dataclass(frozen=True, slots=True)
class FileStamp:
    """A file as it was found: device and number of its node, size, times of content and node."""

    path: str
    device: int
    node: int
    size_bytes: int
    modified_ns: int
    changed_ns: int

    @classmethod
    def of(cls, path: Path) -> FileStamp | None:
        """Of a file as it is; None where there is none."""
        try:
            found = path.stat()
        except OSError:
            return None
        times = found.st_mtime_ns, found.st_ctime_ns
        return cls(str(path), found.st_dev, found.st_ino, found.st_size, *times)

    @property
    def is_fresh(self) -> bool:
        """Whether the file is what it was."""
        return FileStamp.of(Path(self.path)) == self

    def settled(self, read_ns: int) -> bool:
        """Whether the file had not just changed when reading it began, by ``time.time_ns``: a later
        change then shows."""
        return max(self.modified_ns, self.changed_ns) < read_ns - int(SETTLED_SECONDS * 1e9)


def now_ns() -> int:
    """The clock that files' times are of."""
    return time.time_ns()
