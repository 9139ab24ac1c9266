"""``autotune targets drift`` is remembered, later commands run drifted and say so, bad values exit 2."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from autotune.cli.main import main
from autotune.errors import StoreError
from autotune.fusion.analysis import analyse
from autotune.fusion.group import Group
from autotune.fusion.nest import Rejection
from autotune.runtime.session.session import Session
from autotune.schedule.heuristic import default_schedule
from autotune.targets import drift_memory
from autotune.targets.emulator.target import EmulatorTarget
from autotune.targets.opening import SPECS, load_spec, machine_key, target
from autotune.targets.physical import Drift
from autotune.tuner.graph_plan import GraphPlan, PlannedGroup
from autotune.tuner.objective import Objective
from autotune.tuner.plan import NetworkFile, Plan

Command = Callable[..., tuple[Any, str]]
HEATING = """
[physical]
thermal_resistance_kelvin_per_watt = 10
thermal_capacity_joule_per_kelvin = 0.1
throttle_celsius = 80
release_celsius = 70
throttle_clock = 0.5
"""


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user's folder of its own for every test."""
    folder = tmp_path / "home"
    monkeypatch.setenv("AUTOTUNE_HOME", str(folder))
    return folder


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> Command:
    """Runs a command with --json; returns the document on stdout (None: exit code 2), and stderr."""

    def run(*arguments: object, code: int = 0) -> tuple[Any, str]:
        capsys.readouterr()
        with pytest.raises(SystemExit) as exit_info:
            main([*map(str, arguments), "--json"])
        captured = capsys.readouterr()
        assert exit_info.value.code == code, captured.err
        return (json.loads(captured.out) if code == 0 else None), captured.err

    return run


@pytest.fixture
def heating(tmp_path: Path) -> Path:
    """The edge machine with a heat sink."""
    path = tmp_path / "heating.toml"
    path.write_text((SPECS / "edge.toml").read_text("utf-8") + HEATING, "utf-8")
    return path


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    """A plan of one ReLU, which waits for DRAM most of its time."""
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, (64, 512)) for n in "xy")
    made = helper.make_graph([helper.make_node("Relu", ["x"], ["y"], "relu")], "net", [x], [y])
    network = tmp_path / "net.onnx"
    onnx.save(helper.make_model(made, opset_imports=[helper.make_opsetid("", 17)]), network)
    from autotune.api import load_network

    graph, spec = load_network(network), load_spec("edge")
    group = Group.from_graph(graph, ("relu",))
    nests = analyse(group)
    assert not isinstance(nests, Rejection)
    schedule = default_schedule(nests, spec.capacity, spec.cores)
    path = tmp_path / "net.plan"
    group = PlannedGroup(("relu",), ("y",), schedule, 1.0, None, None, None)
    Plan(
        (GraphPlan(graph.name, graph.fingerprint, (group,)),), NetworkFile.of(network), "edge",
        spec.profile_id, Objective.LATENCY,
    ).save(path)  # fmt: skip
    return path


def test_a_machine_that_was_never_drifted_has_no_drift(command: Command, home: Path) -> None:
    found, _ = command("targets", "drift", "edge")
    assert found["drifted"] is False
    assert Drift(**found["drift"]) == Drift()
    assert not home.exists()


def test_drift_is_remembered_added_to_and_taken_back(command: Command) -> None:
    command("targets", "drift", "edge", "--dram-bandwidth", 0.6)
    command("targets", "drift", "edge", "--clock", 0.9, "--noise", 0.02)
    found, _ = command("targets", "drift", "edge")
    assert found["drifted"] is True
    assert Drift(**found["drift"]) == Drift(0.6, 0.9, None, 0.02) == drift_memory.recall("edge")
    assert drift_memory.recall("mobile") == Drift()
    found, _ = command("targets", "drift", "edge", "--reset", "--clock", 0.5)
    assert Drift(**found["drift"]) == Drift(clock=0.5)
    command("targets", "drift", "edge", "--reset")
    assert drift_memory.recall("edge") == Drift()


def test_a_run_on_a_drifted_machine_costs_what_that_machine_costs(
    command: Command, plan: Path
) -> None:
    exact, said = command("run", plan)
    assert "drift" not in said
    command("targets", "drift", "edge", "--dram-bandwidth", 0.5, "--clock", 0.8)
    found, said = command("run", plan, "--check")
    machine = EmulatorTarget(load_spec("edge"))
    machine.drift(Drift(dram_bandwidth=0.5, clock=0.8))
    with Session(plan, machine) as session:
        session.run({"x": np.ones((64, 512), np.float32)})
        assert found["cycles"] == session.last_run.cycles > 1.5 * exact["cycles"]
    assert found["check"]["y"]["ok"]
    lines = [line for line in said.splitlines() if "drift" in line]
    assert lines == [
        "autotune: warning: edge runs drifted: DRAM bandwidth × 0.5, clock × 0.8; 'autotune targets drift edge --reset' "
        "takes it back"
    ]
    command("targets", "drift", "edge", "--reset")
    found, said = command("run", plan)
    assert found == exact and "drift" not in said


