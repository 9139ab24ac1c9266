"""The main job through the command line: calibrate, search, run, explain, on a small budget."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from autotune.cli.main import main

pytestmark = pytest.mark.slow  # measures and trains

Command = Callable[..., Any]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with a small calibration of `edge`, and a plan of the MLP."""
    folder = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AUTOTUNE_HOME", str(folder))
        for arguments in (
            ["calibrate", "--target", "edge", "--budget", "300", "--models", "mlp", "--json"],
            [
                "search",
                "mlp",
                "--target",
                "edge",
                "--trials",
                "20",
                "--measure",
                "16",
                "--out",
                str(folder / "mlp.plan"),
            ],
        ):
            with pytest.raises(SystemExit) as exit_info:
                main(arguments)
            assert exit_info.value.code == 0
    return folder


@pytest.fixture
def command(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Command:
    """Runs a command with --json; returns the document on its stdout."""
    monkeypatch.setenv("AUTOTUNE_HOME", str(home))

    def run(*arguments: object, code: int = 0) -> Any:
        capsys.readouterr()
        with pytest.raises(SystemExit) as exit_info:
            main([*(str(a) for a in arguments), "--json"])
        captured = capsys.readouterr()
        assert exit_info.value.code == code, captured.err
        return json.loads(captured.out)

    return run


def test_search_prints_the_promised_figures(command: Command, home: Path) -> None:
    out = home / "again.plan"
    found = command(
        "search", "mlp", "--target", "edge", "--trials", 10, "--measure", 40, "--out", out
    )
    for name in ("measured", "predicted", "energy", "dram_bytes"):
        assert set(found[name]) == {"unfused", "greedy", "heuristic", "found"}
    measured = found["measured"]
    assert measured["found"] <= min(measured["greedy"], measured["unfused"])
    assert {"operators", "schedule", "predicted", "measured"} <= set(found["groups"][0])
    assert out.exists()
    page = out.with_suffix(".html").read_text()
    assert page.startswith(("<!DOCTYPE html>", "<!doctype html>"))


def test_run_checks_the_plan_against_the_reference(command: Command, home: Path) -> None:
    found = command("run", home / "mlp.plan", "--check", "--repeat", 2)
    assert found["cycles"] > 0
    assert all(output["ok"] for output in found["check"].values())


def test_run_fails_the_check_when_numbers_are_off(
    command: Command, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from autotune.graph import evaluation

    exact = evaluation.evaluate
    monkeypatch.setattr(
        "autotune.runtime.execution.reference_session.evaluate",
        lambda g, x, before_op: {k: v + 1 for k, v in exact(g, x, before_op).items()},
    )
    found = command("run", home / "mlp.plan", "--check", code=1)
    assert not any(output["ok"] for output in found["check"].values())


def test_run_reads_inputs_and_writes_outputs(command: Command, home: Path) -> None:
    from autotune import api
    from autotune.graph.evaluation import evaluate

    graph = api.load_network("mlp")
    rng = np.random.default_rng(3)
    feeds = {x: rng.standard_normal(graph.shape(x)).astype(np.float32) for x in graph.inputs}
    np.savez(home / "x.npz", **feeds)
    command("run", home / "mlp.plan", "--inputs", home / "x.npz", "--out", home / "y.npz")
    with np.load(home / "y.npz") as outputs:
        for name, value in evaluate(graph, feeds).items():
            np.testing.assert_allclose(outputs[name], value, rtol=1e-3, atol=1e-4)


def test_explain_and_predict_cover_every_operator(command: Command, home: Path) -> None:
    plan = command("explain", home / "mlp.plan")
    predicted = command("predict", "mlp", "--target", "edge")
    operators = [name for group in predicted["unfused"]["groups"] for name in group["operators"]]
    assert sorted(name for g in plan["groups"] for name in g["operators"]) == sorted(operators)
    assert predicted["greedy"]["cycles"] <= predicted["unfused"]["cycles"]
    low, seconds, high = (predicted[f"{x}_seconds"] for x in ("low", "predicted", "high"))
    assert 0.0 < low < seconds < high
    rows = (row for name in ("unfused", "greedy") for row in predicted[name]["groups"])
    for row in (row for row in rows if row["cycles"]):
        assert f"limited by the {row['limited_by']}" in row["reasons"][0]


def test_the_store_tells_what_it_holds(command: Command) -> None:
    info = command("store", "info")
    assert info["profiles"][0]["targets"] == ["edge"]
    assert sum(count for _, _, count in info["profiles"][0]["records"]) >= 300


def test_targets_and_doctor_speak_json(command: Command) -> None:
    assert {spec["name"] for spec in command("targets", "list")} >= {"edge", "mobile", "server"}
    assert command("targets", "show", "mobile")["derived"]["peak_gmacs"] == 1024
    assert "Conv" in command("doctor", "--operators")["operators"]
