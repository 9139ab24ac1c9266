"""``autotune explain PLAN``: reasons of every group and of one, as text and JSON; errors in one line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from autotune.cli.main import main
from tests.cli.plan_case import GROUPS, write_plan


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A user's folder without measurements: the shipped model answers."""
    monkeypatch.setenv("AUTOTUNE_HOME", str(tmp_path / "home"))


def ran(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    capsys.readouterr()
    with pytest.raises(SystemExit) as exit_info:
        main(["explain", *map(str, arguments)])
    captured = capsys.readouterr()
    assert isinstance(exit_info.value.code, int)
    return exit_info.value.code, captured.out, captured.err


def document(capsys: pytest.CaptureFixture[str], *arguments: object) -> Any:
    code, out, err = ran(capsys, *arguments, "--json")
    assert code == 0, err
    return json.loads(out)


def test_every_group_says_why(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    groups = document(capsys, write_plan(tmp_path))["groups"]
    assert [tuple(group["operators"]) for group in groups] == list(GROUPS)
    fused, view, last = (group["why"] for group in groups)
    assert fused["kept_on_chip"][0]["saved_bytes"] == 2 * 4 * 16 * 64
    assert fused["against_operators_apart"]["saved_cycles"] > 0
    assert fused["against_operators_apart"]["basis"] == "predicted"
    assert view["reasons"] == ["renames memory: no program, no cost"]
    assert last["reasons"][0] == "one operator: nothing is fused"
    assert [fusion["groups"] for fusion in last["rejected_fusions"]] == [[0, 1, 2]]


def test_a_mark_of_doubt_is_explained_where_it_stands(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, out, err = ran(capsys, write_plan(tmp_path))
    assert "~" in out
    assert "~ within the noise" in err


def test_the_next_command_is_told_with_the_file_that_was_given(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_plan(tmp_path).rename(tmp_path / "other.plan")
    _, _, err = ran(capsys, path)
    assert f"autotune explain {path} --group N" in err.replace("\n", "")


def test_one_group_says_all(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = ran(capsys, write_plan(tmp_path), "--group", "0")
    assert code == 0
    for text in (
        "#0 relu + exp",
        "fused",
        "kept on chip",
        "limited by",
        "next schedule",
        "roofline",
    ):
        assert text in out, text
    (group,) = document(capsys, write_plan(tmp_path), "--group", "2")["groups"]
    assert group["index"] == 2 and group["kinds"] == ["tanh"]


def test_a_group_that_is_not_there_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, err = ran(capsys, write_plan(tmp_path), "--group", "3")
    assert code == 2 and "groups 0 to 2" in err and err.count("\n") == 1
    code, _, err = ran(capsys, tmp_path / "net.onnx", "--group", "0")
    assert code == 2 and "--group is for plans" in err and err.count("\n") == 1


def test_without_its_network_a_plan_still_shows_its_figures(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = write_plan(tmp_path)
    (tmp_path / "net.onnx").unlink()
    code, out, err = ran(capsys, plan)
    assert code == 0 and "relu, exp" in out and "without reasons" in err
    assert all(group["why"] is None for group in document(capsys, plan)["groups"])


def test_a_plan_of_an_older_schema_is_explained(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = write_plan(tmp_path)
    new = json.loads(plan.read_text())
    (graph,) = new.pop("graphs")
    old = new | {"schema": 1, "fingerprint": graph["fingerprint"], "groups": graph["groups"]}
    plan.write_text(json.dumps(old))
    assert document(capsys, plan)["groups"][0]["why"] is not None
