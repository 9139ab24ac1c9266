"""Records: one measurement as the store keeps it; made by search and runs, read by training."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

SOURCES = ("calibrate", "search", "run")
OUTCOMES = ("ok", "failed")
NOISY_TRUST = 0.05
"""What a time counts in training whose repeats did not agree. On a loaded machine a fifth of them did
not; trusted like the others they took the error on those from 25.6 % to 29.3 %."""
LIMIT = 1 << 63
"""SQLite integers, and so every count here, stay below this."""


@dataclass(frozen=True, slots=True)
class Record:
    """What one candidate cost on one machine, or why it could not be measured.

    ``group_json`` and ``schedule_json`` are what was run, lossless; ``network`` is where the group
    came from (held-out splits go by it); ``source`` is one of ``SOURCES``, ``outcome`` of
    ``OUTCOMES``; a failed one has its ``reason`` and costs nothing. ``created_at`` is in seconds
    since 1970. ``counters`` are those of the target, by name.
    """

    group_key: str
    group_json: str
    schedule_json: str
    profile_id: str
    target: str
    network: str
    source: str
    outcome: str
    reason: str
    cycles: int
    energy_fj: int
    dram_bytes: int
    counters: Mapping[str, int] = field(default_factory=dict, hash=False)
    created_at: float = 0.0

    @property
    def trust(self) -> float:
        """What it counts in training."""
        return NOISY_TRUST if self.counters.get("noisy", 0) else 1.0

    def __post_init__(self) -> None:
        assert self.source in SOURCES, f"source {self.source!r} is not one of {SOURCES}"
        assert self.outcome in OUTCOMES, f"outcome {self.outcome!r} is not one of {OUTCOMES}"
        assert (self.outcome == "failed") == bool(self.reason), "a reason if and only if it failed"
        for name in ("cycles", "energy_fj", "dram_bytes"):
            value = getattr(self, name)
            assert 0 <= value < LIMIT, f"{name} = {value} is not in 0..2^63"
