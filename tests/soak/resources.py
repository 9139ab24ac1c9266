"""What the process holds while it is soaked: memory, threads, files, children, objects; and what has grown."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

GROWTH_BOUNDS = {"rss_bytes": 64 * 2**20, "threads": 8, "files": 16, "children": 2}
"""How much the last quarter of a soak may lie above the second. The first is warm-up: networks are
compiled, backlogs and events fill up to their bounds."""


@dataclass(frozen=True, slots=True)
class Sample:
    """The process at one moment. ``events`` are those that all open sessions keep."""

    seconds: float
    rss_bytes: int
    threads: int
    files: int
    children: int
    events: int


def sample(seconds: float, events: int) -> Sample:
    """Look at this process."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return Sample(
        seconds,
        pages * os.sysconf("SC_PAGESIZE"),
        threading.active_count(),
        sum(1 for _ in Path("/proc/self/fd").iterdir()),
        len(children()),
        events,
    )


def children(of: str = "") -> list[int]:
    """Return the processes that this one started, those alone whose command has ``of`` in it."""
    found = []
    for place in Path("/proc").iterdir():
        if not place.name.isdigit():
            continue
        with suppress(OSError, ValueError):
            fields = (place / "stat").read_text().rsplit(")", 1)[1].split()
            if int(fields[1]) == os.getpid() and of in (place / "cmdline").read_text():
                found.append(int(place.name))
    return found


def send(pid: int, number: signal.Signals) -> None:
    """Send a signal to a child that may have ended."""
    with suppress(ProcessLookupError):
        os.kill(pid, number)


@dataclass(slots=True)
class Watch:
    """The samples of a soak, and its judgement on them."""

    samples: list[Sample] = field(default_factory=list)

    def values(self, name: str) -> list[float]:
        """Return one figure of all samples, oldest first."""
        return [float(getattr(one, name)) for one in self.samples]

    def growth(self, name: str) -> float:
        """Return the growth from the second quarter of the time to the last, by medians."""
        return grown(self.values(name))

    def most(self, name: str) -> int:
        """Return the greatest value."""
        return int(max(self.values(name), default=0))

    def complaints(self) -> list[str]:
        """Say what grew beyond its bound."""
        return [
            f"{name} grew by {self.growth(name):g} from the second quarter to the last, the bound is {bound:g}"
            for name, bound in GROWTH_BOUNDS.items()
            if self.growth(name) > bound
        ]


def grown(values: Sequence[float]) -> float:
    """Return the median of the last quarter less that of the second one; 0 for fewer than 8 values."""
    if len(values) < 8:
        return 0.0
    quarter = len(values) // 4
    return median(values[-quarter:]) - median(values[quarter : 2 * quarter])
