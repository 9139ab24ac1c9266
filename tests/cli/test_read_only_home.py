"""A home that cannot be written runs networks all the same; one line says that nothing is kept."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from autotune.cli.main import main
from autotune.disk import unwritable_home
from autotune.errors import StoreError
from autotune.store import faults, file_backend
from autotune.store.faults import UnwritableError
from autotune.store.store import Store
from autotune.targets.opening import target
from autotune.tuner.calibrate import calibrate

Command = Callable[..., Any]


@pytest.fixture(params=["unwritable", "missing"])
def home(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home in a folder that refuses new files, whoever runs this; one that cannot be made."""
    folder = tmp_path / "file" / "home"
    folder.parent.write_text("no folder")
    if request.param == "unwritable":
        folder = tmp_path / "home"
        folder.mkdir()
        may = os.access
        monkeypatch.setattr(os, "access", lambda path, mode: mode == os.R_OK and may(path, mode))
        make = Path.mkdir

        def mkdir(self: Path, *mode: Any, **options: Any) -> None:
            if folder in (self, *self.parents):
                refused()
            make(self, *mode, **options)

        monkeypatch.setattr(Path, "mkdir", mkdir)
        monkeypatch.setattr("autotune.disk.cache.make_private", refused)
    monkeypatch.setenv("AUTOTUNE_HOME", str(folder))
    unwritable_home._note.cache_clear()
    return folder


def refused(*_: object, **__: object) -> None:
    """As the system does in a read-only folder."""
    raise PermissionError(13, "Permission denied")


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> Command:
    """Runs a command with --json; returns the document on its stdout and the text on stderr."""

    def run(*arguments: str) -> Any:
        capsys.readouterr()
        with pytest.raises(SystemExit) as exit_info:
            main([*arguments, "--json"])
        captured = capsys.readouterr()
        assert exit_info.value.code in (0, None), captured.err
        return json.loads(captured.out), captured.err

    return run


@pytest.mark.parametrize("machine", ["cpu:1", "edge"])
def test_networks_run_and_one_warning_says_that_nothing_is_kept(
    machine: str, home: Path, command: Command
) -> None:
    found, told = command("run", "norm_gelu", "--target", machine, "--repeat", "1")
    assert found["cycles"] > 0 and found["planned_by"] == "heuristic"
    assert told.count("nothing is kept and each start takes longer") == 1
    assert told.startswith(f"autotune: warning: {home}: cannot be written (")


def test_the_store_is_empty_and_the_installation_is_checked(home: Path, command: Command) -> None:
    assert command("store", "info")[0]["profiles"] == []
    assert "cannot be written" in command("doctor")[0]["store"]


@pytest.fixture
def calibrated(tmp_path: Path) -> Path:
    path = tmp_path / "a store?#.db"
    with Store.open(path) as store:
        calibrate(target("edge"), budget=64, graphs=[], seed=0, store=store, workers=1)
    return path


def test_a_store_that_cannot_be_written_is_read_and_refuses_changes(
    calibrated: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from autotune.cost_model.predictor import Predictor

    def unwritable(path: Path) -> None:
        raise UnwritableError(f"{path}: the store is read-only")

    monkeypatch.setattr(file_backend, "prepare_folder", unwritable)
    with pytest.raises(UnwritableError):
        Store.open(calibrated)
    assert Predictor.load("edge", calibrated).spec.name == "edge"
    with Store.open(calibrated, reading=True) as store:
        assert not store.is_writable
        assert store.count(target("edge").spec.profile_id) == 64
        with pytest.raises(StoreError, match="read-only"):
            store.save_model("p", b"", {}, 1)
    assert not Path(f"{calibrated}-wal").exists()


def test_a_folder_in_the_place_of_a_store_is_refused_for_reading_too(tmp_path: Path) -> None:
    assert issubclass(faults.UnwritableError, StoreError)
    with pytest.raises(StoreError, match="is a folder"):
        Store.open(tmp_path, reading=True)
