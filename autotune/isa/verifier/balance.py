"""Semaphore balance of one core's stream: no deadlock, no lost signal."""

from __future__ import annotations

from autotune.errors import ProgramError
from autotune.isa.fields import SEMAPHORES
from autotune.isa.opcodes import Unit

COUNT_LIMIT = 255
"""Largest count that a semaphore holds."""


class Balance:
    """Counts of one core's semaphores along program order; each loop body is taken as a unit.

    A body changes no count (checked at its end), so one pass over it stands for every trip. Hence
    program order is a schedule that completes. One queue alone takes from a semaphore, so no queue
    can take a signal meant for another. Hence every other schedule completes too. All methods raise
    ``ProgramError`` with the reason alone.
    """

    __slots__ = ("counts", "credits", "entries", "takers")

    def __init__(self, credits: tuple[int, ...]) -> None:
        for semaphore, count in enumerate(credits):
            if not 0 <= count <= COUNT_LIMIT:
                raise ProgramError(
                    f"semaphore {semaphore} starts with {count}; counts go from 0 to {COUNT_LIMIT}"
                )
        if credits and credits[0]:
            raise ProgramError("semaphore 0 means none and cannot start with a count")
        self.credits = [*credits, *[0] * (SEMAPHORES - len(credits))]
        self.counts = self.credits.copy()
        self.takers: list[int | None] = [None] * SEMAPHORES
        self.entries: list[list[int]] = []

    def wait(self, semaphore: int, unit: int) -> None:
        """Take one from ``semaphore`` for the queue ``unit``."""
        if self.takers[semaphore] != unit:
            self._claim(semaphore, unit)
        if not self.counts[semaphore]:
            raise ProgramError(
                f"waits for semaphore {semaphore}, which nothing before it has signalled: deadlock"
            )
        self.counts[semaphore] -= 1

    def _claim(self, semaphore: int, unit: int) -> None:
        taker = self.takers[semaphore]
        if taker is not None:
            raise ProgramError(
                f"the {Unit(unit).name} queue waits for semaphore {semaphore}, which the "
                f"{Unit(taker).name} queue takes as well; give each queue its own"
            )
        self.takers[semaphore] = unit

    def signal(self, semaphore: int) -> None:
        """Add one to ``semaphore``."""
        self.counts[semaphore] += 1
        if self.counts[semaphore] > COUNT_LIMIT:
            raise ProgramError(f"semaphore {semaphore} goes above {COUNT_LIMIT}")

    def enter(self) -> None:
        """Begin a loop body."""
        self.entries.append(self.counts.copy())

    def leave(self) -> None:
        """End the innermost open body."""
        before = self.entries.pop()
        if before != self.counts:
            semaphore = _first_difference(before, self.counts)
            change = self.counts[semaphore] - before[semaphore]
            raise ProgramError(
                f"the body changes semaphore {semaphore} by {change:+} per trip; it must be 0"
            )

    def finish(self) -> None:
        """End the stream."""
        if self.counts != self.credits:
            semaphore = _first_difference(self.credits, self.counts)
            raise ProgramError(
                f"semaphore {semaphore} ends with {self.counts[semaphore]}, not with the "
                f"{self.credits[semaphore]} it began with: a signal is lost"
            )


def _first_difference(a: list[int], b: list[int]) -> int:
    return next(i for i, (x, y) in enumerate(zip(a, b, strict=True)) if x != y)
