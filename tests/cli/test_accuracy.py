"""``--accuracy`` of run, calibrate and search: what it allows, and that plans keep it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from autotune.cli.main import main
from autotune.graph.accuracy import Accuracy
from autotune.targets import opening
from autotune.tuner.plan import Plan


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A user's folder of these tests, which measure this machine once."""
    return tmp_path_factory.mktemp("home")


@pytest.fixture(autouse=True)
def home(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is the user's folder of every test."""
    monkeypatch.setenv("AUTOTUNE_HOME", str(folder))


def document(capsys: pytest.CaptureFixture[str], *arguments: object, code: int = 0) -> Any:
    capsys.readouterr()
    with pytest.raises(SystemExit) as exit_info:
        main([*map(str, arguments), "--json"])
    captured = capsys.readouterr()
    assert exit_info.value.code == code, captured.err
    return json.loads(captured.out) if code == 0 else captured.err


def convolution(folder: Path) -> Path:
    """A network of one 3×3 convolution, which Winograd's algorithm is made for."""
    weights = np.random.default_rng(0).standard_normal((64, 64, 3, 3)).astype(np.float32) / 24
    node = helper.make_node("Conv", ["x", "w"], ["y"], "conv", pads=[1, 1, 1, 1])
    ends = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, (1, 64, 28, 28)) for name in "xy"
    ]
    graph = helper.make_graph(
        [node], "conv", ends[:1], ends[1:], [numpy_helper.from_array(weights, "w")]
    )
    path = folder / "conv.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
    return path


def kinds(found: Any) -> set[str]:
    return {kind for group in found["groups"] for kind in group["kinds"]}


HERE = ("--target", "cpu", "--threads", "1", "--check", "--profile")


def test_only_fast_runs_allow_winograds_convolutions(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    network = convolution(tmp_path)
    exact = document(capsys, "run", network, *HERE, "--accuracy", "exact")
    fast = document(capsys, "run", network, *HERE, "--accuracy", "fast")
    assert "winograd_conv" not in kinds(exact) and "conv" in kinds(exact)
    assert "winograd_conv" in kinds(fast) and "conv" not in kinds(fast)
    for found in (exact, fast):
        assert all(output["ok"] for output in found["check"].values())


def test_fast_outputs_differ_by_rounding_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    network = convolution(tmp_path)
    for accuracy in ("exact", "fast"):
        out = tmp_path / f"{accuracy}.npz"
        document(capsys, "run", network, *HERE, "--accuracy", accuracy, "--out", out)
    with np.load(tmp_path / "exact.npz") as exact, np.load(tmp_path / "fast.npz") as fast:
        difference = np.abs(exact["y"] - fast["y"]).max() / np.ptp(exact["y"])
    assert 0 < difference < 2e-5


@pytest.mark.parametrize("command", [("run", "mlp"), ("search", "mlp"), ("calibrate",)])
def test_an_unknown_accuracy_is_refused_with_the_choices(
    command: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    said = document(capsys, *command, "--accuracy", "sloppy", code=2)
    assert "sloppy" in said and all(choice in said for choice in Accuracy)


@pytest.mark.slow
def test_a_plan_keeps_the_accuracy_that_it_was_searched_with(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    network, target = convolution(tmp_path), channels_last(tmp_path)
    common = ("--target", target, "--accuracy", "fast")
    document(capsys, "calibrate", *common, "--budget", 60, "--models", network)
    plan = tmp_path / "conv.plan"
    effort = ("--trials", 4, "--measure", 4, "--out", plan)
    found = document(capsys, "search", network, *common, *effort)
    assert {kind for group in found["groups"] for kind in group["kinds"]} >= {"winograd_conv"}
    assert Plan.load(plan).accuracy is Accuracy.CLOSE  # the strictest that allows its operators
    run = document(capsys, "run", plan, "--target", target, "--check")
    assert all(output["ok"] for output in run["check"].values())


def channels_last(folder: Path) -> Path:
    """The spec `edge` with its images as [N, H, W, C], the layout that Winograd's convolutions want."""
    shipped = Path(opening.__file__).parent / "specs" / "edge.toml"
    path = folder / "last.toml"
    path.write_text(
        'layout = "channels_last"\n' + shipped.read_text("utf-8").replace('"edge"', '"last"', 1)
    )
    return path
