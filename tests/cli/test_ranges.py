"""``--range`` of explain and run: what it removes, and that it is kept to."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from autotune.cli.main import main
from tests.cli.plan_case import write_plan
from tests.runtime.control_case import BRANCH, model_of


def outcome(*arguments: object) -> object:
    with pytest.raises(SystemExit) as ended:
        main([*map(str, arguments)])
    return ended.value.code


@pytest.fixture
def network(tmp_path: Path) -> Path:
    nodes = [
        helper.make_node("Relu", ["x"], ["r"], "the_relu"),
        helper.make_node("Exp", ["r"], ["y"]),
    ]
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, [2, 3]) for n in "xy")
    model = helper.make_model(helper.make_graph(nodes, "g", [x], [y]))
    onnx.save(model, tmp_path / "g.onnx")
    return tmp_path / "g.onnx"


def test_explain_says_what_a_range_removes(
    network: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert outcome("explain", network, "--json") == 0
    assert "the_relu" not in capsys.readouterr().out
    assert outcome("explain", network, "--range", "x=0:1", "--json") == 0
    assert "the_relu" in capsys.readouterr().out


@pytest.mark.parametrize("option", ["x", "x=0", "x=a:b", "=0:1", "x=0:1:2"])
def test_what_is_no_range_is_refused(
    option: str, network: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert outcome("explain", network, "--range", option) == 2
    assert "NAME=LOW:HIGH" in capsys.readouterr().err


def test_run_draws_inputs_within_their_range(network: Path) -> None:
    options = ["run", network, "--target", "cpu", "--threads", 1, "--check"]
    assert outcome(*options, "--range", "x=0.25:0.5") == 0


@pytest.fixture
def negative(tmp_path: Path) -> Path:
    """Inputs that the removed operator would have changed."""
    np.savez(tmp_path / "x.npz", x=np.linspace(-2, 1, 6, dtype=np.float32).reshape(2, 3))
    return tmp_path / "x.npz"


def test_run_refuses_inputs_outside_of_their_range(
    network: Path, negative: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["run", network, "--target", "cpu:1", "--range", "x=0:1", "--inputs", negative]
    assert outcome(*options) == 2
    assert "--outside general" in capsys.readouterr().err


def test_run_outside_general_runs_and_checks_the_network_without_ranges(
    network: Path, negative: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "y.npz"
    options = ["run", network, "--target", "cpu:1", "--range", "x=0:1", "--outside", "general"]
    assert outcome(*options, "--check", "--inputs", negative, "--out", out) == 0
    assert "the network without ranges ran" in capsys.readouterr().err
    with np.load(negative) as fed, np.load(out) as made:
        np.testing.assert_allclose(made["y"], np.exp(np.maximum(fed["x"], 0)), rtol=1e-5)


def test_run_within_ranges_has_no_need_of_the_network_without(
    network: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--range", "x=0.25:0.5", "--outside", "general"]
    assert outcome("run", network, "--target", "cpu:1", *options) == 0
    assert "without ranges" not in capsys.readouterr().err


def test_explain_refuses_a_range_that_it_would_not_look_at(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert outcome("explain", write_plan(tmp_path), "--range", "x=0:1") == 2
    assert "a plan keeps its range; leave --range out" in capsys.readouterr().err
    onnx.save(model_of(BRANCH), tmp_path / "tree.onnx")
    assert outcome("explain", tmp_path / "tree.onnx", "--dim", "N=2", "--range", "x=0:1") == 2
    assert "--range is for networks without control flow" in capsys.readouterr().err


def test_run_refuses_a_range_beside_a_plan_of_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = write_plan(tmp_path)
    assert outcome("run", plan, "--range", "x=0:1") == 2
    assert "was made for the ranges {}, got {'x': (0.0, 1.0)}" in capsys.readouterr().err


@pytest.fixture
def pruned(tmp_path: Path) -> Path:
    """A dense layer with half of its blocks zero."""
    weight = np.zeros((64, 64), np.float32)
    weight[:32] = 1.0
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"], "layer")]
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, [3, 64]) for n in "xy")
    held = [onnx.numpy_helper.from_array(weight, "w")]
    onnx.save(helper.make_model(helper.make_graph(nodes, "g", [x], [y], held)), tmp_path / "p.onnx")
    return tmp_path / "p.onnx"


@pytest.mark.parametrize("option", [("--range", "x=0:1"), ("--accuracy", "fast")])
def test_explain_counts_the_zero_blocks_that_may_be_left_out(
    option: tuple[str, str], pruned: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert outcome("explain", pruned, "--json") == 0
    assert "zero-blocks" not in capsys.readouterr().out
    assert outcome("explain", pruned, *option, "--json") == 0
    assert "up to 2 of 4 blocks of w" in capsys.readouterr().out


def test_explain_refuses_an_accuracy_that_it_would_ignore(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert outcome("explain", write_plan(tmp_path), "--accuracy", "fast") == 2
    assert "leave --accuracy out" in capsys.readouterr().err


def test_run_serves_a_class_of_inputs_by_a_variant_and_says_so(
    network: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["run", network, "--target", "edge", "--check", "--assume", "x=0:1"]
    assert outcome(*options) == 0
    shown = capsys.readouterr()
    assert "x 0 to 1" in shown.out + shown.err


@pytest.mark.parametrize("option", ["x", "x=twos", "x=a:b", "=ones", "x=0:1:2"])
def test_what_is_no_class_is_refused(
    option: str, network: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert outcome("run", network, "--target", "cpu:1", "--assume", option) == 2
    assert "attention_mask=ones" in capsys.readouterr().err
