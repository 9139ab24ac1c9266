"""What happened while a session was opened or learned: the record that reports and the command line show."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class EventKind(StrEnum):
    """What a session tells of, in this order.

    A group that could not be built when the session opened. A shape that was compiled in the background, one that could
    not be, and one whose programs gave way. A variant for a class of inputs. A dimension that may be padded, and one that may not. The cost model of
    another machine that learning begins with. The steps of learning from runs, as they can follow each other. A device
    that failed, in a session of several.
    """

    SPLIT = "split"
    COMPILED = "compiled"
    UNCOMPILED = "uncompiled"
    FREED = "freed"
    SPECIALISED = "specialised"
    PADDED = "padded"
    UNPADDED = "unpadded"
    BORROWED = "borrowed"
    DRIFT = "drift"
    RETRAINED = "retrained"
    KEPT = "kept"
    PROPOSED = "proposed"
    MEASURED = "measured"
    SWAPPED = "swapped"
    REFUSED = "refused"
    DROPPED = "dropped"
    FAILED = "failed"
    RESTARTED = "restarted"
    LOST = "lost"


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that happened. ``run`` counts the runs that were finished by then, ``text`` is one
    line for people, ``figures`` the same numbers for programs (units are in their names)."""

    kind: EventKind
    run: int
    at_seconds: float
    text: str
    figures: Mapping[str, float]

    def __post_init__(self) -> None:
        assert self.text, "an event says what happened"
        assert self.run >= 0, self.run
