"""Exports by a process of their own: the same files as without it, on both databases, whatever else goes on."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotune.errors import StoreError
from autotune.store import export_process
from autotune.store.data_card import CARD
from autotune.store.parquet_folder import RECORDS, write_folder
from autotune.store.records import Record
from autotune.store.store import Store
from tests.store.store_case import APPEND, edit, record, records, run_python

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
if find_spec("adbc_driver_sqlite") is None or find_spec("adbc_driver_postgresql") is None:
    pytest.skip("the drivers are not installed", allow_module_level=True)
NEVER = 10**9


def no_columns(*_: object) -> Any:
    raise AssertionError("the other path was taken")


def exported(store: Store, folder: Path, profile_ids: list[str], apart_from: int) -> Any:
    """Export; return columns of values and the card. With 0, reading by the store's own connection fails."""
    with pytest.MonkeyPatch.context() as patch:
        if not apart_from:
            patch.setattr("autotune.store.parquet_folder.read_columns", no_columns)
        count = write_folder(store, folder, profile_ids, apart_from)
    assert "adbc_driver_sqlite" not in sys.modules, (
        "two SQLites in one process undo each other's locks"
    )
    table = pq.read_table(folder / RECORDS)
    assert len(table) == count
    return table.schema, table.to_pydict(), (folder / CARD).read_text()


def assert_equal(store: Store, folder: Path, profile_ids: list[str]) -> int:
    ours = exported(store, folder / "own", profile_ids, NEVER)
    assert exported(store, folder / "apart", profile_ids, 0) == ours
    return len(ours[1]["cycles"])


@given(st.lists(records(), min_size=1, max_size=20))
@settings(max_examples=5)
def test_any_record_of_a_file(
    tmp_path_factory: pytest.TempPathFactory, batch: list[Record]
) -> None:
    folder = tmp_path_factory.mktemp("a?b#c %20'd")
    with Store.open(folder / "a.db") as store:
        store.add(batch)
        assert assert_equal(store, folder, ["p"]) == store.count("p")


@pytest.mark.parametrize("place", ["file", "server"])
def test_machines_are_chosen_by_name_alone(
    place: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    url = str(tmp_path / "a.db") if place == "file" else request.getfixturevalue("server_url")
    odd = "x') OR ('1' = '1"
    with Store.open(url) as store:
        profiles = ["p", "ä", odd]
        store.add([record(i, "search", profiles[i % 3]) for i in range(1000)])
        assert assert_equal(store, tmp_path, [odd]) == 333
        assert assert_equal(store, tmp_path, ["p", "ä"]) == 667
        assert assert_equal(store, tmp_path, []) == 0
        assert assert_equal(store, tmp_path, ["unknown"]) == 0


@pytest.mark.parametrize("place", ["file", "server"])
def test_texts_that_come_as_one_are_parted_as_they_were(
    place: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Empty texts, texts that differ by where one ends, control characters, and kinds that share values."""
    url = str(tmp_path / "a.db") if place == "file" else request.getfixturevalue("server_url")
    texts = ["", "a", "ab", "b", "\x1f", "\x1fa", "ÿ", "a\x1f", "\U0001f600", "x'ff'"]
    rows = [
        record(i, target=texts[i % 10], network=texts[i // 10 % 10], toolchain=texts[i // 3 % 10])
        for i in range(400)
    ]
    with Store.open(url) as store:
        store.add(rows)
        assert assert_equal(store, tmp_path, ["p"]) == 400
        found = pq.read_table(tmp_path / "apart" / RECORDS)
    for name in ("target", "network", "toolchain"):
        assert found[name].to_pylist() == [getattr(one, name) for one in rows]
        for chunk in found[name].cast(pa.string()).dictionary_encode().chunks:
            assert len(chunk.dictionary) <= len(texts)


@pytest.mark.parametrize("place", ["file", "server"])
def test_pieces_keep_their_order(
    place: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Numbers of rows far apart make many pieces, some of them empty, for several readers."""
    url = str(tmp_path / "a.db") if place == "file" else request.getfixturevalue("server_url")
    with Store.open(url) as store:
        store.add([record(i) for i in range(300)])
        edit(url, "UPDATE records SET id = id * 30000 WHERE id - id / 7 * 7 > 2 OR id > 299")
        assert assert_equal(store, tmp_path, ["p"]) == 300


@pytest.mark.parametrize("place", ["file", "server"])
def test_an_export_beside_a_writer_has_one_state(
    place: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    url = str(tmp_path / "a.db") if place == "file" else request.getfixturevalue("server_url")
    with Store.open(url) as store:
        store.add([record(0)])
        with run_python(APPEND, url, 1, 400, 5) as writer:
            assert writer.stdout is not None
            writer.stdout.readline()  # it writes now
            sizes = []
            for _ in range(3):
                cycles = exported(store, tmp_path / "out", ["p"], 0)[1]["cycles"]
                assert cycles == list(range(len(cycles)))
                assert len(cycles) % 5 == 1, "batches are whole"
                sizes.append(len(cycles))
            writer.communicate()
        assert sizes[0] > 1
        assert writer.returncode == 0
        assert len(exported(store, tmp_path / "out", ["p"], 0)[1]["cycles"]) == 2001


@pytest.mark.parametrize(
    "damage",
    [
        "DELETE FROM texts WHERE digest = (SELECT group_digest FROM records)",
        "UPDATE records SET counters = x'00'",
        "UPDATE records SET counters_digest = x'00'",
    ],
)
def test_damage_is_told_as_without_that_process(damage: str, tmp_path: Path) -> None:
    with Store.open(tmp_path / "a.db") as store:
        store.add([record(1)])
        edit(str(tmp_path / "a.db"), damage)
        with pytest.raises(
            StoreError, match=r"a\.db: a measurement is damaged .* 'autotune store verify'"
        ):
            write_folder(store, tmp_path / "out", ["p"], 0)


def test_a_text_that_is_no_utf8_is_refused(tmp_path: Path) -> None:
    """Its bytes may be those between joined texts."""
    with Store.open(tmp_path / "a.db") as store:
        store.add([record(1)])
        edit(str(tmp_path / "a.db"), "UPDATE records SET network = CAST(x'61ff62' AS TEXT)")
        with pytest.raises(StoreError, match=r"a\.db: not a sound SQLite database .*'network'"):
            write_folder(store, tmp_path / "out", ["p"], 0)


def test_without_the_drivers_the_store_reads_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(export_process, "find_spec", lambda _: None)
    monkeypatch.setattr("autotune.store.parquet_folder.write_apart", no_columns)
    with Store.open(tmp_path / "a.db") as store:
        store.add([record(i) for i in range(9)])
        assert write_folder(store, tmp_path / "out", ["p"], 0) == 9
    with Store.memory() as store:
        store.add([record(1)])
        assert write_folder(store, tmp_path / "memory", ["p"], 0) == 1
