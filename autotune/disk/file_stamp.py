"""Stamps of files: they tell without reading whether a file is unchanged.

As in git and build tools, a stamp is the file's place, size and times. Two writes within one tick of a
file system's clock may look alike, so a file that changed just before it was read gets no stamp.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

SETTLED_SECONDS = 2.0
"""The coarsest clock of a file system in use (FAT's), and more than any tick of the others."""


@dataclass(frozen=True, slots=True)
class FileStamp:
    """Identity of a file's content: device and number of its node, size, times of content and node."""

    path: str
    device: int
    node: int
    size_bytes: int
    modified_ns: int
    changed_ns: int

    @classmethod
    def of(cls, path: Path) -> FileStamp | None:
        """Return the stamp of a file as it is; None where there is none."""
        try:
            found = path.stat()
        except OSError:
            return None
        times = found.st_mtime_ns, found.st_ctime_ns
        return cls(str(path), found.st_dev, found.st_ino, found.st_size, *times)

    @property
    def is_fresh(self) -> bool:
        """True if the file is unchanged."""
        return FileStamp.of(Path(self.path)) == self

    def settled(self, read_ns: int) -> bool:
        """Return True if the last change was well before ``read_ns``, so that a later change would show."""
        return max(self.modified_ns, self.changed_ns) < read_ns - int(SETTLED_SECONDS * 1e9)


def now_ns() -> int:
    """Return the time by the clock of file times."""
    return time.time_ns()
