"""``autotune explain --build``: tasks, criteria of fusions, limits; errors in one line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from autotune.cli.main import main
from tests.cli.plan_case import GROUPS, write_plan


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AUTOTUNE_HOME", str(tmp_path / "home"))


def ran(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    capsys.readouterr()
    with pytest.raises(SystemExit) as exit_info:
        main([*map(str, arguments)])
    captured = capsys.readouterr()
    assert isinstance(exit_info.value.code, int)
    return exit_info.value.code, captured.out, captured.err


def test_a_plan_tells_its_tasks_and_why_each_fusion_pays(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = write_plan(tmp_path)
    code, out, err = ran(capsys, "explain", plan, "--build", "--cores", "1", "--json")
    assert code == 0, err
    told = json.loads(out)
    assert told["threads"] == 1 and told["programs_on_disk"] == 0
    fused = [group for group in GROUPS if len(group) > 1]
    assert {tuple(one["operators"]) for one in told["fusions"]} == set(fused)
    for one in told["fusions"]:
        assert one["payoff"]["saved_bytes"] > 0 and one["payoff"]["overlap_seconds"] >= 0
        assert 0 < one["scratchpad_bytes"] <= one["scratchpad_limit_bytes"]
    again = json.loads(ran(capsys, "explain", plan, "--build", "--json")[1])
    assert again["programs_on_disk"] == again["programs"] > 0


def test_the_text_names_stages_and_fusions(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = ran(capsys, "explain", write_plan(tmp_path), "--build")
    assert code == 0
    for word in ("lower", "interpreter", "pays µs", "bytes saved", "beside", "reserved at most"):
        assert word in out


def test_measured_fusions_tell_what_they_save(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = write_plan(tmp_path)
    code, out, err = ran(capsys, "explain", plan, "--build", "--measure", "--json")
    assert code == 0, err
    told = json.loads(out)
    assert told["stages"]["measure"]["tasks"] > 0
    for one in told["fusions"]:
        assert one["trial"]["fused_cycles"] <= one["trial"]["apart_cycles"]
    assert len(told["fusions"]) + len(told["split"]) == sum(len(group) > 1 for group in GROUPS)
    assert all("its operators apart" in one["reason"] for one in told["split"])
    out = ran(capsys, "explain", plan, "--build", "--measure")[1]
    assert "measure" in out and "saves" in out


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (("--measure",), "--measure is for --build"),
        (("--build", "--memory", "1MB"), "allow at least"),
        (("--build", "--memory", "lots"), "memory='lots' is no size"),
        (("--build", "--group", "0"), "leave --group out"),
        (("--cores", "2"), "--cores is for --build"),
    ],
)
def test_what_cannot_be_done_is_one_line(
    arguments: tuple[str, ...], part: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = ran(capsys, "explain", write_plan(tmp_path), *arguments)
    assert code == 2 and not out and part in err and len(err.strip().splitlines()) == 1


def test_run_builds_within_its_limits(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan = write_plan(tmp_path)
    assert ran(capsys, "run", plan, "--cores", "1", "--memory", "8GiB", "--check")[0] == 0
    code, _, err = ran(capsys, "run", plan, "--memory", "1MB")
    assert code == 2 and "allow at least" in err
