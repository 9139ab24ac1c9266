"""The command line on networks with open dimensions and with control flow."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from autotune.cli.main import main
from autotune.cli.run_check import Difference, check_outputs
from autotune.runtime.session.session import Session
from tests.runtime.control_case import BRANCH, COUNTED, NESTED, model_of


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AUTOTUNE_HOME", str(tmp_path))


def saved(folder: Path, text: str, name: str = "net") -> Path:
    path = folder / f"{name}.onnx"
    onnx.save(model_of(text), path)
    return path


def ran(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[object, str, str]:
    """Exit code, stdout and stderr."""
    with pytest.raises(SystemExit) as exit_info:
        main(list(map(str, arguments)))
    captured = capsys.readouterr()
    lines = [line for line in captured.err.splitlines() if not line.endswith("…")]
    return exit_info.value.code, captured.out, "\n".join(lines)  # without progress, if it was slow


RELU = "relu (float[batch, 4] x, float[batch, 4] z) => (float[batch, 4] y) { s = Add (x, z) y = Relu (s) }"


def test_run_takes_open_dimensions_from_dim_or_from_the_inputs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = saved(tmp_path, RELU)
    arrays = tmp_path / "in.npz"
    np.savez(arrays, x=np.ones((3, 4), np.float32), z=np.ones((3, 4), np.float32))
    outputs = tmp_path / "out.npz"
    for way in (("--dim", "batch=3"), ("--inputs", arrays)):
        code, out, _ = ran(
            capsys, "run", path, "--target", "cpu:1", "--check", "--out", outputs, *way
        )
        assert code == 0 and "DIFFERS" not in out
        assert np.load(outputs)["y"].shape == (3, 4)


def test_run_refuses_an_open_dimension_and_contradicting_inputs_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = saved(tmp_path, RELU)
    code, _, err = ran(capsys, "run", path, "--target", "cpu:1")
    assert code == 2 and len(err.splitlines()) == 1
    assert "bind it with --dim batch=1, or give arrays with --inputs" in err
    arrays = tmp_path / "in.npz"
    np.savez(arrays, x=np.ones((3, 4), np.float32), z=np.ones((2, 4), np.float32))
    code, _, err = ran(capsys, "run", path, "--target", "cpu:1", "--inputs", arrays)
    assert code == 2 and "'batch' is 2 in input 'z' (axis 0) and 3 in input 'x' (axis 0)" in err


@pytest.mark.parametrize("text", [BRANCH, COUNTED, NESTED], ids=["branch", "counted", "nested"])
def test_run_checks_control_flow_and_says_what_its_parts_cost(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    path = saved(tmp_path, text)
    code, out, _ = ran(
        capsys, "run", path, "--target", "cpu:1", "--dim", "N=3", "--check", "--json", "--seed", "3"
    )
    told = json.loads(out)
    assert code == 0 and all(row["ok"] for row in told["check"].values())
    assert told["cycles"] == sum(part["cycles"] for part in told.get("parts", [told]))


SQRT = "sqrt (float[N] x) => (float[N] y) { y = Sqrt (x) }"


def test_the_check_takes_nans_and_infinities_that_the_reference_has_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arrays = tmp_path / "in.npz"
    np.savez(arrays, x=np.asarray([-1, 1, 4, np.inf], np.float32))
    code, out, _ = ran(
        capsys, "run", saved(tmp_path, SQRT), "--target", "cpu:1", "--inputs", arrays, "--check", "--json"
    )  # fmt: skip
    assert code == 0
    assert json.loads(out)["check"] == {"y": {"max_difference": 0.0, "ok": True, "rounding": 0.0}}


@pytest.mark.parametrize(
    ("given", "far"),
    [
        (np.float32([2, 1, np.inf, np.nan]), np.nan),
        (np.float32([np.nan, 1, 2.5, np.inf]), 0.5),
        (np.float32([np.nan, 1, 2]), np.inf),
        (None, np.inf),
        ([np.float32([np.nan, 1, 2, np.inf])], np.inf),
    ],
    ids=["NaN elsewhere", "another number", "another shape", "no value", "a sequence"],
)
def test_the_check_tells_outputs_from_the_reference(tmp_path: Path, given: Any, far: float) -> None:
    feeds = {"x": np.asarray([-1, 1, 4, np.inf], np.float32)}
    with Session(saved(tmp_path, SQRT), "cpu:1") as session:
        assert check_outputs(session, feeds, session.run(feeds))["y"] == Difference(0.0, True)
        found = check_outputs(session, feeds, {"y": given})["y"]
    np.testing.assert_equal((found.largest, found.is_tolerable), (far, False))


def test_a_profile_leaves_out_inputs_that_are_constants_of_the_programs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = saved(
        tmp_path,
        "bound (float[N, 4] x, int64[2] s) => (float[A, B] y) { h = Exp (x) y = Reshape (h, s) }",
    )
    arrays = tmp_path / "in.npz"
    np.savez(arrays, x=np.ones((3, 4), np.float32), s=np.asarray([2, 6]))
    code, out, err = ran(
        capsys, "run", path, "--target", "cpu:1", "--inputs", arrays, "--profile", "--json"
    )
    assert code == 0, err
    told = json.loads(out)
    assert [group["kinds"] for group in told["groups"]] == [["exp"]]
    assert told["roofline"]["runs"] >= 5


def test_a_profile_of_control_flow_is_one_of_every_part_that_ran(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, arrays = saved(tmp_path, BRANCH), tmp_path / "in.npz"
    np.savez(arrays, x=np.ones((3, 4), np.float32), pick=np.asarray(False))
    arguments = ("run", path, "--target", "cpu:1", "--inputs", arrays, "--profile")
    code, out, err = ran(capsys, *arguments, "--json")
    assert code == 0, err
    told = json.loads(out)
    assert told["profiles"].keys() == {part["name"] for part in told["parts"]}
    found = {
        kind for part in told["profiles"].values() for g in part["groups"] for kind in g["kinds"]
    }
    assert {"exp", "neg"} <= found and "relu" not in found
    code, out, err = ran(capsys, *arguments)
    assert code == 0 and all(
        f"{name}: groups, the least time of each" in out for name in told["profiles"]
    )


def test_explain_shows_the_tree_and_what_was_folded(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = ran(capsys, "explain", saved(tmp_path, NESTED), "--dim", "N=3", "--json")
    kinds = [(part["kind"], part["depth"]) for part in json.loads(out)["parts"]]
    assert code == 0
    assert kinds == [
        ("Loop", 0), ("piece", 1), ("If", 1), ("Loop", 2), ("piece", 3), ("piece", 2),
    ]  # fmt: skip
    fixed = NESTED.replace("(int64 trips, float[N] x)", "(float[N] x)").replace(
        "start = Const", "trips = Constant <value = int64 {2}> ()\n    start = Const"
    )
    code, out, _ = ran(capsys, "explain", saved(tmp_path, fixed, "fixed"), "--dim", "N=3", "--json")
    notes = [note for note in json.loads(out)["notes"] if note["pass"] == "control folding"]
    assert "it runs 2 times" in notes[0]["reason"]


@pytest.mark.slow
def test_search_tunes_every_part_and_its_plan_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from autotune.api import calibrate

    calibrate("edge", budget=64, models=())
    path, plan = saved(tmp_path, NESTED), tmp_path / "net.plan"
    code, out, err = ran(
        capsys, "search", path, "--target", "edge", "--dim", "N=64", "--trials", "5", "--measure", "8",
        "--out", plan, "--json",
    )  # fmt: skip
    assert code == 0, err
    parts = json.loads(out)["parts"]
    assert len(parts) == 3
    assert all(p["measured"]["found"] <= p["measured"]["unfused"] for p in parts)
    code, out, err = ran(capsys, "run", plan, "--check", "--json")
    assert code == 0, err
    code, out, err = ran(capsys, "explain", plan, "--json")
    assert code == 0 and len(json.loads(out)["plans"]) == 3


@pytest.mark.slow
def test_a_plan_keeps_the_dimensions_that_it_was_searched_with(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from autotune.api import calibrate

    calibrate("edge", budget=64, models=())
    path, plan = saved(tmp_path, RELU), tmp_path / "net.plan"
    few = ("--target", "edge", "--trials", "5", "--measure", "8", "--out", plan)
    assert ran(capsys, "search", path, "--dim", "batch=16", *few)[0] == 0
    code, out, _ = ran(capsys, "run", plan, "--check")
    assert code == 0 and "DIFFERS" not in out
