"""The store: keeps measurements, models, hardware profiles and programs between runs, in SQLite."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from sqlalchemy import Connection, Row, delete, func, select, union
from sqlalchemy.dialects.sqlite import insert

from autotune.disk.home import store_file
from autotune.errors import StoreError
from autotune.store.database import BUSY_SECONDS, Database
from autotune.store.faults import ELSEWHERE
from autotune.store.info import StoreInfo
from autotune.store.models import StoredModel
from autotune.store.profiles import StoredProfile
from autotune.store.record_rows import from_rows, to_rows
from autotune.store.records import Record
from autotune.store.schema import MODELS, PROFILES, PROGRAMS, RECORDS, SCHEMA_VERSION, TEXTS
from autotune.store.summary import summarise

MODELS_KEPT = 8
"""Versions of a profile's model that stay: a session that learns saves one every few minutes."""

VARIABLES = 500
"""Values bound in one statement; SQLite before 3.32 takes no more than 999."""


class Store:
    """Measurements, models, profiles and programs in one SQLite file.

    Every change is atomic: a crash or Ctrl-C leaves all of it or nothing. Safe to use from several
    threads, and several processes may have the same file open. Every method raises ``StoreError``,
    one line with the file and the way out, when the file is damaged, read-only or locked, or the
    disk is full.
    """

    def __init__(self, database: Database, clock: Callable[[], float] = time.time) -> None:
        self._database = database
        self._clock = clock

    @classmethod
    def open(
        cls,
        path: Path | str | None = None,
        *,
        busy_seconds: float = BUSY_SECONDS,
        clock: Callable[[], float] = time.time,
        reading: bool = False,
    ) -> Store:
        """Open a store's file or make it; None is ``autotune.db`` in ``home()``.

        ``busy_seconds`` is how long a write waits for another process. ``reading`` opens a store that
        cannot be written as well, empty where there is no file. Raises ``StoreError`` for a
        file that is no store, has another schema version, or cannot be read and written.
        """
        return cls(Database(store_file(path), busy_seconds, reading), clock)

    @classmethod
    def memory(cls, clock: Callable[[], float] = time.time) -> Store:
        """A store that lives as long as the object."""
        return cls(Database(None), clock)

    @property
    def path(self) -> str:
        """The file, or ``:memory:``."""
        return self._database.place

    @property
    def is_writable(self) -> bool:
        """Whether the store can be changed; a store opened for ``reading`` may not."""
        return self._database.is_writable

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
        if not records:
            return
        texts, rows = to_rows(records)
        with self._database.write() as connection:
            connection.execute(insert(TEXTS).on_conflict_do_nothing(), texts)
            connection.execute(insert(RECORDS).on_conflict_do_nothing(), rows)

    def records(
        self, profile_id: str, source: str | None = None, limit: int | None = None
    ) -> list[Record]:
        """Measurements on a machine, oldest first; with ``limit`` the newest that many."""
        wanted = RECORDS.c.profile_id == profile_id
        if source is not None:
            wanted &= RECORDS.c.source == source
        query = select(RECORDS).where(wanted).order_by(RECORDS.c.id.desc()).limit(limit)
        with self._database.read() as connection:
            newest_first = connection.execute(query).all()
            texts = self._texts(connection, newest_first)
        try:
            return list(from_rows(newest_first[::-1], texts))
        except ValueError as error:
            raise StoreError(f"{self.path}: {error}; move it away or {ELSEWHERE}") from error

    @staticmethod
    def _texts(connection: Connection, rows: Sequence[Row[Any]]) -> dict[bytes, str]:
        """The texts that rows of records refer to, by hash, asked for in portions."""
        wanted = list({d for row in rows for d in (row.group_digest, row.counters_digest)})
        texts: dict[bytes, str] = {}
        for start in range(0, len(wanted), VARIABLES):
            portion = TEXTS.c.digest.in_(wanted[start : start + VARIABLES])
            texts.update(
                (r.digest, r.text) for r in connection.execute(select(TEXTS).where(portion))
            )
        return texts

    def known(self, profile_id: str) -> set[tuple[str, str]]:
        """(group key, schedule JSON) of everything that was tried on a machine, failures too."""
        query = select(RECORDS.c.group_key, RECORDS.c.schedule_json)
        with self._database.read() as connection:
            rows = connection.execute(query.where(RECORDS.c.profile_id == profile_id))
            return {(key, schedule) for key, schedule in rows}

    def count(self, profile_id: str, source: str | None = None) -> int:
        """Number of measurements on a machine, failures too."""
        query = select(func.count()).where(RECORDS.c.profile_id == profile_id)
        if source is not None:
            query = query.where(RECORDS.c.source == source)
        with self._database.read() as connection:
            return int(connection.execute(query).scalar_one())

    def save_model(
        self, profile_id: str, blob: bytes, metrics: Mapping[str, float], feature_version: int
    ) -> None:
        """Add a version of a machine's cost model; the newest ``MODELS_KEPT`` stay."""
        row = {
            "profile_id": profile_id,
            "feature_version": feature_version,
            "metrics_json": json.dumps(dict(metrics)),
            "sha256": hashlib.sha256(blob).hexdigest(),
            "blob": blob,
            "created_at": self._clock(),
        }
        ours = MODELS.c.profile_id == profile_id
        kept = select(MODELS.c.id).where(ours).order_by(MODELS.c.id.desc()).limit(MODELS_KEPT)
        with self._database.write() as connection:
            connection.execute(MODELS.insert(), row)
            connection.execute(delete(MODELS).where(ours, MODELS.c.id.not_in(kept)))

    def load_model(self, profile_id: str, feature_version: int | None = None) -> StoredModel | None:
        """The newest model of a machine, of those trained on these features where a version is
        given; None when there is none.

        Raises ``StoreError`` when its bytes are not those that were saved.
        """
        query = select(MODELS).where(MODELS.c.profile_id == profile_id)
        if feature_version is not None:
            query = query.where(MODELS.c.feature_version == feature_version)
        with self._database.read() as connection:
            row = connection.execute(query.order_by(MODELS.c.id.desc()).limit(1)).one_or_none()
        if row is None:
            return None
        try:
            if hashlib.sha256(row.blob).hexdigest() != row.sha256:
                raise ValueError("its SHA-256 does not fit")
            metrics = json.loads(row.metrics_json)
        except (TypeError, ValueError) as error:
            raise StoreError(
                f"{self.path}: the cost model of hardware profile {profile_id} is damaged "
                f"({error}); train it again with 'autotune calibrate'"
            ) from None
        return StoredModel(row.blob, metrics, row.feature_version, row.created_at)

    def add_profile(self, profile_id: str, name: str, spec_json: str) -> None:
        """Keep the spec behind a profile id; the first to do so wins."""
        row = {
            "profile_id": profile_id,
            "name": name,
            "spec_json": spec_json,
            "created_at": self._clock(),
        }
        with self._database.write() as connection:
            connection.execute(insert(PROFILES).on_conflict_do_nothing(), row)

    def profiles(self) -> list[StoredProfile]:
        """Hardware profiles, oldest first."""
        query = select(PROFILES).order_by(PROFILES.c.created_at, PROFILES.c.profile_id)
        with self._database.read() as connection:
            return [StoredProfile(*row) for row in connection.execute(query)]

    def put_program(
        self, profile_id: str, group_key: str, schedule_json: str, program: bytes
    ) -> None:
        """Cache the encoded program of a candidate on a machine, in place of an older one."""
        key = {"profile_id": profile_id, "group_key": group_key, "schedule_json": schedule_json}
        value = {
            "sha256": hashlib.sha256(program).hexdigest(),
            "blob": program,
            "created_at": self._clock(),
        }
        statement = insert(PROGRAMS).values(**key, **value)
        with self._database.write() as connection:
            connection.execute(
                statement.on_conflict_do_update(index_elements=list(key), set_=value)
            )

    def get_program(self, profile_id: str, group_key: str, schedule_json: str) -> bytes | None:
        """The cached program of a candidate; None when there is none, or its bytes are damaged:
        it can be lowered again."""
        c = PROGRAMS.c
        query = select(c.blob, c.sha256).where(
            c.profile_id == profile_id,
            c.group_key == group_key,
            c.schedule_json == schedule_json,
        )
        with self._database.read() as connection:
            row = connection.execute(query).one_or_none()
        if row is None or hashlib.sha256(row.blob).hexdigest() != row.sha256:
            return None
        return bytes(row.blob)

    def prune_runs(self, profile_id: str, keep: int) -> int:
        """Drop all but the newest ``keep`` measurements from runs; returns how many went.

        What calibration and search measured stays: it is the training set.
        """
        ours = (RECORDS.c.profile_id == profile_id) & (RECORDS.c.source == "run")
        kept = select(RECORDS.c.id).where(ours).order_by(RECORDS.c.id.desc()).limit(keep)
        used = union(select(RECORDS.c.group_digest), select(RECORDS.c.counters_digest))
        with self._database.write() as connection:
            gone = connection.execute(delete(RECORDS).where(ours, RECORDS.c.id.not_in(kept)))
            connection.execute(delete(TEXTS).where(TEXTS.c.digest.not_in(used)))
            return gone.rowcount

    def info(self) -> StoreInfo:
        """What the store holds, per hardware profile."""
        with self._database.read() as connection:
            profiles = summarise(connection)
        return StoreInfo(self.path, self._database.size_bytes(), SCHEMA_VERSION, profiles)
