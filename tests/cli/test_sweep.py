"""``autotune sweep`` through the command line: table, JSON, page, bad input, Ctrl-C."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from autotune.cli.main import main
from autotune.tuner.machines import search_point, sweep

SWEEP = ("--set", "dram.bytes_per_cycle=6.4,12.8", "--target", "edge", "--measure", "16")


@pytest.fixture
def network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A small ONNX file, in a folder and a home of the test's."""
    monkeypatch.setenv("AUTOTUNE_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    weight = numpy_helper.from_array(np.ones((64, 64), np.float32), "w")
    ends = [helper.make_tensor_value_info(e, TensorProto.FLOAT, [16, 64]) for e in ("x", "y")]
    nodes = [helper.make_node("MatMul", ["x", "w"], ["z"]), helper.make_node("Relu", ["z"], ["y"])]
    graph = helper.make_graph(nodes, "net", ends[:1], ends[1:], [weight])
    opsets = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), "net.onnx")
    return "net.onnx"


def ended(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[Any, str, str]:
    capsys.readouterr()
    with pytest.raises(SystemExit) as exit_info:
        main(list(arguments))
    captured = capsys.readouterr()
    return exit_info.value.code, captured.out, captured.err


def test_a_sweep_prints_a_table_and_writes_a_page(
    network: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = ended(capsys, "sweep", network, *SWEEP)
    assert code == 0, err
    assert "edge, 2 of 2 machines" in out and "dram.bytes_per_cycle" in out
    assert (
        "sweep net.onnx --target edge --set dram.bytes_per_cycle=6.4,12.8"
        in Path("sweep.html").read_text()
    )
    code, out, err = ended(capsys, "sweep", network, *SWEEP, "--json")
    document = json.loads(out)
    assert code == 0 and document["complete"]
    slow, fast = (point["networks"][0] for point in document["points"])
    assert slow["cycles"] > fast["cycles"] and slow["busiest"] == "DRAM"


def test_ctrl_c_prints_what_is_done_and_the_next_run_goes_on(
    network: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    real, calls = search_point.searched, []

    def second_is_interrupted(*args: Any) -> Any:
        calls.append(args)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return real(*args)

    monkeypatch.setattr(sweep, "searched", second_is_interrupted)
    code, out, err = ended(capsys, "sweep", network, *SWEEP, "--json")
    document = json.loads(out)
    assert code == 130 and "interrupted" in err
    assert not document["complete"] and len(document["points"]) == 1
    code, out, _ = ended(capsys, "sweep", network, *SWEEP, "--json")
    assert code == 0 and len(json.loads(out)["points"]) == 2


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--set", "dram.bytes=1"], "dram has: dram.bytes_per_cycle"),
        (["--set", "scratchpad.banks=3"], "scratchpad.banks: 3 is not a power of two"),
        (["--set", "cores=1", "--set", "cores=2"], "cores: set twice"),
        (["--set", "cores=1", "--target", "cpu"], "no shipped model knows machines with cached"),
        (["--set", "dram.bytes=1", "--target", "cpu"], "no shipped model knows machines with"),
        (["--set", "cores=1", "--target", "nothing"], "no target is named 'nothing'"),
        (["--set", "cores=1", "--out", "net.onnx"], "net.onnx"),
        ([], "--set"),
    ],
)
def test_bad_input_is_one_line(
    network: str, arguments: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = ended(capsys, "sweep", network, "--target", "edge", *arguments)
    lines = [line for line in err.splitlines() if line.startswith("autotune: error")]
    assert code == 2 and not out and len(lines) == 1 and told in lines[0]
