"""Measurements travel between stores on the command line, and calibrate nothing twice."""

from __future__ import annotations

import builtins
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from autotune.cli.main import main
from autotune.store.store import Store, StoredProfile
from tests.store.store_case import edit, record

Command = Callable[..., Any]


@pytest.fixture
def command(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Command:
    """Runs a command with --json; returns its document, and what it said."""
    monkeypatch.setenv("AUTOTUNE_HOME", str(tmp_path / "home"))

    def run(*arguments: Any, code: int = 0) -> tuple[Any, str]:
        capsys.readouterr()
        with pytest.raises(SystemExit) as exit_info:
            main([*map(str, arguments), "--json"])
        captured = capsys.readouterr()
        assert int(exit_info.value.code or 0) == code, captured.err
        return json.loads(captured.out), captured.err

    return run


def filled(place: Path, *numbers: int, profile: str = "p") -> Path:
    with Store.open(place) as store:
        store.add([record(i, "calibrate", profile, toolchain="t") for i in numbers])
        store.save_profile(StoredProfile(profile, "edge", "{}"))
        store.save_model(profile, b"model", {}, 1)
    return place


@pytest.mark.parametrize("out", ["out", "out.db"])
def test_what_is_exported_is_imported_once(out: str, command: Command, tmp_path: Path) -> None:
    ours, there = filled(tmp_path / "a.db", 1, 2, 3), tmp_path / out
    filled(ours, 4, profile="q")
    wrote, _ = command("store", "export", there, "--store", ours, "--target", "p")
    assert (wrote["measurements"], wrote["machines"]) == (3, 1)
    first, _ = command("store", "import", there)
    again, _ = command("store", "import", there)
    assert (first[0]["added"], first[0]["models"], first[0]["machines"]) == (3, 1, 1)
    assert (again[0]["added"], again[0]["known"]) == (0, 3)
    (machine,), _ = command("store", "list")
    assert (machine["names"], machine["toolchain"]) == (["edge"], "t")
    assert (machine["measurements"], machine["models"]) == (3, 1)


def test_stores_are_merged_and_conflicts_are_told(command: Command, tmp_path: Path) -> None:
    one, two = filled(tmp_path / "a.db", 1, 2), filled(tmp_path / "b.db", 2, 3, profile="q")
    with Store.open(two) as store:
        store.add([record(1, "calibrate", toolchain="t", cycles=99, created_at=9.0)])
    done, said = command("store", "merge", one, two)
    assert [result["added"] for result in done] == [2, 2]
    (conflict,) = done[1]["conflicts"]
    assert (conflict["kept"], conflict["dropped"]) == (1, 99)
    assert "edge is the name of 2 machines with other numbers" in said
    assert command("store", "verify")[0]["problems"] == []
    assert command("store", "vacuum")[0]["size_bytes"] > 0


def test_damage_is_told_with_exit_code_1(command: Command, tmp_path: Path) -> None:
    place = filled(tmp_path / "a.db", 1, 2)
    edit(str(place), "UPDATE records SET counters = '' WHERE id = 2")
    found, _ = command("store", "verify", "--store", place, code=1)
    assert "record 2 is damaged" in found["problems"][0]
    error, _ = command("store", "merge", place, code=2)
    assert "record 2 is damaged" in error["error"]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("import", "{}/none"), "no such store"),
        (("merge", "{}/none.db"), "no such store"),
        (("export", "{}/a.db", "--store", "{}/a.db"), "exists"),
        (("export", "{}/x.csv", "--store", "{}/a.db"), "x.csv: no .csv file is written"),
        (("export", "{}/x.parquet", "--store", "{}/a.db"), "becomes a folder of Parquet files"),
        (("export", "{}/out", "--target", "moon", "--store", "{}/a.db"), "no machine 'moon'"),
        (("import", "{}"), "records.parquet: cannot be read"),
    ],
)
def test_a_wrong_place_is_one_line(
    words: tuple[str, ...], told: str, command: Command, tmp_path: Path
) -> None:
    filled(tmp_path / "a.db", 1)
    error, _ = command("store", *(word.format(tmp_path) for word in words), code=2)
    assert told in error["error"]
    assert not (tmp_path / "none.db").exists()


def test_a_missing_extra_is_named(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "pyarrow"]:
        monkeypatch.delitem(sys.modules, name)
    ordinary = builtins.__import__

    def without(name: str, *rest: Any, **named: Any) -> Any:
        if name.partition(".")[0] == "pyarrow":
            raise ModuleNotFoundError("No module named 'pyarrow'", name="pyarrow")
        return ordinary(name, *rest, **named)

    monkeypatch.setattr(builtins, "__import__", without)
    error, _ = command("store", "export", tmp_path / "out", code=2)
    assert "pip install 'autotune[parquet]'" in error["error"]
