"""Rests of tuning: after trials without a gain it waits, ever longer; after changes of the machine without one it tries less.

Times of a busy machine change for ever, and each trial costs.
"""

from __future__ import annotations

from dataclasses import dataclass

REST = 4
"""Trials in a row without a gain, after which tuning rests; after the rest, one is tried if times have changed."""
REST_RUNS, REST_SECONDS = 2048, 8.0
"""Requests of the first rest, and the least time that they take; twice as many after each further trial without a gain."""
MOST_RESTS = 8
VAIN_CHANGES = 2
"""Changes of the machine in a row that may bring no gain; further ones bring one trial each at most, not ``REST``."""


@dataclass(slots=True)
class Rests:
    """Counts trials without a gain in a row, and says when to rest. ``least_seconds`` of the first rest are 0 on machines whose
    runs are counted."""

    least_seconds: float = REST_SECONDS
    fruitless: int = 0
    rests: int = 0
    until: int = 0
    vain_changes: int = 0
    """Changes of the machine in a row for which something was tried, and nothing gained."""
    tried: int | None = None
    """Trials without a gain since the machine has changed; None where it has not, or something was gained since."""
    has_rested: bool = False
    """True once tuning has rested since a gain or a change of the machine: what comes then are second looks, which have time."""

    @property
    def is_due(self) -> bool:
        """True after so many trials without a gain."""
        return self.fruitless >= REST

    @property
    def is_last_try(self) -> bool:
        """True if one more trial without a gain ends in a rest."""
        return self.fruitless == REST - 1

    def forget(self) -> None:
        """Begin anew: something was gained."""
        self.fruitless = self.rests = self.until = self.vain_changes = 0
        self.tried, self.has_rested = None, False

    def reopen(self) -> None:
        """Begin anew as the machine has changed; once ``VAIN_CHANGES`` in a row brought no gain, with one trial and no shorter rests."""
        self.until = 0
        self.vain_changes += bool(self.tried)
        self.tried = 0
        if self.vain_changes >= VAIN_CHANGES:
            self.try_once()
        else:
            self.fruitless = self.rests = 0
            self.has_rested = False

    def count(self, run: int, run_seconds: float) -> None:
        """Count a trial without a gain, after so many runs of such a time."""
        self.fruitless += 1
        if self.tried is not None:
            self.tried += 1
        if self.is_due:
            self.has_rested = True
            least = max(REST_RUNS, round(self.least_seconds / max(1e-9, run_seconds)))
            self.until = run + (least << min(self.rests, MOST_RESTS))
            self.rests += 1

    def stop(self) -> None:
        """Rest without a length: until there is a reason to try again."""
        self.fruitless, self.has_rested = REST, True

    def try_once(self) -> None:
        """Allow one more trial; where more are left, those."""
        self.fruitless = min(self.fruitless, REST - 1)
