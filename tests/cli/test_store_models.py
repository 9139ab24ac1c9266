"""Every kept cost model is listed with what it was trained on, and answers when it is asked for."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from autotune.cli.main import main
from autotune.cost_model.provenance import Provenance
from autotune.cost_model.shipped import shipped_model
from autotune.cost_model.version import FEATURE_VERSION
from autotune.store.contents import MOST_LETTERS, label
from autotune.store.store import Store, StoredProfile
from autotune.targets.opening import load_spec
from autotune.targets.plugins.model_target import ModelTarget
from autotune.targets.spec import HardwareSpec
from autotune.tuner.calibrate_groups import calibrate_groups
from tests.targets.plugins import timing_functions as functions

Command = Callable[..., Any]
ERRORS = (0.11, 0.07)
"""Held-out errors that the two stored models claim, the older one's first."""


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


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A store with two models of ``edge``."""
    spec: HardwareSpec = load_spec("edge")
    model = shipped_model(spec)
    assert model is not None
    with Store.open(tmp_path / "a.db") as store:
        store.save_profile(StoredProfile(spec.profile_id, "edge", "{}"))
        for number, error in enumerate(ERRORS):
            model.provenance = Provenance(f"{number}" * 64, "f" * 64, 100 + number, 0)
            model.metrics["mape"] = error
            store.save_model(spec.profile_id, model.to_bytes(), {"mape": error}, FEATURE_VERSION)
    return tmp_path / "a.db"


def test_kept_models_are_listed_newest_first_with_their_training_sets(
    command: Command, place: Path
) -> None:
    rows, _ = command("store", "models", "--store", place, "--target", "edge")
    assert [row["metrics"]["mape"] for row in rows] == [*reversed(ERRORS)]
    assert [row["trained_on"]["fingerprint"][0] for row in rows] == ["1", "0"]
    assert [row["trained_on"]["measurements"] for row in rows] == [101, 100]
    assert [row["model"] for row in rows] == ["shipped", "shipped"]
    assert rows[0]["id"] != rows[1]["id"]


def test_a_model_saved_again_is_one_model_and_the_newest(command: Command, place: Path) -> None:
    rows, _ = command("store", "models", "--store", place, "--target", "edge")
    with Store.open(place) as store:
        older = store.models(rows[1]["profile_id"])[1]
        store.save_model(rows[1]["profile_id"], older.blob, {"mape": 0.05}, FEATURE_VERSION)
    again, _ = command("store", "models", "--store", place, "--target", "edge")
    assert [row["id"] for row in again] == [rows[1]["id"], rows[0]["id"]]
    assert again[0]["metrics"] == {"mape": 0.05}


def test_a_model_of_groups_tells_its_machine_and_training_set(
    command: Command, tmp_path: Path
) -> None:
    place, machine = tmp_path / "b.db", ModelTarget("mine", functions.by_results)
    with Store.open(place) as store:
        calibrate_groups(machine, budget=50, store=store, seed=3)
    (row,), _ = command("store", "models", "--store", place)
    assert (row["machine"], row["model"]) == ("mine", "groups")
    assert (row["trained_on"]["measurements"], row["trained_on"]["seed"]) == (50, 3)
    assert len(row["trained_on"]["fingerprint"]) == 64


def test_long_names_of_machines_are_cut() -> None:
    swept = "edge vector.lanes=32 scratchpad.banks=32 energy.scratchpad_read_byte_fj=1770"
    assert label(["edge", swept]) == "edge, edge vector.lanes=32 …"
    assert label([swept, swept + " cores=2"]) == "edge vector.lanes=32 …"
    path = "/home/somebody/projects/accelerator/mine.py:time_model"
    assert label([path]).endswith("/mine.py:time_model") and len(label([path])) == MOST_LETTERS


def test_an_older_model_and_the_shipped_one_answer_when_asked(
    command: Command, place: Path
) -> None:
    rows, _ = command("store", "models", "--store", place)
    ask = ("predict", "mlp", "--target", "edge", "--store", place)
    document, newest = command(*ask)
    assert document["model"] == "shipped" and document["predicted_by"] in newest
    _, older = command(*ask, "--model", rows[1]["id"][:12])
    _, shipped = command(*ask, "--model", "shipped")
    assert "mean error 7.0%" in newest
    assert "mean error 11.0%" in older
    assert "mean error 7.0%" not in shipped and "mean error 11.0%" not in shipped


def test_a_prediction_without_calibration_tells_how_novel_each_group_is(command: Command) -> None:
    document, told = command("predict", "mlp", "--target", "edge")
    assert "shipped model" in told
    rows = [row for name in ("unfused", "greedy") for row in document[name]["groups"]]
    assert len(rows) > 4 and all(0.0 <= row["novelty"] <= 1.0 for row in rows)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("predict", "mlp", "--target", "edge", "--model", "abc"), "no model 'abc'"),
        (("predict", "mlp", "--target", "edge", "--model", "%"), "no model '%'"),
        (("predict", "--replay", "x.json", "--model", "abc"), "leave it out"),
        (("store", "models", "--target", "moon"), "no machine 'moon'"),
    ],
)
def test_a_wrong_model_is_one_line(
    words: tuple[str, ...], told: str, command: Command, place: Path
) -> None:
    error, _ = command(*words, "--store", place, code=2)
    assert told in error["error"]
    assert "\n" not in error["error"]
