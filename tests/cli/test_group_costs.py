"""``autotune run --profile``: the groups' costs are those of the run, and explain themselves."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from autotune.cli.main import main
from tests.cli.plan_case import GROUPS, write_plan


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A user's folder of these tests, which measure this machine once."""
    return tmp_path_factory.mktemp("home")


@pytest.fixture(autouse=True)
def home(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is the user's folder of every test."""
    monkeypatch.setenv("AUTOTUNE_HOME", str(folder))


def output(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    capsys.readouterr()
    with pytest.raises(SystemExit) as exit_info:
        main(["run", *map(str, arguments)])
    captured = capsys.readouterr()
    assert exit_info.value.code == 0, captured.err
    return captured.out


def document(capsys: pytest.CaptureFixture[str], *arguments: object) -> Any:
    return json.loads(output(capsys, *arguments, "--json"))


def test_groups_add_up_to_the_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = document(capsys, write_plan(tmp_path), "--profile")
    groups = found["groups"]
    assert [tuple(group["operators"]) for group in groups] == [GROUPS[0], GROUPS[2]]
    assert sum(group["cycles"] for group in groups) == found["cycles"]
    assert sum(group["dram_bytes"] for group in groups) == found["dram_bytes"]
    energy = sum(part for group in groups for part in group["energy_fj"].values())
    assert energy == found["energy_fj"]
    assert sum(group["share"] for group in groups) == pytest.approx(1)


def test_units_are_busy_or_stalled_within_their_cycles(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for group in document(capsys, write_plan(tmp_path), "--profile")["groups"]:
        assert group["array_utilisation"] == group["busy"]["matrix"] == 0
        assert min(group["busy"][unit] for unit in ("load", "store", "vector")) > 0
        stalls = [stall["cycles"] for stall in group["stalls"]]
        assert stalls == sorted(stalls, reverse=True)
        assert 0 < len(stalls) <= 3
        for stall in group["stalls"]:
            assert 0 < stall["share"] + group["busy"][stall["unit"]] <= 1


def test_without_the_option_the_run_is_reported_as_a_whole(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = write_plan(tmp_path)
    plain, profiled = document(capsys, plan), document(capsys, plan, "--profile")
    assert profiled.pop("groups")
    assert plain == profiled


def test_the_table_names_groups_and_stalls(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = output(capsys, write_plan(tmp_path), "--profile")
    assert "relu + exp" in page
    assert "groups of the last run" in page
    assert "vector operand" in page


def test_on_this_machine_groups_are_timed_and_nothing_else_is_claimed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_plan(tmp_path)
    asked = (tmp_path / "net.onnx", "--target", "cpu", "--threads", "1", "--profile")
    found = document(capsys, *asked)
    assert found["energy_fj"] is found["dram_bytes"] is None
    groups = found["groups"]
    assert [name for group in groups for name in group["operators"]] == [
        "relu",
        "exp",
        "reshape",
        "tanh",
    ]
    assert found["roofline"]["bound_fraction"] > 0
    assert sum(group["share"] for group in groups) == pytest.approx(1)
    for group in groups:
        assert group["energy_fj"] is group["dram_bytes"] is None
        assert group["fraction"] == pytest.approx(group["bound_seconds"] / group["seconds"])
        assert group["limit"] in ("arithmetic", "memory", "cache")
        assert sum(group["steps"].values()) == pytest.approx(1)


def test_the_table_of_this_machine_says_what_a_cpu_does_not_tell(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_plan(tmp_path)
    page = output(capsys, tmp_path / "net.onnx", "--target", "cpu", "--threads", "1", "--profile")
    assert "a CPU does not tell" in page
    assert "of bound" in page and "time by step" in page
