"""Bounds and first writes of one core's scratchpad accesses."""

from __future__ import annotations

from dataclasses import dataclass

from autotune.errors import ProgramError
from autotune.isa.access import Access
from autotune.isa.fields import NO_LEVEL
from autotune.isa.formats import ELEMENT_BYTES
from autotune.isa.program import Values
from autotune.isa.verifier.interval_set import IntervalSet


class LateReadError(ProgramError):
    """A read at instruction ``at`` that nothing had supplied when its outermost loop ended."""

    def __init__(self, at: int, reason: str) -> None:
        super().__init__(reason)
        self.at = at


@dataclass(frozen=True, slots=True)
class _LateRead:
    """A read that only a later write in its outermost loop can supply."""

    at: int
    operand: str
    element: int
    other_slot: int


@dataclass(frozen=True, slots=True)
class _Before:
    """State at the begin of a CASE: written elements and number of late reads."""

    written: IntervalSet
    late_reads: int


class Scratchpad:
    """Record of one core's accesses in program order.

    ``limit`` is the number of elements that accesses must stay below. All methods raise
    ``ProgramError`` with the reason alone.
    """

    __slots__ = ("before", "last_index", "late_reads", "limit", "loops", "written")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.last_index = [0] * (NO_LEVEL + 1)
        self.written = IntervalSet()
        self.late_reads: list[_LateRead] = []
        self.loops = 0
        self.before: list[_Before] = []

    def enter(self, level: int, trips: int) -> None:
        """Begin a loop of ``trips`` trips at ``level``."""
        self.last_index[level] = trips - 1
        self.loops += 1

    def leave(self) -> None:
        """End the innermost loop. At the end of the outermost all its writes are known."""
        self.loops -= 1
        if not self.loops:
            self._settle()

    def enter_case(self, level: int) -> None:
        """Begin a CASE at ``level``."""
        self.last_index[level] = 0
        self.before.append(_Before(self.written, len(self.late_reads)))
        self.written = self.written.copy()

    def leave_case(self) -> None:
        """End a CASE.

        Its writes supply its own reads, in later trips of the loops around it. For all others they
        may never have run.
        """
        before = self.before.pop()
        own = self.late_reads[before.late_reads :]
        self.late_reads[before.late_reads :] = [r for r in own if not self._supplied(r)]
        self.written = before.written

    def access(self, access: Access, values: Values, at: int) -> None:
        """Check one operand of instruction ``at``: in bounds over all trips, and written before if
        read."""
        if access.present is not None and not access.present(values):
            return
        base, step0, level0, step1, level1, slot, turn = access.address(values)
        low = base
        high = end = base + access.span(values)
        reach0, reach1 = step0 * self.last_index[level0], step1 * self.last_index[level1]
        if level0 == level1:
            reach0, reach1 = reach0 + reach1, 0
        if reach0 or reach1:
            low += min(reach0, 0) + min(reach1, 0)
            high += max(reach0, 0) + max(reach1, 0)
        if turn == NO_LEVEL:
            slot = 0
        if access.form is not None and (size := access.element_bytes(values)) != ELEMENT_BYTES:
            places = (base, end, low, high, high + slot)  # of narrow elements, several to a word
            base, end, low, high, far = [place * size // ELEMENT_BYTES for place in places]
            slot = far - high
        if low < 0 or high + slot >= self.limit:
            raise ProgramError(
                f"{access.operand} reaches elements {low} to {high + slot}; the program declares "
                f"{self.limit} scratchpad elements"
            )
        if not access.written or (access.keeps is not None and access.keeps(values)):
            self._read(at, access.operand, (base, end), (low, high), slot)
        if access.written:
            self.written.add(low, high + slot)

    def _read(
        self, at: int, operand: str, first: tuple[int, int], hull: tuple[int, int], slot: int
    ) -> None:
        """Check a read. ``first`` holds its outermost elements in the first trip, ``hull`` over all
        trips.

        Each of them may lie ``slot`` further on.
        """
        if not self.written.holds_both(*first) and not (
            slot and self.written.holds_both(first[0] + slot, first[1] + slot)
        ):
            raise ProgramError(
                f"{operand} reads elements {first[0]} to {first[1]}, which nothing before it wrote"
            )
        if hull == first:
            return
        written = self.written
        for element in hull:
            if element not in written and element + slot not in written:
                self.late_reads.append(_LateRead(at, operand, element, element + slot))

    def _supplied(self, read: _LateRead) -> bool:
        return read.element in self.written or read.other_slot in self.written

    def _settle(self) -> None:
        for read in self.late_reads:
            if not self._supplied(read):
                raise LateReadError(
                    read.at,
                    f"{read.operand} reads element {read.element}, which nothing before it or in "
                    "its outermost loop writes",
                )
        self.late_reads.clear()