def test_calibration_and_search_open_the_drifted_machine(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    from autotune import api

    class Seen(Exception):
        pass

    def see(target: object) -> None:
        assert isinstance(target, EmulatorTarget)
        assert target._drift == Drift(clock=0.5)
        raise Seen

    monkeypatch.setattr(api, "calibrate", lambda target, *_, **__: see(target))
    monkeypatch.setattr(api, "search", lambda _, target, **__: see(target))
    command("targets", "drift", "edge", "--clock", 0.5)
    edge = ["--target", "edge"]
    for arguments in (["calibrate", *edge], ["search", "mlp", *edge]):
        with pytest.raises(Seen):
            main(arguments)


def test_a_temperature_needs_a_machine_that_heats(command: Command, heating: Path) -> None:
    _, said = command("targets", "drift", "edge", "--temperature", 85, code=2)
    assert "drift.temperature_celsius: 85 on edge, which does not heat" in said
    command("targets", "drift", heating, "--temperature", 85)
    with pytest.warns(UserWarning, match="heating.toml runs drifted: from 85.0 °C"):
        machine = target(heating)
    assert isinstance(machine, EmulatorTarget)
    assert machine.physical_state is not None
    assert machine.physical_state.throttled


def test_every_spelling_of_a_spec_file_is_the_same_machine(
    command: Command, heating: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(heating.parent)
    command("targets", "drift", heating, "--clock", 0.5)
    assert drift_memory.recall(machine_key("heating.toml")) == Drift(clock=0.5)
    assert drift_memory.recall(machine_key("./heating.toml")) == Drift(clock=0.5)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["edge", "--dram-bandwidth", "0"], "drift.dram_bandwidth: 0.0 is not in 0.001..10"),
        (["edge", "--clock", "-1"], "drift.clock: -1.0 is not in 0.001..10"),
        (["edge", "--clock", "nan"], "drift.clock: nan is not in"),
        (["edge", "--clock", "fast"], "--clock"),
        (["edge", "--noise", "2"], "drift.noise: 2.0 is not in 0..1"),
        (["egde", "--clock", "0.5"], "no target is named 'egde'"),
        (["egde", "--reset"], "no target is named 'egde'"),
        ([], "name"),
    ],
)
def test_a_bad_value_is_named_and_nothing_is_remembered(
    command: Command, home: Path, arguments: list[str], said: str
) -> None:
    assert said in command("targets", "drift", *arguments, code=2)[1]
    assert not home.exists()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "not remembered drift"),
        ("[]", "not remembered drift"),
        ("\xff", "not remembered drift"),
        ('{"targets": {}}', "'schema'"),
        ('{"schema": 2, "targets": {}}', "drift of schema 2, this version reads 1"),
        ('{"schema": 1, "targets": []}', "not remembered drift"),
        ('{"schema": 1, "targets": {"edge": {"speed": 1}}}', "speed"),
        ('{"schema": 1, "targets": {"edge": {"clock": 99}}}', r"drift\.clock: 99 is not in"),
        ('{"schema": 1, "targets": {"edge": {"clock": "1"}}}', "not remembered drift"),
    ],
)
def test_a_broken_memory_is_refused_with_the_way_out(home: Path, text: str, reason: str) -> None:
    home.mkdir()
    (home / "drift.json").write_bytes(text.encode("latin-1"))
    with pytest.raises(StoreError, match=rf"drift\.json: .*{reason}.*; delete the file") as caught:
        target("edge")
    assert "\n" not in str(caught.value)


def test_a_folder_that_cannot_be_written_is_named(home: Path) -> None:
    home.write_text("a file where the folder should be")
    with pytest.raises(StoreError, match=r"drift\.json: cannot be "):
        drift_memory.remember("edge", Drift(clock=0.5))


def test_a_machine_opened_by_name_in_python_is_the_drifted_one(command: Command) -> None:
    command("targets", "drift", "edge", "--clock", 0.5)
    with pytest.warns(UserWarning, match="edge runs drifted: clock × 0.5; 'autotune targets drift"):
        machine = target("edge")
    assert isinstance(machine, EmulatorTarget)
    assert machine._drift == Drift(clock=0.5)
    command("targets", "drift", "edge", "--reset")
    pristine = target("edge")
    assert isinstance(pristine, EmulatorTarget)
    assert pristine._drift == Drift()
