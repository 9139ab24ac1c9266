"""Measurements: a candidate with its cost, or with the reason why it has none."""

from __future__ import annotations

from dataclasses import dataclass

from autotune.schedule.candidate import Candidate
from autotune.targets.protocol import Execution


@dataclass(frozen=True, slots=True)
class Measured:
    """A candidate and its cost."""

    candidate: Candidate
    execution: Execution


@dataclass(frozen=True, slots=True)
class Failed:
    """A candidate without a cost, and the reason in one line."""

    candidate: Candidate
    reason: str

    def __post_init__(self) -> None:
        assert self.reason, "a failure needs a reason"


Measurement = Measured | Failed
