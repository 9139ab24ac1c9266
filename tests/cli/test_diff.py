"""``autotune diff``: two plans as text and JSON, and one line for plans that cannot be compared."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from autotune.cli.main import main
from tests.cli.plan_case import write_plan


def ran(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    capsys.readouterr()
    with pytest.raises(SystemExit) as exit_info:
        main(["diff", *map(str, arguments)])
    captured = capsys.readouterr()
    assert isinstance(exit_info.value.code, int)
    return exit_info.value.code, captured.out, captured.err


def split(plan: Path) -> Path:
    """A plan like the given one, with its first group's two operators apart."""
    document = json.loads(plan.read_text())
    groups = document["graphs"][0]["groups"]
    whole = groups.pop(0)
    for name, tensor in (("exp", "b"), ("relu", "a")):
        groups.insert(0, whole | {"operators": [name], "outputs": [tensor]})
    path = plan.with_name("apart.plan")
    path.write_text(json.dumps(document))
    return path


def test_the_groups_that_differ_are_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = write_plan(tmp_path)
    code, out, _ = ran(capsys, plan, split(plan), "--json")
    told = json.loads(out)
    (change,) = told["changes"]
    assert code == 0 and told["groups_equal"] == 2
    assert change["kind"] == "grouping" and change["operators"] == ["relu", "exp"]
    assert change["second"]["groups"] == [["relu"], ["exp"]]
    code, out, _ = ran(capsys, plan, tmp_path / "apart.plan")
    assert code == 0 and "relu, exp" in out and "#0(2) → #0(1) #1(1)" in out


def test_equal_plans_are_said_to_be_equal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = write_plan(tmp_path)
    code, _, err = ran(capsys, plan, plan)
    assert code == 0 and "the plans are equal: 3 groups" in err


def test_plans_that_cannot_be_compared_cost_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = write_plan(tmp_path)
    other = tmp_path / "other.plan"
    other.write_text(plan.read_text().replace('"profile_id": "', '"profile_id": "x'))
    for arguments in ((plan, other), (plan, tmp_path / "none.plan"), (plan, tmp_path / "net.onnx")):
        code, out, err = ran(capsys, *arguments)
        assert code == 2 and not out and err.count("\n") == 1, err
