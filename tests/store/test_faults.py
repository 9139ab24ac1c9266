"""A store that cannot be used costs one line that names the file and the way out."""

from __future__ import annotations

import os
import random
import shutil
import sqlite3
from pathlib import Path

import pytest

from autotune.errors import StoreError
from autotune.store.schema import METADATA, SCHEMA_VERSION
from autotune.store.store import Store
from tests.store.store_case import record

AS_ROOT = os.name == "posix" and os.geteuid() == 0


def refused(path: Path | str | None, *words: str) -> None:
    """Opening and using the store fails with one line that has the words."""
    with pytest.raises(StoreError) as caught:
        use(path)
    message = str(caught.value)
    assert "\n" not in message
    for word in (str(path), *words):
        assert word in message, message


def use(path: Path | str | None) -> None:
    with Store.open(path, busy_seconds=0.05) as store:
        store.add([record(9)])
        store.records("p")
        store.load_model("p")


def filled(path: Path) -> Path:
    with Store.open(path) as store:
        store.add([record(i, network="n" * 500) for i in range(300)])
        store.save_model("p", b"m" * 5000, {}, 1)
    return path


def test_a_file_that_is_not_sqlite(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    path.write_bytes(b"not a database, but long enough to have a header" * 100)
    refused(path, "not a sound SQLite database", "move it away", "AUTOTUNE_HOME")
    assert path.read_bytes().startswith(b"not a database")


def test_a_truncated_store(tmp_path: Path) -> None:
    path = filled(tmp_path / "a.db")
    path.write_bytes(path.read_bytes()[:20_000])
    refused(path, "not a sound SQLite database", "move it away")


@pytest.mark.slow
def test_any_damage_is_an_error_of_the_store_or_none(tmp_path: Path) -> None:
    sound = filled(tmp_path / "sound.db").read_bytes()
    rng = random.Random(1)
    for case in range(60):
        damaged = bytearray(sound)
        start = rng.randrange(0, len(sound) - 600)
        damaged[start : start + 600] = rng.randbytes(600)
        path = tmp_path / f"{case}.db"
        path.write_bytes(damaged)
        try:
            use(path)
        except StoreError as error:
            assert str(path) in str(error) and "\n" not in str(error)


def test_an_empty_file_becomes_a_store(tmp_path: Path) -> None:
    (tmp_path / "a.db").touch()
    use(tmp_path / "a.db")


def test_a_database_of_another_program(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE songs (title TEXT)")
    connection.close()
    refused(path, "another program", "move it away")


@pytest.mark.parametrize(("version", "advice"), [(SCHEMA_VERSION + 1, "update"), (0, "move")])
def test_another_schema_version(tmp_path: Path, version: int, advice: str) -> None:
    path = filled(tmp_path / "a.db")
    changed(path, f"UPDATE meta SET value = '{version}' WHERE key = 'schema_version'")
    refused(path, f"schema version {version}", advice, "AUTOTUNE_HOME")


@pytest.mark.parametrize("table", sorted(METADATA.tables))
def test_a_table_that_was_changed(tmp_path: Path, table: str) -> None:
    path = filled(tmp_path / "a.db")
    changed(path, f"DROP TABLE {table}")
    refused(path, "move it away", "AUTOTUNE_HOME")


def test_a_row_that_was_changed(tmp_path: Path) -> None:
    path = filled(tmp_path / "a.db")
    changed(path, "UPDATE records SET counters = x'00' WHERE id = 3")
    refused(path, "record 3 is damaged")


def test_a_store_that_another_program_holds(tmp_path: Path) -> None:
    path = filled(tmp_path / "a.db")
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    refused(path, "another program holds the store", "try again")
    holder.execute("ROLLBACK")
    holder.close()
    use(path)


def test_a_folder_in_place_of_the_file_and_a_file_in_place_of_the_folder(tmp_path: Path) -> None:
    refused(tmp_path, "is a folder")
    (tmp_path / "file").touch()
    refused(tmp_path / "file" / "a.db", "cannot make the store's folder", "AUTOTUNE_HOME")


def test_a_full_disk_loses_nothing_and_stores_nothing_of_the_change(tmp_path: Path) -> None:
    path = filled(tmp_path / "a.db")
    with Store.open(path) as store:
        before = store.records("p")
        with store._database.read() as connection:
            pages = connection.exec_driver_sql("PRAGMA page_count").scalar_one()
            connection.exec_driver_sql(f"PRAGMA max_page_count = {pages + 3}")
        with pytest.raises(StoreError, match=r"a\.db: the disk is full.*free space"):
            store.add([record(i, network="n" * 5000) for i in range(300, 600)])
        assert store.records("p") == before


def test_a_store_that_may_not_be_written(tmp_path: Path) -> None:
    path = filled(tmp_path / "a.db")
    with Store.open(path) as store:
        with store._database.read() as connection:
            connection.exec_driver_sql("PRAGMA query_only = 1")
        with pytest.raises(StoreError, match=r"a\.db: the store is read-only.*AUTOTUNE_HOME"):
            store.add([record(1)])
        assert store.count("p") == 300


@pytest.mark.skipif(AS_ROOT, reason="root may write anywhere")
def test_a_read_only_file_and_folder_are_refused_before_anything_is_measured(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "home"
    path = filled(folder / "a.db")
    path.chmod(0o444)
    refused(path, "read-only", "make it writable")
    path.chmod(0o644)
    folder.chmod(0o555)
    refused(path, "read-only", "make it writable")
    refused(folder / "b.db", "read-only", "make it writable")
    refused(folder / "new" / "b.db", "cannot make the store's folder")
    folder.chmod(0o755)
    shutil.rmtree(folder)


@pytest.mark.skipif(os.name != "posix", reason="an open file cannot be deleted here")
def test_a_store_that_was_deleted_while_open_begins_anew(tmp_path: Path) -> None:
    path = filled(tmp_path / "home" / "a.db")
    with Store.open(path) as store, Store.open(path) as other:
        assert store.count("p") == other.count("p") == 300
        shutil.rmtree(path.parent)
        store.add([record(1)])
        assert store.count("p") == other.count("p") == 1
        other.add([record(2)])
        with Store.open(path) as third:
            assert third.count("p") == 2
    with Store.open(path) as store:
        assert store.count("p") == 2


@pytest.mark.skipif(os.name != "posix", reason="an open file cannot be moved here")
def test_a_store_that_is_put_back_while_open_is_gone_on_with(tmp_path: Path) -> None:
    path = filled(tmp_path / "a.db")
    with Store.open(path) as store:
        files = [file for file in tmp_path.glob("a.db*") if file.is_file()]
        for file in files:
            file.rename(file.with_name(f"away-{file.name}"))
        store.add([record(1)])
        assert store.count("p") == 1
        for file in tmp_path.glob("a.db*"):
            file.unlink()
        for file in files:
            file.with_name(f"away-{file.name}").rename(file)
        store.add([record(1)])
        assert store.count("p") == 301


def changed(path: Path, statement: str) -> None:
    """Change a store behind its back."""
    connection = sqlite3.connect(path)
    connection.execute(statement)
    connection.commit()
    connection.close()
