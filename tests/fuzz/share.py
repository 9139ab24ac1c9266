"""What a worker process is asked to do and what it leaves behind; its parent reads it."""

from __future__ import annotations

import json
import mmap
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

NOTE_BYTES = 16


@dataclass(frozen=True, slots=True)
class Share:
    """Cases ``first``, ``first + step``, … below ``end`` of a seed, of one kind or in turn."""

    seed: int
    first: int
    end: int
    step: int = 1
    kind: str | None = None


@dataclass(slots=True)
class Tally:
    """Counts of outcomes by kind, and of the rules that refused."""

    outcomes: Counter[str] = field(default_factory=Counter)
    rules: Counter[str] = field(default_factory=Counter)
    failures: list[int] = field(default_factory=list)

    def add(self, other: Tally) -> None:
        """Counts of another share."""
        self.outcomes += other.outcomes
        self.rules += other.rules
        self.failures += other.failures


class Note:
    """Which case is being tried, in a file that outlives the process."""

    def __init__(self, path: Path) -> None:
        if not path.exists():
            path.write_bytes(bytes(NOTE_BYTES))
        with path.open("r+b") as file:
            self.memory = mmap.mmap(file.fileno(), NOTE_BYTES)

    def write(self, number: int) -> None:
        """Begin with a case; 0 is case −1: none yet."""
        self.memory[:8] = (number + 1).to_bytes(8, "little")

    def read(self) -> int:
        """The case begun last, -1 before the first."""
        return int.from_bytes(self.memory[:8], "little") - 1


def leave_tally(tally: Tally, report: Path) -> None:
    """Write it down as JSON."""
    fields = {"outcomes": tally.outcomes, "rules": tally.rules, "failures": tally.failures}
    report.write_text(json.dumps(fields))


def read_tally(report: Path) -> Tally:
    """What ``leave_tally`` wrote; nothing where it did not."""
    if not report.exists():
        return Tally()
    fields = json.loads(report.read_text())
    return Tally(Counter(fields["outcomes"]), Counter(fields["rules"]), fields["failures"])
