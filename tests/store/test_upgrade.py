"""Stores of an older schema version keep every row; Alembic brings them up, after a copy of the file."""

from __future__ import annotations

import hashlib
import sqlite3
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from autotune.errors import StoreError
from autotune.store import file_backend
from autotune.store.faults import UnwritableError
from autotune.store.migration import VERSION_TABLE
from autotune.store.record_rows import COLUMNS, to_rows
from autotune.store.records import Outcome
from autotune.store.schema import FINGERPRINT, METADATA, SCHEMA_VERSION, UPGRADED
from autotune.store.store import Store, StoredProfile
from tests.store.store_case import record

SCHEMA_2 = Path(__file__).with_name("schema_2.sql")
PROGRAMS = (
    "CREATE TABLE programs (profile_id TEXT, group_key TEXT, schedule_json TEXT, sha256 TEXT, "
    "blob BLOB, created_at FLOAT)"
)
BATCH = [record(i, "calibrate" if i % 2 else "run") for i in range(9)]


def of_version(version: str, path: Path) -> Path:
    """Write a store as an older version wrote it."""
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.executescript(SCHEMA_2.read_text())
        if version == "1":
            connection.execute(PROGRAMS)
        meta = {"schema_version": version, "fingerprint": UPGRADED[version]}
        connection.executemany("INSERT INTO meta VALUES (?, ?)", meta.items())
        texts, rows = to_rows(BATCH)
        connection.executemany("INSERT INTO texts VALUES (?, ?)", texts)
        named = [dict(zip(COLUMNS, row, strict=True)) for row in rows]
        names = [name for name in COLUMNS if name != "toolchain"]
        values = ", ".join(f":{name}" for name in names)
        connection.executemany(f"INSERT INTO records ({', '.join(names)}) VALUES ({values})", named)
        model = ("p", 1, '{"mape": 0.1}', hashlib.sha256(b"model").hexdigest(), b"model", 1.0)
        connection.execute("INSERT INTO models VALUES (NULL, ?, ?, ?, ?, ?, ?)", model)
    connection.close()
    return path


def meta(path: Path) -> dict[str, str]:
    connection = sqlite3.connect(path)
    rows = dict(connection.execute("SELECT key, value FROM meta"))
    connection.close()
    return rows


@pytest.mark.filterwarnings("ignore:autogenerate skipping")
@pytest.mark.parametrize("version", sorted(UPGRADED))
def test_an_old_store_keeps_its_rows_and_is_brought_up(version: str, tmp_path: Path) -> None:
    path = of_version(version, tmp_path / "a.db")
    with Store.open(path) as old, Store.open(path) as other:
        assert old.records("p") == other.records("p") == BATCH
        found = old.load_model("p")
        assert found is not None and found.blob == b"model"
        old.save_profile(StoredProfile("p", "edge", "{}"))
        old.add([record(1, "calibrate", cycles=7)])
        assert old.records("p") == BATCH
    assert meta(path) == {"schema_version": str(SCHEMA_VERSION), "fingerprint": FINGERPRINT}
    with Store.open(path) as again:
        assert again.count("p") == 9
    assert differences(f"sqlite:///{path}") == []


@pytest.mark.parametrize("version", sorted(UPGRADED))
def test_a_copy_of_the_file_stays_as_it_was(version: str, tmp_path: Path) -> None:
    path = of_version(version, tmp_path / "a.db")
    Store.open(path).close()
    copy = tmp_path / f"a.db.schema-{version}"
    assert meta(copy)["schema_version"] == version
    assert copy.stat().st_mode & 0o077 == 0
    copy.replace(path)  # back to the older version
    with Store.open(path) as store:
        assert store.records("p") == BATCH


