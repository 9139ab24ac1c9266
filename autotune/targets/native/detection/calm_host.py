"""What the reference reads on a host when that is calm: learned while programs are timed, and kept.

A virtual machine's cores share a core of the host, or lie on two of its chips, for seconds at a time. A process that begins
in such a spell knows from the file how fast the machine may be.
"""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

from autotune.disk.atomic_file import PRIVATE_MODE, replace_file
from autotune.disk.home import home
from autotune.disk.private_folder import make_private
from autotune.disk.regular_file import regular_text
from autotune.errors import InputError
from autotune.targets.native.detection.detect import identity

PLAUSIBLE_NANOSECONDS = (1.0, 1e7)
"""A file that says anything else is not believed."""

KEPT_WITHIN = 0.1
"""What is kept is that exact: nearer values are not written anew."""


class CalmHost:
    """The kept nanoseconds of readings on ``threads`` cores, by name."""

    def __init__(self, threads: int) -> None:
        self._path = home() / "hosts" / f"{identity(threads)}.calm.json"
        self._kept = _read(self._path)

    def nanoseconds(self, name: str) -> float:
        """Return what is kept of a reading; 0.0 for nothing."""
        return self._kept.get(name, 0.0)

    def learn(self, name: str, nanoseconds: float, is_sure: bool) -> None:
        """Keep a reading's nanoseconds if they are fewer than those before, or ``is_sure``."""
        before = self.nanoseconds(name)
        if before and abs(nanoseconds - before) <= KEPT_WITHIN * before:
            return
        if before and nanoseconds > before and not is_sure:
            return
        self._kept = _read(self._path) | {name: round(nanoseconds, 1)}
        with contextlib.suppress(OSError, InputError):  # the next process learns it again
            make_private(self._path.parent)
            replace_file(self._path, json.dumps(self._kept) + "\n", mode=PRIVATE_MODE)


def _read(path: Path) -> dict[str, float]:
    """What the file says, as far as it is plausible."""
    try:
        found = json.loads(regular_text(path))
        values = {str(name): float(value) for name, value in found.items()}
    except (OSError, ValueError, AttributeError, TypeError):
        return {}
    low, high = PLAUSIBLE_NANOSECONDS
    return {name: value for name, value in values.items() if low <= value <= high}
