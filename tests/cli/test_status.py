"""``autotune status`` shows the sessions of live processes as tables, as JSON and as metrics."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from autotune.cli.main import main
from autotune.disk.home import status_folder
from autotune.runtime.profile.status_file import write_status
from autotune.runtime.session.session import Session
from tests.runtime import runtime_case as case
from tests.runtime.session.test_session import GRAPH, plan_for


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AUTOTUNE_HOME", str(tmp_path))


def said(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> tuple[str, str]:
    capsys.readouterr()
    with pytest.raises(SystemExit) as ending:
        main(["status", *arguments])
    assert ending.value.code == code
    told = capsys.readouterr()
    return told.out, told.err


def run_and_write(runs: int = 5) -> dict[str, Any]:
    """A session's status, told by this process."""
    with Session(GRAPH, case.InterpretedTarget(), plan=plan_for(GRAPH)) as session:
        for _ in range(runs):
            session.run(case.inputs(GRAPH))
        document = session.status().to_json()
    assert write_status([document], 1.0, status_folder())
    return document


def test_no_session_is_no_error(capsys: pytest.CaptureFixture[str]) -> None:
    out, err = said(capsys)
    assert out == "" and "no session is open" in err
    assert json.loads(said(capsys, "--json")[0]) == {"processes": []}
    assert said(capsys, "--prometheus")[0] == ""


def test_tables_json_and_metrics_tell_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    document = run_and_write()
    text, _ = said(capsys, "--groups", "2")
    assert "small" in text and "edge" in text and f"groups (2 of {len(document['groups'])})" in text
    (process,) = json.loads(said(capsys, "--json")[0])["processes"]
    assert process["sessions"] == [json.loads(json.dumps(document))]
    metrics = said(capsys, "--prometheus")[0]
    assert metrics.count("autotune_group_executions_total{") == len(document["groups"])
    assert "} 5\n" in metrics


def test_two_formats_at_once_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    _, err = said(capsys, "--json", "--prometheus", code=2)
    assert err.count("\n") == 1 and "leave one out" in err


@pytest.mark.parametrize("option", ["--json", "--prometheus", "--groups=1"])
def test_watching_shows_again_until_it_is_interrupted(
    option: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run_and_write()
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr("autotune.cli.commands.status.time.sleep", sleep)
    out, err = said(capsys, "--watch", "--interval", "0.5", option)
    assert slept == [0.5, 0.5, 0.5] and err == ""
    assert out.count("small") >= 3


def test_a_learning_session_names_its_model_and_how_sure_it_is(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with Session(GRAPH, case.InterpretedTarget(), plan=plan_for(GRAPH), online=True) as session:
        session.run(case.inputs(GRAPH))
        status = session.status()
    assert status.model is not None and status.model.kind == "shipped"
    assert 0.0 < status.model.held_out_error < 0.2
    document = status.to_json() | {"model_version": 37}
    write_status([document], 1.0, status_folder())
    row = next(line for line in said(capsys)[0].splitlines() if "shipped" in line)
    assert f"{status.model.held_out_error:.1%}" in row and "37" in row
    write_status([document | {"model": None}], 1.0, status_folder())
    assert "cost models" not in said(capsys)[0]
