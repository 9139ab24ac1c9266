"""Bad input costs one clear line on stderr that names the place and the way out, and exit code 2."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from autotune.cli.main import main
from autotune.datasets import light_path

Refused = Callable[..., str]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A fresh store for every test."""
    folder = tmp_path / "home"
    monkeypatch.setenv("AUTOTUNE_HOME", str(folder))
    return folder


@pytest.fixture
def refused(capsys: pytest.CaptureFixture[str]) -> Refused:
    """Runs a command that must be refused; returns the one line that it prints."""

    def run(*arguments: object) -> str:
        with pytest.raises(SystemExit) as exit_info:
            main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        assert exit_info.value.code == 2, captured.err
        lines = [line for line in captured.err.splitlines() if line.startswith("autotune: error: ")]
        assert len(lines) == 1, captured.err
        assert "Traceback" not in captured.err
        assert captured.out == ""
        return lines[0]

    return run


def model(path: Path, nodes: list[onnx.NodeProto], shape: list[int | str]) -> Path:
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph(nodes, "net", [x], [y])
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    path.write_bytes(proto.SerializeToString())
    return path


def test_a_missing_file_is_named(refused: Refused, tmp_path: Path) -> None:
    assert "nothing.onnx" in refused("explain", tmp_path / "nothing.onnx")


def test_a_file_that_is_not_onnx_is_named(refused: Refused, tmp_path: Path) -> None:
    path = tmp_path / "text.onnx"
    path.write_text("this is a letter, not a network\n" * 20)
    assert "text.onnx" in refused("explain", path)


def test_a_truncated_network_is_named(refused: Refused, tmp_path: Path) -> None:
    path = tmp_path / "half.onnx"
    whole = light_path("light_squeezenet").read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    assert "half.onnx" in refused("explain", path)


def test_a_cyclic_graph_is_refused(refused: Refused, tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Add", ["x", "b"], ["a"], "first"),
        helper.make_node("Relu", ["a"], ["b"], "second"),
        helper.make_node("Relu", ["b"], ["y"], "third"),
    ]
    assert "cycle" in refused("explain", model(tmp_path / "cycle.onnx", nodes, [2, 3]))


def test_an_unsupported_operator_is_named_with_its_node_and_the_list(
    refused: Refused, tmp_path: Path
) -> None:
    nodes = [helper.make_node("Det", ["x"], ["y"], "my_node")]
    line = refused("explain", model(tmp_path / "det.onnx", nodes, [3, 3]))
    assert "my_node" in line
    assert "Det" in line
    assert "autotune doctor --operators" in line


def test_an_unbound_dimension_is_named_with_the_option_that_binds_it(
    refused: Refused, tmp_path: Path
) -> None:
    nodes = [helper.make_node("Relu", ["x"], ["y"], "r")]
    line = refused("explain", model(tmp_path / "dyn.onnx", nodes, ["batch", 3]))
    assert "--dim batch=" in line


@pytest.mark.parametrize("option", ["batch", "batch=", "batch=0", "=3", "batch=x"])
def test_a_malformed_dimension_is_refused(refused: Refused, option: str) -> None:
    assert "--dim" in refused("explain", "light_squeezenet", "--dim", option)


@pytest.mark.parametrize(
    ("old", "new", "named"),
    [
        ("rows = 16", "", "rows"),
        ("rows = 16", "rows = -4", "matrix.rows"),
        ("rows = 16", 'rows = "many"', "rows"),
        ("rows = 16", "rows = 16\nwheels = 4", "wheels"),
        ("[matrix]", "[matrix", "spec.toml"),
    ],
)
def test_a_spec_with_a_missing_or_absurd_number_is_refused(
    refused: Refused, tmp_path: Path, old: str, new: str, named: str
) -> None:
    import autotune.targets

    text = (Path(autotune.targets.__file__).parent / "specs" / "edge.toml").read_text()
    assert old in text
    path = tmp_path / "spec.toml"
    path.write_text(text.replace(old, new, 1))
    line = refused("targets", "check", path)
    assert named in line
    assert "spec.toml" in line


def test_an_unknown_target_lists_the_shipped_ones(refused: Refused) -> None:
    assert "edge" in refused("calibrate", "--target", "nowhere")


def test_searching_before_calibrating_says_what_to_run(refused: Refused) -> None:
    assert "autotune calibrate" in refused("search", "light_squeezenet", "--out", os.devnull)


def plan_text(profile: str) -> str:
    return json.dumps(
        {
            "schema": 1,
            "network": "n",
            "model": None,
            "fingerprint": "f",
            "target": "edge",
            "profile_id": profile,
            "objective": "latency",
            "groups": [
                {
                    "operators": ["a"],
                    "outputs": ["b"],
                    "schedule": None,
                    "predicted_cycles": 0.0,
                    "measured_cycles": None,
                    "energy_fj": None,
                    "dram_bytes": None,
                }
            ],
        }
    )


def test_a_plan_for_another_hardware_profile_is_refused(refused: Refused, tmp_path: Path) -> None:
    path = tmp_path / "other.plan"
    path.write_text(plan_text("0123456789abcdef"))
    line = refused("run", path)
    assert "0123456789abcdef" in line
    assert "search again" in line


@pytest.mark.parametrize("text", ["", "{}", "[1]", '{"schema": 99}', '{"schema": 1}', "\x00\x01"])
def test_a_broken_plan_is_refused(refused: Refused, tmp_path: Path, text: str) -> None:
    path = tmp_path / "broken.plan"
    path.write_text(text)
    assert "broken.plan" in refused("run", path)


def test_a_corrupt_store_is_named_and_left_as_it_is(refused: Refused, home: Path) -> None:
    home.mkdir()
    database = home / "autotune.db"
    database.write_bytes(b"not a database" * 100)
    assert "autotune.db" in refused("store", "info")
    assert database.read_bytes() == b"not a database" * 100


def test_a_store_in_a_place_that_is_not_a_folder_is_refused(
    refused: Refused, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "file"
    place.write_text("")
    monkeypatch.setenv("AUTOTUNE_HOME", str(place))
    assert "file" in refused("calibrate", "--budget", "5")


def test_inputs_that_are_not_npz_are_refused(refused: Refused, tmp_path: Path) -> None:
    from autotune.cli.run_arrays import read_inputs
    from autotune.errors import InputError

    path = tmp_path / "x.npz"
    path.write_text("no archive")
    with pytest.raises(InputError, match=r"x\.npz"):
        read_inputs(path)
    np.savez(path, x=np.zeros(3, np.float32))
    assert list(read_inputs(path)) == ["x"]


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["run"], "plan"),
        (["run", "x", "--repeat", "often"], "--repeat"),
        (["run", "x", "--often"], "--often"),
        (["ran"], "ran"),
    ],
)
def test_wrong_arguments_are_named_and_exit_with_2(
    arguments: list[str], named: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as exit_info:
        main(arguments)
    assert exit_info.value.code == 2
    assert named in capsys.readouterr().err.splitlines()[-1]


def test_interrupting_exits_with_130_and_one_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from autotune import api

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(api, "calibrate", interrupted)
    with pytest.raises(SystemExit) as exit_info:
        main(["calibrate"])
    assert exit_info.value.code == 130
    assert "kept" in capsys.readouterr().err
