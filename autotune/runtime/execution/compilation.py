"""One making of a program: when it was, how long it took, and where the program came from."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, NamedTuple


class ProgramSource(StrEnum):
    """Where a program came from."""

    LOWERED = "lowered"
    """It was made."""
    MEMORY = "memory"
    """This process had made it."""
    DISK = "disk"
    """A cache on disk had it."""


class Compilation(NamedTuple):
    """A program that a table got. ``at_seconds`` is the time of day; ``seconds`` is what getting it
    took, for a program of a kept table its share of the table. A tuple, as every hit makes one."""

    at_seconds: float
    seconds: float
    source: ProgramSource

    def document(self) -> dict[str, Any]:
        """Return the compilation as JSON has it."""
        return {"at": self.at_seconds, "seconds": self.seconds, "source": self.source.value}
