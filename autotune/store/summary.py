"""Counts what a store holds, per hardware profile; the queries behind ``Store.info``."""

from __future__ import annotations

from collections import Counter, defaultdict

from sqlalchemy import Connection, Table, func, select

from autotune.store.info import ProfileInfo
from autotune.store.schema import MODELS, PROFILES, PROGRAMS, RECORDS


def summarise(connection: Connection) -> tuple[ProfileInfo, ...]:
    """A row per hardware profile that anything is stored of, ordered by profile id."""
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
    for profile, name in connection.execute(select(PROFILES.c.profile_id, PROFILES.c.name)):
        targets[profile].add(name)
    models, programs = _counts(connection, MODELS), _counts(connection, PROGRAMS)
    return tuple(
        ProfileInfo(
            profile,
            tuple(sorted(targets[profile])),
            tuple((*key, n) for key, n in sorted(counts[profile].items())),
            spans.get(profile, (0, None, None))[0],
            models[profile],
            programs[profile],
            *spans.get(profile, (0, None, None))[1:],
        )
        for profile in sorted({*targets, *models, *programs})
    )


def _counts(connection: Connection, table: Table) -> Counter[str]:
    profile = table.c.profile_id
    rows = connection.execute(select(profile, func.count()).group_by(profile))
    return Counter(dict(tuple(row) for row in rows))
