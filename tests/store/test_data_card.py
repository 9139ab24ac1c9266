"""An export says what was measured, when and on what, and names every column with its unit."""

from __future__ import annotations

from pathlib import Path

import pytest

from autotune.store.data_card import (
    CARD,
    MODEL_COLUMNS,
    PROFILE_COLUMNS,
    RECORD_COLUMNS,
    data_card,
)
from autotune.store.parquet_folder import ParquetContents, write_folder
from autotune.store.store import Store, StoredProfile
from tests.store.store_case import record


def test_every_column_of_every_file_has_a_row(tmp_path: Path) -> None:
    pq = pytest.importorskip("pyarrow.parquet")
    with Store.memory() as store:
        store.add([record(i, "search", "p") for i in range(3)])
        write_folder(store, tmp_path, ["p"])
    columns = {"records": RECORD_COLUMNS, "profiles": PROFILE_COLUMNS, "models": MODEL_COLUMNS}
    card = (tmp_path / CARD).read_text("utf-8")
    for name, documented in columns.items():
        assert list(documented) == pq.read_schema(tmp_path / f"{name}.parquet").names
        assert all(f"| `{column}` |" in card for column in documented)
    assert ParquetContents(tmp_path).profile_ids() == ["p"]


def test_a_card_counts_by_machine_source_and_outcome_with_dates(tmp_path: Path) -> None:
    day = 86_400.0
    with Store.memory() as store:
        store.save_profile(StoredProfile("p", "a|b", "{}"))
        store.add(
            [
                record(1, "calibrate", "p", created_at=day, toolchain="t"),
                record(2, "calibrate", "p", created_at=3 * day, toolchain="t"),
                record(3, "search", "p", created_at=day, toolchain="t"),
                record(4, "search", "q", created_at=day, toolchain="t"),
            ]
        )
        write_folder(store, tmp_path, ["p"])
    card = data_card(ParquetContents(tmp_path))
    assert "| a\\|b, edge | p | t | 3 | 3 | 0 |" in card
    assert "| p | calibrate | ok | 2 | 1970-01-02 | 1970-01-04 |" in card
    assert "| p | search | ok | 1 | 1970-01-02 | 1970-01-02 |" in card
    assert "| q |" not in card
    assert "a\\|b" in card


def test_a_clock_that_is_wrong_by_ages_stops_no_export(tmp_path: Path) -> None:
    with Store.memory() as store:
        store.add([record(1, "search", "p", created_at=1e15)])
        write_folder(store, tmp_path, ["p"])
    assert "| 1e+15 s |" in data_card(ParquetContents(tmp_path))
