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
from autotune.targets import opening

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


def runnable(path: Path) -> Path:
    """y = Relu(x), of three numbers."""
    proto = onnx.load(model(path, [helper.make_node("Relu", ["x"], ["y"])], [3]))
    del proto.graph.output[:]
    proto.graph.output.append(helper.make_tensor_value_info("y", TensorProto.FLOAT, [3]))
    onnx.save(proto, path)
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


def test_seconds_for_a_machine_that_counts_name_the_options_that_bound_it(refused: Refused) -> None:
    line = refused("search", "mlp", "--target", "edge", "--seconds", "3", "--out", os.devnull)
    assert "on edge give trials and measure" in line


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


BROKEN = ["", "{}", "[1]", '{"schema": 99}', '{"schema": 1}', "\x00\x01", "[" * 10**5]
BROKEN += ['{"schema": 1, "groups": ' + "[" * 10**5, '{"tree": ' + "[" * 10**5]


@pytest.mark.parametrize("text", BROKEN, ids=range(len(BROKEN)))
def test_a_broken_plan_is_refused(refused: Refused, tmp_path: Path, text: str) -> None:
    path = tmp_path / "broken.plan"
    path.write_text(text)
    assert "broken.plan" in refused("run", path)


@pytest.mark.parametrize(
    ("field", "number"),
    [
        ("measured_cycles", "Infinity"),
        ("measured_cycles", "1e999"),
        ("predicted_cycles", "1" + "0" * 400),
        ("predicted_cycles", "NaN"),
        ("dims", '{"n": Infinity}'),
    ],
)
def test_a_plan_with_an_endless_number_is_refused(
    refused: Refused, tmp_path: Path, field: str, number: str
) -> None:
    plain = json.loads(plan_text("0123456789abcdef"))
    (plain if field == "dims" else plain["groups"][0])[field] = "HERE"
    path = tmp_path / "endless.plan"
    path.write_text(json.dumps(plain).replace('"HERE"', number))
    assert "endless.plan: not a plan" in refused("run", path)
    tree = {"tree": 1, "model": {"path": "x", "sha256": ""}, "dims": {}, "plans": ["PLAN"]}
    text = json.dumps(tree).replace('"PLAN"', path.read_text())
    path.write_text(text)
    assert "endless.plan: not a plan" in refused("run", path)


def test_pipes_are_refused_at_once(refused: Refused, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.onnx"
    os.mkfifo(pipe)
    for arguments in (["run", pipe], ["explain", pipe], ["search", pipe]):
        assert "is a device or pipe" in refused(*arguments)
    for suffix in (".plan", ".npz", ".toml", ".s"):
        os.mkfifo(tmp_path / f"pipe{suffix}")
    assert "is a device or pipe" in refused("run", tmp_path / "pipe.plan")
    assert "is a device or pipe" in refused("asm", tmp_path / "pipe.s")
    assert "is a device or pipe" in refused("targets", "check", tmp_path / "pipe.toml")
    good = runnable(tmp_path / "good.onnx")
    inputs = ("--inputs", tmp_path / "pipe.npz", "--target", "cpu:1")
    assert "is a device or pipe" in refused("run", good, *inputs)
    plain = json.loads(plan_text("0123456789abcdef"))
    plain |= {"model": {"path": str(pipe), "sha256": ""}, "target": "edge"}
    plain["profile_id"] = opening.load_spec("edge").profile_id
    (tmp_path / "a.plan").write_text(json.dumps(plain))
    assert "is a device or pipe" in refused("run", tmp_path / "a.plan")


def test_a_path_that_is_not_utf_8_is_opened(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = runnable(tmp_path / "bad\udcff.onnx")
    with pytest.raises(SystemExit) as exit_info:
        main(["run", str(path), "--target", "cpu:1", "--out", str(tmp_path / "\udcff.npz")])
    assert exit_info.value.code == 0, capsys.readouterr().err


def test_a_network_without_outputs_is_refused(refused: Refused, tmp_path: Path) -> None:
    path = runnable(tmp_path / "none.onnx")
    proto = onnx.load(path)
    del proto.graph.output[:]
    onnx.save(proto, path)
    assert "no outputs" in refused("run", path)


def test_an_operator_of_two_types_is_refused(refused: Refused, tmp_path: Path) -> None:
    path = runnable(tmp_path / "two.onnx")
    proto = onnx.load(path)
    proto.graph.node[0].CopyFrom(helper.make_node("Add", ["x", "n"], ["y"]))
    proto.graph.input.append(helper.make_tensor_value_info("n", TensorProto.INT64, [3]))
    onnx.save(proto, path)
    assert "Add of float32 and int64" in refused("run", path)


def test_the_home_of_an_unknown_user_is_refused(
    refused: Refused, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AUTOTUNE_HOME", "~no-such-user")
    assert "no such user" in refused("store", "info")


def test_an_empty_target_names_no_machine(refused: Refused) -> None:
    assert "no target is named ''" in refused("calibrate", "--target", "")


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["explain", "light_squeezenet", "--dim", "n=3", "--dim", "n=4"], "as 3 and as 4"),
        (["explain", "light_squeezenet", "--range", "x=0:1", "--range", "x=0:2"], "--range x"),
        (["calibrate", "--budget", "1" + "0" * 23], "--budget"),
        (["search", "x.onnx", "--trials", "1" + "0" * 23], "--trials"),
    ],
)
def test_contradictions_and_absurd_numbers_are_refused(
    refused: Refused, arguments: list[str], named: str
) -> None:
    assert named in refused(*arguments)


