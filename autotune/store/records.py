"""Records: one measurement as the store holds it; made by search and runs, read by training."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

CALIBRATE, SEARCH, RUN = SOURCES = ("calibrate", "search", "run")
"""What measures: calibrations, searches, and runs of sessions. The values are stored."""
NOISY_TRUST = 0.05
"""Weight in training of a time whose repeats disagreed. On a loaded machine a fifth of them did;
at full weight they raised the error on such times from 25.6 % to 29.3 %."""
HALF_TRUST_ERROR = 0.05
"""Relative standard error of a time that weighs half in training: about the error of a good model,
whose variance adds to it."""
LIMIT = 1 << 63
"""Upper bound of every count here: SQLite integers stay below it."""


class Outcome(StrEnum):
    """What became of a candidate; the values are stored."""

    OK = "ok"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Record:
    """Cost of one candidate on one machine, or the reason why it has none.

    ``group_json`` and ``schedule_json`` are lossless texts of the candidate. ``network`` is the
    origin of the group, by which held-out splits go. ``source`` is one of ``SOURCES``. A failed
    record has a ``reason`` and no cost. ``counters`` are those of the target, by name;
    ``created_at`` is in seconds since 1970, ``toolchain`` names the programs that made the code, empty
    where unknown. Raises ``ValueError`` for a value out of its range.
    """

    group_key: str
    group_json: str
    schedule_json: str
    profile_id: str
    target: str
    network: str
    source: str
    outcome: Outcome
    reason: str
    cycles: int
    energy_fj: int
    dram_bytes: int
    counters: Mapping[str, int] = field(default_factory=dict, hash=False)
    created_at: float = 0.0
    toolchain: str = ""

    @property
    def trust(self) -> float:
        """Weight in training: falls with the standard error where the target tells one (``error_ppm``),
        else small for a time whose repeats disagreed."""
        error_ppm = self.counters.get("error_ppm")
        if error_ppm is not None:
            return 1.0 / (1.0 + (error_ppm / 1e6 / HALF_TRUST_ERROR) ** 2)
        return NOISY_TRUST if self.counters.get("noisy", 0) else 1.0

    def __post_init__(self) -> None:
        if self.source not in SOURCES:
            raise ValueError(f"source {self.source!r} is not one of {SOURCES}")
        if (self.outcome is Outcome.FAILED) != bool(self.reason):
            raise ValueError(f"outcome {self.outcome!r} has the reason {self.reason!r}")
        for name in ("cycles", "energy_fj", "dram_bytes"):
            value = getattr(self, name)
            if not 0 <= value < LIMIT:
                raise ValueError(f"{name} = {value} is not in 0..2^63")
