"""Sessions run plans, from several threads and across swaps, and say what is wrong in one line."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from autotune.datasets import NETWORKS
from autotune.errors import AutotuneError, InputError, ModelError, PlanError
from autotune.graph.accuracy import Accuracy
from autotune.graph.evaluation import evaluate
from autotune.graph.graph import Graph
from autotune.operators.axes import Layout
from autotune.operators.op import Family
from autotune.runtime.execution.event import EventKind
from autotune.runtime.execution.program_cache import ProgramCache
from autotune.runtime.execution.program_table import compile_table
from autotune.runtime.session.graph_session import GraphSession
from autotune.runtime.session.opening import open_network
from autotune.runtime.session.session import Session
from autotune.store.store import Store
from autotune.tuner.graph_plan import GraphPlan, PlannedGroup
from autotune.tuner.objective import Objective
from autotune.tuner.plan import NetworkFile, Plan
from tests.runtime import runtime_case as case

GRAPH = case.network()
FUSED = (("product", "squash"), ("squash", "residual"), ("weigh", "flip"))


def plan_for(
    graph: Graph, *fused: tuple[str, str], network_file: NetworkFile | None = None
) -> Plan:
    groups = tuple(
        PlannedGroup(
            tuple(op.name for op in choice.group.ops),
            choice.group.outputs,
            choice.schedule,
            1000.0 if choice.schedule else 0.0,
            None,
            None,
            None,
        )
        for choice in case.choices(graph, *fused)
    )
    return Plan(
        (GraphPlan(graph.name, graph.fingerprint, groups),), network_file, "edge",
        case.SPEC.profile_id, Objective.LATENCY,
    )  # fmt: skip


def session(*fused: tuple[str, str]) -> Session:
    return Session(GRAPH, case.InterpretedTarget(), plan=plan_for(GRAPH, *fused))


def assert_reference(
    graph: Graph, feeds: dict[str, np.ndarray], got: dict[str, np.ndarray]
) -> None:
    for name, value in evaluate(graph, feeds).items():
        np.testing.assert_allclose(got[name], value, rtol=1e-4, atol=1e-5)


@pytest.fixture
def mlp(tmp_path: Path) -> Path:
    builder: Callable[..., onnx.ModelProto] | None = NETWORKS["mlp"].builder
    assert builder is not None
    path = tmp_path / "mlp.onnx"
    onnx.save(builder(2, (12, 8, 4)), path)
    return path


def test_a_graph_with_a_plan_runs_without_a_store() -> None:
    with session(*FUSED) as running:
        feeds = case.inputs(GRAPH)
        assert_reference(GRAPH, feeds, running.run(feeds))
        assert running.last_run.cycles > 0
        assert running.last_run.energy_fj == 10 * running.last_run.cycles
        assert [row.executions for row in running.profile()] == [1] * len(running.table.group_steps)
        assert {row.predicted_cycles for row in running.profile()} == {1000.0}
        assert running.events == ()


def test_a_plan_file_finds_its_network(mlp: Path, tmp_path: Path) -> None:
    graph, path = open_network(mlp), tmp_path / "mlp.plan"
    plan_for(graph, network_file=NetworkFile.of(mlp)).save(path)
    with Session(path, case.InterpretedTarget()) as running:
        feeds = case.inputs(graph)
        assert_reference(graph, feeds, running.run(feeds))


def image_network(path: Path, channels: int = 3, size: int = 6) -> Path:
    """A residual pair of convolutions and a pooling, as a file."""
    rng = np.random.default_rng(2)
    weights = {
        "w": rng.standard_normal((16, channels, 3, 3)),
        "v": rng.standard_normal((16, 16, 1, 1)),
    }
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"], "first", pads=[1, 1, 1, 1]),
        helper.make_node("Conv", ["a", "v"], ["p"], "second"),
        helper.make_node("Add", ["p", "a"], ["s"], "sum"),
        helper.make_node("GlobalAveragePool", ["s"], ["y"], "mean"),
    ]
    info = [
        helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape)
        for name, shape in (("x", [1, channels, size, size - 1]), ("y", [1, 16, 1, 1]))
    ]
    held = [numpy_helper.from_array(w.astype(np.float32), name) for name, w in weights.items()]
    opset = [helper.make_opsetid("", 17)]
    graph = helper.make_graph(nodes, "image", info[:1], info[1:], held)
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=8), path)
    return path


def test_a_plan_opens_its_network_again_in_the_layout_of_its_machine(tmp_path: Path) -> None:
    network, path = image_network(tmp_path / "image.onnx"), tmp_path / "image.plan"
    spec = replace(case.SPEC, layout="channels_last")
    graph = open_network(network, layout=Layout.CHANNELS_LAST)
    plan = plan_for(graph, network_file=NetworkFile.of(network))
    replace(plan, profile_id=spec.profile_id).save(path)
    with Session(path, case.InterpretedTarget(spec)) as running:
        assert {op.axes.channel for op in running.graph.ops if op.family is Family.CONV} == {3}
        feeds = case.inputs(graph)
        assert_reference(open_network(network), feeds, running.run(feeds))
    again = Session(open_network(network), case.InterpretedTarget(spec), plan=Plan.load(path))
    assert again.graph.fingerprint == graph.fingerprint
    again.close()


def test_a_plan_opens_its_network_again_with_its_accuracy(tmp_path: Path) -> None:
    network, path = (
        image_network(tmp_path / "image.onnx", channels=16, size=14),
        tmp_path / "a.plan",
    )
    spec = replace(case.SPEC, layout="channels_last")
    graph = open_network(network, layout=Layout.CHANNELS_LAST, accuracy=Accuracy.FAST)
    assert Family.WINOGRAD in {op.family for op in graph.ops}
    plan = plan_for(graph, network_file=NetworkFile.of(network))
    replace(plan, profile_id=spec.profile_id, accuracy=Accuracy.FAST).save(path)
    with Session(path, case.InterpretedTarget(spec)) as running:
        assert running.graph.fingerprint == graph.fingerprint
        feeds = case.inputs(graph)
        assert_reference(open_network(network), feeds, running.run(feeds))
    with pytest.raises(PlanError):
        Session(replace(Plan.load(path), accuracy=Accuracy.EXACT), case.InterpretedTarget(spec))


def test_a_plan_whose_network_has_changed_is_refused(mlp: Path, tmp_path: Path) -> None:
    plan = plan_for(open_network(mlp), network_file=NetworkFile.of(mlp))
    mlp.write_bytes(mlp.read_bytes() + b"\n")
    with pytest.raises(PlanError, match="changed since the plan was made"):
        Session(plan, case.InterpretedTarget())


def test_a_plan_for_another_machine_or_network_is_refused() -> None:
    plan = plan_for(GRAPH)
    with pytest.raises(PlanError, match="hardware profile"):
        Session(GRAPH, case.InterpretedTarget(), plan=replace(plan, profile_id="0" * 16))
    with pytest.raises(PlanError, match="is for network"):
        other = replace(plan, graphs=(replace(plan.graphs[0], fingerprint="0" * 64),))
        Session(GRAPH, case.InterpretedTarget(), plan=other)


def test_a_plan_without_a_network_file_says_how_to_run_it() -> None:
    with pytest.raises(PlanError, match=r"Session\(graph, plan=plan\)"):
        Session(plan_for(GRAPH), case.InterpretedTarget())


@pytest.mark.parametrize("planned", [False, True])
def test_learning_on_a_machine_that_was_never_calibrated_begins_with_the_shipped_model(
    planned: bool, mlp: Path, tmp_path: Path
) -> None:
    source = plan_for(open_network(mlp), network_file=NetworkFile.of(mlp)) if planned else mlp
    store = tmp_path / "autotune.db"
    with Session(source, case.InterpretedTarget(), store, online=True) as learning:
        (told,) = learning.events
        assert told.kind is EventKind.BORROWED
        assert "shipped model" in told.text and "autotune calibrate --target edge" in told.text
        assert all(step.predicted_cycles for step in learning.table.group_steps)


def test_learning_here_needs_no_calibration(mlp: Path, tmp_path: Path) -> None:
    with Session(mlp, "cpu:1", tmp_path / "autotune.db", online=True) as learning:
        feeds = learning.draw_inputs(np.random.default_rng(0))
        for name, value in learning.run(feeds).items():
            np.testing.assert_allclose(
                value, learning.reference_outputs(feeds)[name], rtol=1e-4, atol=1e-5
            )


def test_a_file_that_is_no_network_is_named(tmp_path: Path) -> None:
    path = tmp_path / "broken.onnx"
    path.write_bytes(b"\x00\x01")
    with pytest.raises(ModelError, match=r"broken\.onnx"):
        Session(path, case.InterpretedTarget())
    with pytest.raises(ModelError, match=r"absent\.onnx"):
        Session(tmp_path / "absent.onnx", case.InterpretedTarget())
    with pytest.raises(PlanError, match=r"absent\.plan"):
        Session(tmp_path / "absent.plan", case.InterpretedTarget())


def test_a_session_closes_only_the_store_that_it_opened(tmp_path: Path) -> None:
    with Store.open(tmp_path / "autotune.db") as store:
        Session(GRAPH, "cpu:1", store, online=True).close()
        assert store.records("none") == []


def test_wrong_inputs_and_wrong_moments_are_refused() -> None:
    running = session()
    with pytest.raises(AutotuneError, match="nothing was run yet"):
        _ = running.last_run
    with pytest.raises(InputError, match="input 'x' is missing"):
        running.run({})
    running.close()
    running.close()
    with pytest.raises(AutotuneError, match="the session is closed"):
        running.run(case.inputs(GRAPH))


def test_threads_share_a_session() -> None:
    with session() as running, ThreadPoolExecutor(4) as pool:
        feeds = [case.inputs(GRAPH, seed) for seed in range(16)]
        for fed, got in zip(feeds, pool.map(running.run, feeds), strict=True):
            assert_reference(GRAPH, fed, got)
        assert {row.executions for row in running.profile()} == {16}


@pytest.mark.parametrize("threads", [1, 2])
def test_callers_of_a_session_on_this_cpu_run_at_once_and_right(threads: int) -> None:
    """On one thread each caller has a core, and memory of its own for what lies between operators."""
    rng = np.random.default_rng(0)
    with Session("transformer_block", threads=threads) as running, ThreadPoolExecutor(4) as pool:
        feeds = [running.draw_inputs(rng) for _ in range(4)]
        alone = [running.run(fed) for fed in feeds]
        again = list(pool.map(running.run, feeds * 25))
    for number, got in enumerate(again):
        for name, value in alone[number % len(feeds)].items():
            np.testing.assert_array_equal(got[name], value)


def test_runs_stay_right_while_plans_are_swapped_under_them() -> None:
    running = session()
    cache = ProgramCache()
    tables = [
        compile_table(GRAPH, case.choices(GRAPH, *fused), case.SPEC, cache)
        for fused in (FUSED, FUSED[:1], ())
    ]
    network = running._network
    assert isinstance(network, GraphSession)
    stop = threading.Event()

    def swap() -> None:
        turn = 0
        while not stop.is_set():
            network._current.swap(tables[turn % 3])
            turn += 1

    swapper = threading.Thread(target=swap)
    swapper.start()
    try:
        with ThreadPoolExecutor(3) as pool:
            feeds = [case.inputs(GRAPH, seed) for seed in range(30)]
            results = list(pool.map(running.run, feeds))
    finally:
        stop.set()
        swapper.join()
    for fed, got in zip(feeds, results, strict=True):
        assert_reference(GRAPH, fed, got)
    assert running.table.plan_version > 0
