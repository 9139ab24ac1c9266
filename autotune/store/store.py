"""The store: measurements, cost models and machines that outlive a process, in a file or on a server."""

from __future__ import annotations

import hashlib
import json
import math
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from sqlalchemy import (
    Connection,
    Row,
    Select,
    delete,
    func,
    select,
    union,
)

from autotune.errors import StoreError
from autotune.store.backend import BUSY_SECONDS, insert_new, key_table, replace
from autotune.store.database import Database
from autotune.store.faults import ELSEWHERE
from autotune.store.place import Server, store_place
from autotune.store.record_rows import COLUMNS, TEXT_COLUMNS, from_rows, to_rows
from autotune.store.records import CALIBRATE, RUN, SEARCH, Outcome, Record
from autotune.store.schema import MODELS, PROFILES, RECORDS, SCHEMA_VERSION, TEXTS
from autotune.store.summary import StoreSummary, summarise

MODELS_KEPT = 8
"""Newest versions of a profile's model that stay: a learning session saves one every few minutes."""

VARIABLES = 500
"""Values bound in one statement; SQLite before 3.32 takes no more than 999."""


NEWEST = (MODELS.c.created_at.desc(), MODELS.c.id.desc())
"""Order of models: one that was merged has a later number than newer ones."""

INSERTED = 10_000
"""Records that are encoded at once."""


@dataclass(frozen=True, slots=True)
class StoredModel:
    """The bytes of a cost model (their SHA-256 was checked), its held-out ``metrics``, the version
    of its features, and seconds since 1970. ``sha256`` names this version of a machine's model."""

    blob: bytes
    metrics: Mapping[str, float] = field(hash=False)
    feature_version: int
    created_at: float
    sha256: str


@dataclass(frozen=True, slots=True)
class StoredProfile:
    """A machine: its hardware profile, the name it was last used under, and its numbers as JSON."""

    profile_id: str
    name: str
    spec_json: str


