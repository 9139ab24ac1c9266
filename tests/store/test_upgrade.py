"""Stores of an older schema version keep every row and become of this one when they can be written."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from autotune.store import file_backend
from autotune.store.faults import UnwritableError
from autotune.store.records import Outcome
from autotune.store.schema import FINGERPRINT, UPGRADED
from autotune.store.store import Store, StoredProfile
from tests.store.store_case import record

PROGRAMS = (
    "CREATE TABLE programs (profile_id TEXT, group_key TEXT, schedule_json TEXT, sha256 TEXT, "
    "blob BLOB, created_at FLOAT)"
)


def of_version_1(path: Path) -> Path:
    """Write a store as version 1 wrote it."""
    with Store.open(path) as store:
        store.add([record(i) for i in range(9)])
        store.save_model("p", b"model", {"mape": 0.1}, 1)
    with sqlite3.connect(path) as connection:
        connection.execute(PROGRAMS)
        for key, value in (("schema_version", "1"), ("fingerprint", UPGRADED["1"])):
            connection.execute("UPDATE meta SET value = ? WHERE key = ?", (value, key))
    connection.close()
    return path


def meta(path: Path) -> dict[str, str]:
    connection = sqlite3.connect(path)
    rows = dict(connection.execute("SELECT key, value FROM meta"))
    connection.close()
    return rows


def test_an_old_store_keeps_its_rows_and_is_brought_up(tmp_path: Path) -> None:
    path = of_version_1(tmp_path / "a.db")
    with Store.open(path) as old, Store.open(path) as other:
        assert old.records("p") == other.records("p") == [record(i) for i in range(9)]
        found = old.load_model("p")
        assert found is not None and found.blob == b"model"
        old.save_profile(StoredProfile("p", "edge", "{}"))
    assert meta(path) == {"schema_version": "2", "fingerprint": FINGERPRINT}
    with Store.open(path) as again:
        assert again.count("p") == 9


def test_an_old_store_that_cannot_be_written_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = of_version_1(tmp_path / "a.db")

    def refuse(path: Path) -> None:
        raise UnwritableError(f"{path}: the store is read-only")

    monkeypatch.setattr(file_backend, "prepare_folder", refuse)
    with Store.open(path, reading=True) as store:
        assert store.count("p") == 9
        assert store.measured_profiles() == []
    assert meta(path)["schema_version"] == "1"


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
