"""Every command that reads or writes measurements takes a store's URL, from an option or the environment."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from autotune.cli.main import main

Command = Callable[..., tuple[int, str, str]]


@pytest.fixture
def command(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Command:
    """Runs a command; returns its exit code and what it printed."""
    monkeypatch.setenv("AUTOTUNE_HOME", str(tmp_path / "home"))

    def run(*arguments: Any) -> tuple[int, str, str]:
        capsys.readouterr()
        with pytest.raises(SystemExit) as exit_info:
            main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return int(exit_info.value.code or 0), captured.out, captured.err

    return run


@pytest.mark.slow
def test_calibration_search_and_prediction_share_a_server(
    command: Command, server_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calibrated = command(
        *("calibrate", "--target", "edge", "--budget", 64, "--models", "mlp", "--json"),
        *("--store", server_url),
    )
    assert calibrated[0] == 0 and json.loads(calibrated[1])["measured"] == 64
    monkeypatch.setenv("AUTOTUNE_STORE", server_url)
    plan = tmp_path / "mlp.plan"
    searched = command(
        *("search", "mlp", "--target", "edge", "--trials", 4, "--measure", 8, "--out", plan)
    )
    assert searched[0] == 0 and "its calibrated model" in searched[2]
    assert "its calibrated model" in command("predict", "mlp", "--target", "edge")[2]
    info = json.loads(command("store", "info", "--json")[1])
    assert info["path"].startswith("postgresql://") and info["profiles"][0]["models"] >= 1
    assert not (tmp_path / "home" / "autotune.db").exists()
    assert not (tmp_path / "home" / "studies.db").exists()


@pytest.mark.parametrize(
    "words",
    [
        ("store", "info"),
        ("calibrate", "--target", "edge", "--budget", "1"),
        ("search", "mlp", "--target", "edge"),
        ("predict", "mlp", "--target", "edge"),
        ("run", "mlp", "--target", "edge", "--online"),
        ("doctor",),
    ],
)
def test_a_server_that_does_not_answer_is_one_line_and_exit_code_2(
    words: tuple[str, ...], command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, err = command(*words, "--store", "postgresql://u:secret@127.0.0.1:1/d")
    errors = [line for line in err.splitlines() if "error" in line]
    assert code == 2 and len(errors) == 1
    assert "postgresql://u@127.0.0.1:1/d" in errors[0] and "--store" in errors[0]
    assert "secret" not in out + err


def test_the_path_is_told_without_a_password(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AUTOTUNE_STORE", "postgresql://ann:secret@db/tuning")
    assert command("store", "path")[1] == "postgresql://ann@db/tuning\n"
