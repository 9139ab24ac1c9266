"""One making of a program: when it was, how long it took, and where the program came from."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class ProgramSource(StrEnum):
    """Where a program came from."""

    LOWERED = "lowered"
    """It was made."""
    MEMORY = "memory"
    """This process had made it."""
    DISK = "disk"
    """The cache of tables had it."""


@dataclass(frozen=True, slots=True)
class Compilation:
    """A program that a table got. ``at_seconds`` is the time of day; ``seconds`` is what getting it
    took, for a program from disk its share of the table."""

    at_seconds: float
    seconds: float
    source: ProgramSource

    def document(self) -> dict[str, Any]:
        """Return the compilation as JSON has it."""
        return {"at": self.at_seconds, "seconds": self.seconds, "source": self.source.value}
