"""Contents of a store that travel: machines, cost models and measurements, in pieces that fit in memory."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from sqlalchemy import func, select

from autotune.store.records import Record
from autotune.store.schema import MODELS, PROFILES, RECORDS
from autotune.store.store import Store

BATCH = 10_000
"""Records that are read at once."""


@dataclass(frozen=True, slots=True)
class ProfileRow:
    """A machine as the store keeps it."""

    profile_id: str
    name: str
    spec_json: str
    created_at: float


@dataclass(frozen=True, slots=True)
class ModelRow:
    """A version of a machine's cost model as the store keeps it."""

    profile_id: str
    feature_version: int
    metrics_json: str
    sha256: str
    created_at: float
    blob: bytes = field(repr=False)


class Contents(Protocol):
    """What can be merged into a store: another store, or a folder of Parquet files."""

    name: str

    def profile_ids(self) -> Sequence[str]:
        """Return the hardware profiles of all measurements, models and machines, in order."""

    def profile(self, profile_id: str) -> ProfileRow | None:
        """Return the machine of a hardware profile; None where its numbers are not known."""

    def models(self, profile_id: str) -> Sequence[ModelRow]:
        """Return the cost models of a machine."""

    def records(self, profile_id: str) -> Iterator[Sequence[Record]]:
        """Yield the measurements on a machine, in the order they came, in batches."""


class StoreContents:
    """The contents of an open store."""

    def __init__(self, store: Store) -> None:
        self.name = store.path
        self._store = store

    def profile_ids(self) -> Sequence[str]:
        """Return the hardware profiles of all measurements, models and machines, in order."""
        tables = (RECORDS, MODELS, PROFILES)
        with self._store.database.read() as connection:
            queries = (select(table.c.profile_id).distinct() for table in tables)
            return sorted({one for query in queries for one in connection.execute(query).scalars()})

    def profile(self, profile_id: str) -> ProfileRow | None:
        """Return the machine of a hardware profile; None where its numbers are not known."""
        rows = self._rows(ProfileRow, PROFILES, profile_id)
        return rows[0] if rows else None

    def models(self, profile_id: str) -> Sequence[ModelRow]:
        """Return the cost models of a machine."""
        return self._rows(ModelRow, MODELS, profile_id)

    def _rows(self, kind: Any, table: Any, profile_id: str) -> list[Any]:
        columns = [table.c[name] for name in kind.__dataclass_fields__]
        query = select(*columns).where(table.c.profile_id == profile_id)
        with self._store.database.read() as connection:
            return [kind(*row) for row in connection.execute(query)]

    def records(self, profile_id: str) -> Iterator[Sequence[Record]]:
        """Yield the measurements on a machine, in the order they came, in batches."""
        return self._store.record_batches(profile_id, BATCH)


@dataclass(frozen=True, slots=True)
class Machine:
    """A machine with one toolchain: the names it was measured under, and counts.

    ``last_at`` is in seconds since 1970, None without measurements; ``models`` are those of the hardware
    profile, whatever the toolchain.
    """

    names: tuple[str, ...]
    profile_id: str
    toolchain: str
    measurements: int
    groups: int
    models: int
    last_at: float | None


MOST_LETTERS = 32
"""Letters of a machine's name in tables; its profile tells machines of equal beginnings apart."""


def label(names: Iterable[str]) -> str:
    """Return a machine's names for a table, each cut to ``MOST_LETTERS``: at a word, a path before its end."""
    return ", ".join(dict.fromkeys(_cut(name) for name in sorted(names)))


def _cut(name: str) -> str:
    if len(name) <= MOST_LETTERS:
        return name
    if " " not in name:
        return f"…{name[1 - MOST_LETTERS :]}"
    return f"{name[: MOST_LETTERS - 1].rsplit(' ', 1)[0]} …"


def machines_of(store: Store) -> tuple[Machine, ...]:
    """Return the machines of a store by hardware profile and toolchain."""
    r, contents = RECORDS.c, StoreContents(store)
    keys = (r.profile_id, r.toolchain)
    counts = (func.count(), func.count(r.group_key.distinct()), func.max(r.created_at))
    with store.database.read() as connection:
        rows = connection.execute(select(*keys, *counts).group_by(*keys).order_by(*keys)).all()
        m = MODELS.c.profile_id
        counted = connection.execute(select(m, func.count()).group_by(m))
        models: dict[str, int] = {row[0]: row[1] for row in counted}
        names: dict[str, set[str]] = defaultdict(set)
        for profile_id, name in connection.execute(select(r.profile_id, r.target).distinct()):
            names[profile_id].add(name)
    figures = {(row[0], row[1]): tuple(row[2:]) for row in rows}
    for profile_id in contents.profile_ids():
        machine = contents.profile(profile_id)
        names[profile_id] |= set() if machine is None else {machine.name}
        if all(key[0] != profile_id for key in figures):
            figures[profile_id, ""] = (0, 0, None)
    return tuple(
        Machine(tuple(sorted(names[one])), one, tools, n, groups, models.get(one, 0), last)
        for (one, tools), (n, groups, last) in sorted(figures.items())
    )


def canonical(record: Record) -> tuple[Any, ...]:
    """Return the content of a record: equal for equal records, and in an order among others."""
    values = (
        record.created_at,
        record.cycles,
        record.energy_fj,
        record.dram_bytes,
        record.outcome.value,
        record.reason,
        record.group_key,
        record.group_json,
        record.schedule_json,
        record.profile_id,
        record.target,
        record.network,
        record.source,
        record.toolchain,
    )
    return (*values, *_sorted(record.counters))


def _sorted(counters: Mapping[str, int]) -> list[tuple[str, int]]:
    return sorted(counters.items())
