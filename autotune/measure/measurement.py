"""Measurements: the outcome of running one candidate once; made here, recorded by search and runs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

from autotune.schedule.candidate import Candidate
from autotune.targets.protocol import Execution


@dataclass(frozen=True, slots=True)
class Measured:
    """A candidate and what it cost."""

    candidate: Candidate
    execution: Execution


@dataclass(frozen=True, slots=True)
class Failed:
    """A candidate that could not be measured, and why, in one line."""

    candidate: Candidate
    reason: str

    def __post_init__(self) -> None:
        assert self.reason, "a failure needs a reason"


Measurement = Measured | Failed


class Measurer(Protocol):
    """Where candidates are measured: this machine, recorded measurements, other machines."""

    def measure(self, candidates: Iterable[Candidate]) -> Iterator[Measurement]:
        """One measurement per candidate, in order, as they come. No candidate raises; closing
        the iterator early stops the work that is under way."""
        ...
