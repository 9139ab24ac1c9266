"""A glance at the store says the same as opening it."""

from __future__ import annotations

from pathlib import Path

from autotune.store.glance import may_hold_model
from autotune.store.store import Store


def test_no_file_holds_no_model_and_none_is_made(tmp_path: Path) -> None:
    file = tmp_path / "autotune.db"
    assert not may_hold_model(file, "p", 1)
    assert not file.exists()


def test_only_the_profile_with_a_model_holds_one(tmp_path: Path) -> None:
    file = tmp_path / "a store?#.db"
    with Store.open(file) as store:
        assert not may_hold_model(file, "p", 1)
        store.save_model("p", b"trees", {"mape": 0.1}, 1)
        assert may_hold_model(file, "p", 1)
    assert may_hold_model(file, "p", 1)
    assert not may_hold_model(file, "q", 1)
    assert not may_hold_model(file, "p", 2)


def test_a_file_that_is_no_store_is_left_for_the_store_to_refuse(tmp_path: Path) -> None:
    file = tmp_path / "autotune.db"
    file.write_bytes(b"not a database" * 100)
    assert may_hold_model(file, "p", 1)
