"""What a session runs now is kept as a plan file, and opens again as the same plan."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from autotune.cli.main import main
from autotune.errors import AutotuneError, PlanError
from autotune.runtime.execution.program_cache import ProgramCache
from autotune.runtime.execution.program_table import compile_table
from autotune.runtime.session.network_session import PlannedBy
from autotune.runtime.session.session import Session
from autotune.tuner.plan import Plan
from tests.runtime import runtime_case as case

GRAPH = case.network()
FUSED = (("product", "squash"), ("squash", "residual"), ("weigh", "flip"))


def layers(path: Path, batch: int | str, seed: int = 0) -> Path:
    """Two products with activations, as a file."""
    rng = np.random.default_rng(seed)
    held = [
        numpy_helper.from_array(rng.standard_normal((16, 16)).astype(np.float32) / 4, name)
        for name in ("v", "w")
    ]
    nodes = [
        helper.make_node("MatMul", ["x", "v"], ["a"], "first"),
        helper.make_node("Relu", ["a"], ["b"], "bend"),
        helper.make_node("MatMul", ["b", "w"], ["c"], "second"),
        helper.make_node("Tanh", ["c"], ["y"], "squash"),
    ]
    info = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, [batch, 16]) for name in ("x", "y")
    ]
    graph = helper.make_graph(nodes, "layers", info[:1], info[1:], held)
    opset = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=8), path)
    return path


def swap_unfused(session: Session) -> None:
    """Publish another plan in a session, as learning does."""
    network: Any = session._network
    choices = case.choices(session.graph)
    network._current.swap(
        compile_table(session.graph, choices, session.target.spec, ProgramCache())
    )


def test_the_plan_after_a_swap_opens_again_from_its_file(tmp_path: Path) -> None:
    network, path = layers(tmp_path / "net.onnx", 4), tmp_path / "net.plan"
    feeds = {"x": np.random.default_rng(1).standard_normal((4, 16)).astype(np.float32)}
    with Session(network, case.InterpretedTarget(), ranges={"x": (-9.0, 9.0)}) as first:
        opened = first.table.choices
        swap_unfused(first)
        assert first.table.choices != opened
        for _ in range(3):
            wanted = first.run(feeds)
        saved = first.save_plan(path)
        groups, cycles = first.table.choices, first.last_run.cycles
    assert saved.measured_cycles == cycles, "each run takes the same"
    assert saved.energy_fj == 10 * cycles
    with Session(path, case.InterpretedTarget()) as again:
        assert again.planned_by is PlannedBy.PLAN
        assert [(one.group, one.schedule) for one in again.table.choices] == [
            (one.group, one.schedule) for one in groups
        ]
        assert again.ranges["x"].high == 9.0
        np.testing.assert_array_equal(again.run(feeds)["y"], wanted["y"])


def test_a_plan_is_saved_before_anything_ran(tmp_path: Path) -> None:
    with Session(GRAPH, case.InterpretedTarget()) as session:
        saved = session.save_plan(tmp_path / "some.plan")
    assert saved.measured_cycles is None and saved.predicted_cycles > 0
    with Session(GRAPH, case.InterpretedTarget(), plan=tmp_path / "some.plan") as again:
        feeds = case.inputs(GRAPH)
        for name, value in again.reference_outputs(feeds).items():
            np.testing.assert_allclose(again.run(feeds)[name], value, rtol=1e-4, atol=1e-5)


def test_a_plan_of_this_machine_keeps_its_accuracy_and_times(tmp_path: Path) -> None:
    network, path = layers(tmp_path / "net.onnx", 4), tmp_path / "net.plan"
    with Session(network, "cpu:1", accuracy="fast") as first:
        feeds = first.draw_inputs(np.random.default_rng(0))
        wanted = first.run(feeds)
        saved = first.save_plan(path)
    assert saved.measured_cycles is not None and saved.energy_fj is None
    with Session(path) as again:
        assert again.target.name == "cpu:1" and again.planned_by is PlannedBy.PLAN
        np.testing.assert_array_equal(again.run(feeds)["y"], wanted["y"])
        resaved = again.save_plan(path)
    assert resaved.accuracy == saved.accuracy
    assert [g.schedule for g in resaved.groups] == [g.schedule for g in saved.groups]


@pytest.mark.parametrize("target", ["edge", "cpu:1"])
def test_all_shapes_that_were_compiled_are_kept(tmp_path: Path, target: str) -> None:
    network, path = layers(tmp_path / "net.onnx", "batch"), tmp_path / "net.plan"
    shapes = [np.ones((n, 16), np.float32) for n in (3, 5)]
    with Session(network, target) as first:
        with pytest.raises(AutotuneError, match="no shapes are known yet"):
            first.save_plan(path)
        for x in shapes:
            first.traced_run({"x": x})
        first.wait_idle()
        saved = first.save_plan(path)
    assert len(saved.graphs) >= 2
    with Session(path) as again:
        for x in shapes:
            again.traced_run({"x": x})
        assert again.planned_by is PlannedBy.PLAN
        assert {one.fingerprint for one in again.graph_plans()} <= {
            one.fingerprint for one in saved.graphs
        }
    with Session(path) as once:
        once.traced_run({"x": shapes[0]})
        kept = once.save_plan(path)
    assert len(kept.graphs) == len(saved.graphs), "plans of shapes that this session never saw stay"


def test_a_network_file_that_has_changed_is_refused(tmp_path: Path) -> None:
    network = layers(tmp_path / "net.onnx", 4)
    with Session(network, case.InterpretedTarget()) as session:
        layers(network, 4, seed=1)
        with pytest.raises(PlanError, match="has changed since the session was opened"):
            session.save_plan(tmp_path / "net.plan")
    assert not (tmp_path / "net.plan").exists()


def test_a_closed_session_and_a_bad_place_are_refused(tmp_path: Path) -> None:
    session = Session(GRAPH, case.InterpretedTarget())
    with pytest.raises(PlanError, match=r"cannot be written|folder"):
        session.save_plan(tmp_path / "nowhere" / "net.plan")
    session.close()
    with pytest.raises(AutotuneError, match="save its plan before"):
        session.save_plan(tmp_path / "net.plan")


def test_the_objective_of_a_plan_stays(tmp_path: Path) -> None:
    path = tmp_path / "some.plan"
    with Session(GRAPH, case.InterpretedTarget()) as session:
        plan = session.save_plan(path)
    other = replace(plan, objective=type(plan.objective).ENERGY)
    with Session(GRAPH, case.InterpretedTarget(), plan=other) as session:
        session.save_plan(path)
    assert Plan.load(path).objective == other.objective


def code(*arguments: object) -> object:
    with pytest.raises(SystemExit) as exit_info:
        main([str(argument) for argument in arguments])
    return exit_info.value.code


@pytest.mark.parametrize("target", ["edge", "cpu:1"])
def test_the_command_line_saves_a_plan_and_runs_it(
    tmp_path: Path,
    target: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AUTOTUNE_HOME", str(tmp_path / "home"))
    network, path = layers(tmp_path / "net.onnx", 4), tmp_path / "net.plan"
    some = ("--target", target, "--repeat", 4, "--save-plan", path)
    assert code("run", network, *some, "--online") == 0
    assert str(path) in capsys.readouterr().err.replace("\n", "")
    assert code("run", path, "--check") == 0
    assert "as given" in capsys.readouterr().out
    assert code("run", network, "--target", target, "--save-plan", network) == 2
    assert "net.onnx" in capsys.readouterr().err
    assert onnx.load(network).graph.name == "layers"
