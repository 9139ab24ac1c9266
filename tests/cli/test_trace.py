"""``autotune run --trace``: every program of the plan in a trace file, the run as it was without."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from autotune.cli.main import main
from tests.cli.plan_case import write_plan


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A user's folder of its own for every test."""
    monkeypatch.setenv("AUTOTUNE_HOME", str(tmp_path / "home"))


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    return write_plan(tmp_path)


def run(*arguments: object, code: int = 0) -> None:
    with pytest.raises(SystemExit) as exit_info:
        main(["run", *map(str, arguments)])
    assert exit_info.value.code == code


def slices(path: Path, category: str) -> list[dict[str, Any]]:
    data = path.read_bytes()
    document = json.loads(gzip.decompress(data) if path.suffix == ".gz" else data)
    return [event for event in document["traceEvents"] if event.get("cat") == category]


@pytest.mark.parametrize("name", ["out.json", "out.json.gz"])
def test_a_trace_holds_the_groups_of_the_plan_one_after_the_other(
    plan: Path, tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    run(plan, "--json")
    without = json.loads(capsys.readouterr().out)
    run(plan, "--json", "--check", "--trace", tmp_path / name)
    captured = capsys.readouterr()
    found = json.loads(captured.out)
    assert found["cycles"] == without["cycles"]
    assert found["check"]["y"]["ok"]
    assert all(line.endswith("…") for line in captured.err.splitlines())  # progress, if it was slow
    groups = slices(tmp_path / name, "group")
    assert [group["name"] for group in groups] == ["relu + exp", "tanh"]
    assert sum(group["args"]["cycles"] for group in groups) == found["cycles"]
    vector = slices(tmp_path / name, "vector")
    assert {event["args"]["group"] for event in vector} == {"relu + exp", "tanh"}


def test_dropped_events_are_told_with_the_limit_that_keeps_them(
    plan: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "out.json"
    run(plan, "--trace", path, "--trace-limit", 3)
    (line,) = capsys.readouterr().err.splitlines()
    assert str(path) in line
    enough = line.split("--trace-limit to ")[1].split()[0]
    run(plan, "--trace", path, "--trace-limit", enough)
    assert capsys.readouterr().err == ""
    run(plan, "--trace", path, "--trace-limit", int(enough) - 1)
    assert "1 events beyond the limit" in capsys.readouterr().err


def test_a_trace_that_cannot_be_written_is_refused_before_the_run(
    plan: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for place in (tmp_path, tmp_path / "absent" / "out.json"):
        run(plan, "--trace", place, code=2)
        captured = capsys.readouterr()
        assert captured.out == ""
        assert captured.err.startswith(f"autotune: error: {place}: ")


def test_a_limit_below_one_is_refused(plan: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(plan, "--trace", "x.json", "--trace-limit", 0, code=2)
    assert "--trace-limit" in capsys.readouterr().err