class Store:
    """Measurements, cost models and machines in one SQLite file, or in a database on a server.

    Every change is atomic: a crash or Ctrl-C leaves all of it or nothing. Safe to use from several
    threads, and several processes may have the same store open. Every method raises ``StoreError``,
    one line with the place and the way out, when the store is damaged, read-only or locked, or the
    disk is full.
    """

    def __init__(self, database: Database, clock: Callable[[], float] = time.time) -> None:
        self._database = database
        self._clock = clock

    @property
    def place(self) -> Path | Server | None:
        """The file or the server's database; None in memory."""
        return self._database.source

    @classmethod
    def open(
        cls,
        path: Path | str | None = None,
        *,
        busy_seconds: float = BUSY_SECONDS,
        clock: Callable[[], float] = time.time,
        reading: bool = False,
    ) -> Store:
        """Open a store or make it: a file, or the URL of a database on a server.

        None is what ``AUTOTUNE_STORE`` names, else ``autotune.db`` in ``home()``. ``busy_seconds`` is how
        long a write waits for another process. ``reading`` opens a store that cannot be written as well,
        empty where there is no file.

        Raises ``StoreError`` for a URL of another kind, and for a server that does not answer. Raises it for a file
        that is no store, has another schema version, or cannot be read and written.
        """
        return cls(Database(store_place(path), busy_seconds, reading), clock)

    @classmethod
    def memory(cls, clock: Callable[[], float] = time.time) -> Store:
        """Make a store that lives as long as the object."""
        return cls(Database(None), clock)

    @property
    def database(self) -> Database:
        """The database with the tables of ``schema``, for what reads or writes all of them."""
        return self._database

    @property
    def path(self) -> str:
        """The file, the URL of a server without a password, or ``:memory:``."""
        return self._database.place

    @property
    def is_writable(self) -> bool:
        """True unless the store was opened for ``reading`` and its file cannot be written."""
        return self._database.is_writable

    def hold(self, name: str, on_wait: Callable[[], None]) -> AbstractContextManager[None]:
        """Hold a lock of the store by ``name`` for a block, such as a machine's hardware profile.

        Calls ``on_wait`` once if another process has it. A process that dies frees its lock. A store in
        memory, or in a folder that cannot be written, has no locks.
        """
        return self._database.hold(name, on_wait)

    def close(self) -> None:
        """Close the file; further use opens it again."""
        self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def add(self, records: Sequence[Record]) -> None:
        """Append measurements in one transaction.

        A candidate that was already calibrated on the same machine keeps its first record.
        """
        if records:
            with self._database.write() as connection:
                self.insert(connection, records)

    @staticmethod
    def insert(connection: Connection, records: Sequence[Record]) -> None:
        """Append measurements within a transaction of ``database``."""
        for start in range(0, len(records), INSERTED):
            texts, rows = to_rows(records[start : start + INSERTED])
            insert_new(connection, TEXTS, TEXT_COLUMNS, texts)
            insert_new(connection, RECORDS, COLUMNS, rows)

    def records(
        self, profile_id: str, source: str | None = None, limit: int | None = None
    ) -> list[Record]:
        """Return measurements on a machine, oldest first; with ``limit`` only the newest."""
        wanted = RECORDS.c.profile_id == profile_id
        if source is not None:
            wanted &= RECORDS.c.source == source
        query = select(RECORDS).where(wanted).order_by(RECORDS.c.id.desc()).limit(limit)
        with self._database.read() as connection:
            newest_first = connection.execute(query).all()
            texts = self._texts(connection, newest_first)
        return self._decode(newest_first[::-1], texts)

    def record_batches(self, profile_id: str, size: int) -> Iterator[list[Record]]:
        """Yield the measurements on a machine, oldest first, ``size`` at once."""
        ours, last = RECORDS.c.profile_id == profile_id, -1
        while True:
            query = select(RECORDS).where(ours, RECORDS.c.id > last).order_by(RECORDS.c.id)
            with self._database.read() as connection:
                rows = connection.execute(query.limit(size)).all()
                texts = self._texts(connection, rows)
            if not rows:
                return
            yield self._decode(rows, texts)
            last = rows[-1].id

    def _decode(self, rows: Sequence[Row[Any]], texts: Mapping[bytes, str]) -> list[Record]:
        try:
            return list(from_rows(rows, texts))
        except ValueError as error:
            raise StoreError(f"{self.path}: {error}; move it away or {ELSEWHERE}") from error

    @staticmethod
    def _texts(connection: Connection, rows: Sequence[Row[Any]]) -> dict[bytes, str]:
        """Read the texts that rows of records refer to, by hash."""
        wanted = list({d for row in rows for d in (row.group_digest, row.counters_digest)})
        texts: dict[bytes, str] = {}
        for start in range(0, len(wanted), VARIABLES):
            portion = TEXTS.c.digest.in_(wanted[start : start + VARIABLES])
            texts.update(
                (r.digest, r.text) for r in connection.execute(select(TEXTS).where(portion))
            )
        return texts

    def known(self, profile_id: str, source: str | None = None) -> set[tuple[str, str]]:
        """Return (group key, schedule JSON) of every candidate tried on a machine, failures too."""
        wanted = RECORDS.c.profile_id == profile_id
        if source is not None:
            wanted &= RECORDS.c.source == source
        query = select(RECORDS.c.group_key, RECORDS.c.schedule_json)
        with self._database.read() as connection:
            rows = connection.execute(query.where(wanted))
            return {(key, schedule) for key, schedule in rows}

    def count(self, profile_id: str, source: str | None = None) -> int:
        """Count the measurements on a machine, failures too."""
        query = select(func.count()).where(RECORDS.c.profile_id == profile_id)
        if source is not None:
            query = query.where(RECORDS.c.source == source)
        with self._database.read() as connection:
            return int(connection.execute(query).scalar_one())

    def save_profile(self, profile: StoredProfile) -> None:
        """Remember a machine, in place of what was known of its hardware profile."""
        row = {
            "profile_id": profile.profile_id,
            "name": profile.name,
            "spec_json": profile.spec_json,
            "created_at": self._clock(),
        }
        with self._database.write() as connection:
            connection.execute(replace(connection, PROFILES), row)

    def measured_profiles(self) -> list[StoredProfile]:
        """Return the machines with a measurement of a search or calibration, by hardware profile."""
        p, r = PROFILES.c, RECORDS.c
        kept = r.source.in_((CALIBRATE, SEARCH))
        measured = (r.profile_id == p.profile_id) & kept & (r.outcome == Outcome.OK)
        query = select(p.profile_id, p.name, p.spec_json).order_by(p.profile_id)
        with self._database.read() as connection:
            rows = connection.execute(query.where(select(r.id).where(measured).exists())).all()
        return [StoredProfile(*row) for row in rows]

    def best_schedules(
        self, profile_id: str, by_energy: bool = False, groups: Collection[str] | None = None
    ) -> dict[str, str]:
        """Return the cheapest measured schedule of every group on a machine: JSON by group key.

        ``by_energy`` compares energy and not cycles. Of equal ones the one that was measured first counts.
        With ``groups``, keys of groups, only theirs: a look into an index each.
        """
        with self._database.read() as connection:
            if groups is None:
                ours = RECORDS.c.profile_id == profile_id
                keys: Any = select(RECORDS.c.group_key.label("key")).where(ours).distinct()
            else:
                keys = key_table(connection, groups)
            rows = connection.execute(_best(profile_id, keys, by_energy))
            return {row.key: row.schedule for row in rows if row.schedule is not None}

    def save_model(
        self,
        profile_id: str,
        blob: bytes,
        metrics: Mapping[str, float],
        feature_version: int,
        behind: StoredModel | None = None,
    ) -> None:
        """Add a version of a machine's cost model; the newest ``MODELS_KEPT`` stay. Saved again, a model becomes the
        newest, with these metrics: its SHA-256 names one. Saved ``behind`` another, it counts as just older."""
        row = {
            "profile_id": profile_id,
            "feature_version": feature_version,
            "metrics_json": json.dumps(dict(metrics)),
            "sha256": hashlib.sha256(blob).hexdigest(),
            "blob": blob,
            "created_at": self._clock() if behind is None else math.nextafter(behind.created_at, 0),
        }
        ours = MODELS.c.profile_id == profile_id
        kept = select(MODELS.c.id).where(ours).order_by(*NEWEST).limit(MODELS_KEPT)
        with self._database.write() as connection:
            connection.execute(delete(MODELS).where(ours, MODELS.c.sha256 == row["sha256"]))
            connection.execute(MODELS.insert(), row)
            connection.execute(delete(MODELS).where(ours, MODELS.c.id.not_in(kept)))

    def load_model(
        self, profile_id: str, feature_version: int | None = None, version: str | None = None
    ) -> StoredModel | None:
        """Return the newest model of a machine, or None.

        A ``feature_version`` restricts the choice to models of those features, a ``version`` to one
        whose ``sha256`` begins with it. Raises ``StoreError`` for a damaged model.
        """
        query = select(MODELS).where(MODELS.c.profile_id == profile_id)
        if feature_version is not None:
            query = query.where(MODELS.c.feature_version == feature_version)
        if version is not None:
            query = query.where(MODELS.c.sha256.startswith(version, autoescape=True))
        with self._database.read() as connection:
            row = connection.execute(query.order_by(*NEWEST).limit(1)).one_or_none()
        return None if row is None else self._stored(row)

    def models(self, profile_id: str) -> list[StoredModel]:
        """Return the kept models of a machine, the newest first. Raises ``StoreError`` for a damaged one."""
        query = select(MODELS).where(MODELS.c.profile_id == profile_id).order_by(*NEWEST)
        with self._database.read() as connection:
            rows = connection.execute(query).all()
        return [self._stored(row) for row in rows]

    def _stored(self, row: Row[Any]) -> StoredModel:
        """Return a model from its row. Raises ``StoreError`` if its bytes or metrics are damaged."""
        try:
            if hashlib.sha256(row.blob).hexdigest() != row.sha256:
                raise ValueError("its SHA-256 does not fit")
            metrics = json.loads(row.metrics_json)
            if not isinstance(metrics, dict):
                raise ValueError("its metrics are no object")
        except (TypeError, ValueError) as error:
            raise StoreError(
                f"{self.path}: the cost model of hardware profile {row.profile_id} is damaged "
                f"({error}); train it again with 'autotune calibrate'"
            ) from None
        return StoredModel(row.blob, metrics, row.feature_version, row.created_at, row.sha256)

    def prune_runs(self, profile_id: str, keep: int) -> int:
        """Drop all but the newest ``keep`` measurements of runs; return the number dropped.

        Measurements of calibration and search stay: they are the training set.
        """
        ours = (RECORDS.c.profile_id == profile_id) & (RECORDS.c.source == RUN)
        kept = select(RECORDS.c.id).where(ours).order_by(RECORDS.c.id.desc()).limit(keep)
        with self._database.write() as connection:
            gone = connection.execute(delete(RECORDS).where(ours, RECORDS.c.id.not_in(kept)))
            connection.execute(_UNUSED)
            return gone.rowcount

    def vacuum(self) -> int:
        """Remove texts that nothing refers to, and give free space back; return the bytes saved."""
        before = self._database.size_bytes()
        with self._database.write() as connection:
            connection.execute(_UNUSED)
        self._database.vacuum()
        return before - self._database.size_bytes()

    def info(self) -> StoreSummary:
        """Summarise the store, per hardware profile."""
        with self._database.read() as connection:
            profiles = summarise(connection)
        return StoreSummary(self.path, self._database.size_bytes(), SCHEMA_VERSION, profiles)


_UNUSED = delete(TEXTS).where(
    TEXTS.c.digest.not_in(union(select(RECORDS.c.group_digest), select(RECORDS.c.counters_digest)))
)
"""Removes texts that no measurement refers to."""


def _best(profile_id: str, keys: Any, by_energy: bool) -> Select[tuple[str, str | None]]:
    """Return the query of (group key, cheapest schedule or None) for a query of ``keys``."""
    r, wanted = RECORDS.c, keys.subquery()
    ours = (r.profile_id == profile_id) & (r.group_key == wanted.c.key) & (r.outcome == Outcome.OK)
    cost = r.energy_fj if by_energy else r.cycles
    cheapest = select(r.schedule_json).where(ours).order_by(cost, r.created_at, r.schedule_json)
    return select(
        wanted.c.key, cheapest.limit(1).correlate(wanted).scalar_subquery().label("schedule")
    )
