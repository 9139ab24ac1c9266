"""The summary of a store, per hardware profile, that ``autotune store info`` shows."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass

from sqlalchemy import Connection, func, select

from autotune.store.schema import MODELS, RECORDS


@dataclass(frozen=True, slots=True)
class ProfileSummary:
    """Counts of one hardware profile.

    ``targets`` are the names it was measured under; ``records`` are (source, outcome, count)
    triples; ``groups`` and ``models`` are counts. ``first_at`` and ``last_at`` are seconds since
    1970, None without records.
    """

    profile_id: str
    targets: tuple[str, ...]
    records: tuple[tuple[str, str, int], ...]
    groups: int
    models: int
    first_at: float | None
    last_at: float | None

    @property
    def measurements(self) -> int:
        """Number of records of every source and outcome."""
        return sum(count for _, _, count in self.records)


@dataclass(frozen=True, slots=True)
class StoreSummary:
    """Path of a store, its size with the write-ahead log, and a summary of each profile."""

    path: str
    size_bytes: int
    schema_version: int
    profiles: tuple[ProfileSummary, ...]


def summarise(connection: Connection) -> tuple[ProfileSummary, ...]:
    """Return a summary per hardware profile with a record or model, ordered by profile id."""
    counts: dict[str, Counter[tuple[str, str]]] = defaultdict(Counter)
    targets: dict[str, set[str]] = defaultdict(set)
    r = RECORDS.c
    by = (r.profile_id, r.target, r.source, r.outcome)
    for profile, target, source, outcome, n in connection.execute(
        select(*by, func.count()).group_by(*by)
    ):
        counts[profile][source, outcome] += n
        targets[profile].add(target)
    spans = {
        profile: (groups, first, last)
        for profile, groups, first, last in connection.execute(
            select(
                r.profile_id,
                func.count(r.group_key.distinct()),
                func.min(r.created_at),
                func.max(r.created_at),
            ).group_by(r.profile_id)
        )
    }
    models = _model_counts(connection)
    summaries = []
    for profile in sorted({*targets, *models}):
        groups, first_at, last_at = spans.get(profile, (0, None, None))
        records = tuple((*key, n) for key, n in sorted(counts[profile].items()))
        names = tuple(sorted(targets[profile]))
        summaries.append(
            ProfileSummary(profile, names, records, groups, models[profile], first_at, last_at)
        )
    return tuple(summaries)


def _model_counts(connection: Connection) -> Counter[str]:
    profile = MODELS.c.profile_id
    rows = connection.execute(select(profile, func.count()).group_by(profile))
    return Counter(dict(tuple(row) for row in rows))
