"""Measurements: a candidate with its cost, or with the reason why it has none."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from autotune.schedule.candidate import Candidate
from autotune.targets.protocol import Execution


class FailureKind(StrEnum):
    """Why a candidate has no cost. A member's ``opening`` begins its reasons: the store keeps no more
    of a failure than its reason."""

    REFUSED = "refused"
    """Not legal, or the verifier, the target or memory refuses its program."""
    OVERDUE = "over its time limit"
    DIED = "ended its process"
    DEFECT = "met a defect"
    """An error of autotune, or of a target that is not autotune's own: no candidate's fault."""

    @property
    def opening(self) -> str:
        """First words of such a reason; empty for those of the candidate itself."""
        return _OPENINGS[self]

    @classmethod
    def of(cls, reason: str) -> FailureKind:
        """Return the kind of a failure by its reason."""
        return next(
            (kind for kind in cls if kind.opening and reason.startswith(kind.opening)), cls.REFUSED
        )


_OPENINGS = {
    FailureKind.REFUSED: "",
    FailureKind.OVERDUE: "took longer than ",
    FailureKind.DIED: "the process that ran it died: ",
    FailureKind.DEFECT: "defect in ",
}


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

    @property
    def kind(self) -> FailureKind:
        """Why it has no cost."""
        return FailureKind.of(self.reason)


def overdue(limit_seconds: float) -> str:
    """Return the reason of a candidate that took longer than its limit."""
    return f"{FailureKind.OVERDUE.opening}{limit_seconds:.3g} s"


Measurement = Measured | Failed