RECORDED = Path(__file__).parents[1] / "targets" / "recorded" / "convolution_A100.json.gz"


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--replay", "none.json"], "none.json"),
        (["--replay", __file__], "not a recorded tuning space"),
        (["--replay", RECORDED, "--evaluations", "0"], "--evaluations"),
        (["--replay", RECORDED, "--evaluations", "345"], "choose 1 to 344"),
        (["--replay", RECORDED, "--prior", __file__], "not a recorded tuning space"),
        (["--replay", RECORDED, "mlp"], "not the network 'mlp'"),
        (["--replay", RECORDED, "--target", "edge"], "--target is for the search of a network"),
        (["--replay", RECORDED, "--max-loss", "1%"], "--max-loss is for the search of a network"),
        (["--replay", RECORDED, "--dim", "n=3"], "leave it out with --replay"),
        (["mlp", "--evaluations", "9"], "--evaluations belongs to --replay"),
        ([], "one network"),
        (["mlp", "alexnet"], "one network"),
    ],
)
def test_searches_of_recorded_spaces_are_refused_in_one_line(
    refused: Refused, arguments: list[object], named: str
) -> None:
    assert named in refused("search", *arguments)


def test_errors_are_objects_with_json(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for arguments in (["run", str(tmp_path / "none.onnx")], ["run", "x", "--often"]):
        with pytest.raises(SystemExit) as exit_info:
            main([*arguments, "--json"])
        captured = capsys.readouterr()
        assert exit_info.value.code == 2
        *_, line = captured.err.splitlines()  # progress comes before
        assert line == f"autotune: error: {json.loads(captured.out)['error']}"


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
    from autotune.cli.npz import read_inputs
    from autotune.errors import InputError

    path = tmp_path / "x.npz"
    path.write_text("no archive")
    with pytest.raises(InputError, match=r"x\.npz"):
        read_inputs(path)
    np.savez(path, x=np.zeros(3, np.float32))
    assert list(read_inputs(path)) == ["x"]
    np.save(tmp_path / "x.npy", np.zeros(3, np.float32))
    with pytest.raises(InputError, match="one array without a name"):
        read_inputs(tmp_path / "x.npy")


def test_damage_anywhere_in_an_archive_is_one_line(tmp_path: Path) -> None:
    from autotune.cli.npz import read_inputs
    from autotune.errors import InputError

    path = tmp_path / "x.npz"
    np.savez_compressed(path, x=np.arange(500, dtype=np.float32))
    whole = path.read_bytes()
    refusals = 0
    for at in range(0, len(whole), 5):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x5A]) + whole[at + 1 :])
        try:
            read_inputs(path)
        except InputError:
            refusals += 1
    assert refusals > len(whole) // 10


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
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("autotune: error: ")
    assert named in line


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


@pytest.mark.parametrize(
    ("workers", "says"),
    [
        ("0", "workers = 0: give 1 to"),
        ("many", "or tcp://HOST:PORT of a Dask scheduler"),
        ("http://host:8787", "or tcp://HOST:PORT of a Dask scheduler"),
        ("tcp://host", "give tcp://HOST:PORT"),
    ],
)
@pytest.mark.parametrize("command", ["calibrate", "search mlp", "explore mlp", "sweep mlp"])
def test_workers_are_a_number_or_a_url(
    refused: Refused, command: str, workers: str, says: str
) -> None:
    setting = ("--set", "cores=1") if command.startswith("sweep") else ()
    assert says in refused(*command.split(), "--target", "edge", "--workers", workers, *setting)


def test_a_search_that_times_whole_runs_takes_no_workers(refused: Refused) -> None:
    assert "times whole runs" in refused("search", "mlp", "--target", "cpu", "--workers", "2")
