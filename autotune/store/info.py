"""What a store holds, in numbers: the summary that ``autotune store`` shows."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ProfileInfo:
    """Counts of one hardware profile. ``records`` are (source, outcome, count) triples;
    ``targets`` the names that it was measured under; times are seconds since 1970, None when
    there are no records."""

    profile_id: str
    targets: tuple[str, ...]
    records: tuple[tuple[str, str, int], ...]
    groups: int
    models: int
    programs: int
    first_at: float | None
    last_at: float | None

    @property
    def measurements(self) -> int:
        """Records of every source and outcome."""
        return sum(count for _, _, count in self.records)


@dataclass(frozen=True, slots=True)
class StoreInfo:
    """Where the store is, how large with its write-ahead log, and what it holds per profile."""

    path: str
    size_bytes: int
    schema_version: int
    profiles: tuple[ProfileInfo, ...]