def test_a_store_that_cannot_be_migrated_stays_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = of_version("2", tmp_path / "a.db")
    monkeypatch.setattr("alembic.op.create_index", lambda *_, **__: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        Store.open(path)
    assert meta(path)["schema_version"] == "2"
    monkeypatch.undo()
    with Store.open(path) as store:
        assert store.records("p") == BATCH


def test_an_old_store_that_cannot_be_written_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = of_version("1", tmp_path / "a.db")

    def refuse(path: Path) -> None:
        raise UnwritableError(f"{path}: the store is read-only")

    monkeypatch.setattr(file_backend, "prepare_folder", refuse)
    with Store.open(path, reading=True) as store:
        assert store.records("p") == BATCH
        assert store.measured_profiles() == []
    assert meta(path)["schema_version"] == "1"
    assert not list(tmp_path.glob("*.schema-*"))


def test_many_open_an_old_store_at_once(tmp_path: Path) -> None:
    path = of_version("1", tmp_path / "a.db")

    def count(_: int) -> int:
        with Store.open(path) as store:
            return store.count("p")

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(count, range(8))) == [9] * 8
    assert meta(tmp_path / "a.db.schema-1")["schema_version"] == "1"


def test_a_server_of_an_older_version_is_brought_up(server_url: str) -> None:
    with Store.open(server_url) as store:
        store.add(BATCH)
    for statement in (
        "DROP INDEX best_of_group",
        "DROP INDEX calibrated_once_by_hash",
        "CREATE UNIQUE INDEX calibrated_once_by_hash ON records (profile_id, md5(group_key), "
        "md5(schedule_json)) WHERE source = 'calibrate'",
        "ALTER TABLE records DROP COLUMN toolchain",
        f"UPDATE meta SET value = '{UPGRADED['2']}' WHERE key = 'fingerprint'",
        "UPDATE meta SET value = '2' WHERE key = 'schema_version'",
    ):
        raw(server_url, statement)
    reader = f"{server_url}&options=-cdefault_transaction_read_only%3Don"
    with pytest.raises(StoreError, match="older schema version"):
        Store.open(reader, reading=True)
    with Store.open(server_url) as store:
        assert store.records("p") == BATCH
        with store._database.read() as connection:
            assert compared(connection) == []


def raw(url: str, statement: str) -> None:
    """Change a server's tables without the checks of a store."""
    from autotune.store.place import Server, store_place
    from autotune.store.server_backend import ServerBackend

    place = store_place(url)
    assert isinstance(place, Server)
    engine = ServerBackend(place, 1.0, reading=False).engine
    with engine.begin() as connection:
        connection.exec_driver_sql("SET TRANSACTION ISOLATION LEVEL READ COMMITTED")
        connection.exec_driver_sql(statement)
    engine.dispose()


def differences(url: str) -> list[Any]:
    """Return what differs between the tables of a store and those declared."""
    from sqlalchemy import create_engine

    engine = create_engine(url)
    with engine.connect() as connection:
        found = compared(connection)
    engine.dispose()
    return found


def compared(connection: Any) -> list[Any]:
    """Return what Alembic would still do to a store's tables; indexes of expressions it cannot compare."""
    from alembic.autogenerate import compare_metadata
    from alembic.runtime.migration import MigrationContext

    def ours(thing: Any, name: str | None, kind: str, *_: Any) -> bool:
        return name != VERSION_TABLE and not (kind == "index" and "calibrated" in str(name))

    options = {"include_object": ours, "version_table": VERSION_TABLE}
    return list(compare_metadata(MigrationContext.configure(connection, opts=options), METADATA))


def test_a_store_of_this_version_opens_without_alembic(tmp_path: Path) -> None:
    code = (
        "import sys; from autotune.store.store import Store; Store.open(sys.argv[1]).close(); "
        "assert not {'alembic', 'psycopg', 'pyarrow'} & set(sys.modules)"
    )
    for _ in range(2):
        subprocess.run([sys.executable, "-c", code, tmp_path / "a.db"], check=True)


def test_machines_are_told_with_what_was_measured_best(tmp_path: Path) -> None:
    with Store.open(tmp_path / "a.db") as store:
        for profile in ("p", "q", "r"):
            store.save_profile(StoredProfile(profile, "edge", "{}"))
        store.save_profile(StoredProfile("p", "later", '{"numbers":1}'))
        store.add([record(i, "search", "p") for i in (9, 2, 16, 3)])
        store.add([record(1, "run", "q")])
        store.add([record(0, "search", "r", outcome=Outcome.FAILED, reason="it hangs")])
        assert store.measured_profiles() == [StoredProfile("p", "later", '{"numbers":1}')]
        assert store.best_schedules("p") == {"g2": "[[2]]", "g3": "[[3]]"}
        assert store.best_schedules("q", by_energy=True) == {"g1": "[[1]]"}
