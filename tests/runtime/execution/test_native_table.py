"""A whole plan by one native call gives what its programs give one by one."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.cost_model.version import FEATURE_VERSION
from autotune.graph.builder import GraphBuilder
from autotune.graph.evaluation import evaluate
from autotune.graph.graph import Graph
from autotune.graph.passes.dead_nodes import DeadNodes
from autotune.kernels.native.executor import ThreadPool
from autotune.operators.op import OpKind as K
from autotune.runtime.execution.execution import TimedGroups
from autotune.runtime.execution.native_table import network_of
from autotune.runtime.execution.program_cache import ProgramCache
from autotune.runtime.execution.program_table import compile_table
from autotune.runtime.session.session import Session
from autotune.store.store import Store
from autotune.targets.native.linking.loader import bind, linkable
from autotune.targets.native.running.executable import Executable
from autotune.targets.opening import target
from tests.drawn_graphs import graphs
from tests.runtime import runtime_case as case


def executable(graph: Graph, choices: list, threads: int = 2) -> Executable:
    table = compile_table(graph, choices, case.SPEC, ProgramCache())
    network = network_of(table)
    bounds = [linkable(bind(part.program, None)) for part in network.parts]
    return Executable(network, bounds, ThreadPool(threads), None)


def feeds_of(graph: Graph, seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {x: rng.standard_normal(graph.shape(x)).astype(np.float32) for x in graph.inputs}


@given(st.data())
def test_any_plan_equals_the_reference(data: st.DataObject) -> None:
    graph = DeadNodes().run(data.draw(graphs())).graph
    network = executable(graph, case.drawn_choices(graph, data))
    feeds = feeds_of(graph)
    got = network.run(feeds)
    for name, value in evaluate(graph, feeds).items():
        scale = np.abs(value).max() + 1e-3
        np.testing.assert_allclose(got[name], value, rtol=1e-3, atol=1e-4 * scale)


def test_outputs_that_are_views_are_the_callers_own() -> None:
    b = GraphBuilder("views")
    x = b.input("x", (4, 6))
    y = b.add(K.RESHAPE, x, shape=(24,))
    z = b.add(K.RELU, x)
    w = b.add(K.RESHAPE, z, shape=(2, 12))
    graph = b.build(outputs=[y, z, w])
    network = executable(graph, case.choices(graph))
    feeds = feeds_of(graph)
    got = network.run(feeds)
    want = evaluate(graph, feeds)
    for name, value in got.items():
        np.testing.assert_array_equal(value, want[name])
        assert not np.may_share_memory(value, feeds["x"])
    assert not np.may_share_memory(got[z], got[w])


def test_runs_from_several_threads_do_not_disturb_each_other() -> None:
    graph = case.network()
    network = executable(graph, case.choices(graph))
    wrong: list[int] = []

    def work(seed: int) -> None:
        feeds = feeds_of(graph, seed)
        want = network.run(feeds)
        for _ in range(50):
            got = network.run(feeds)
            if any(not np.array_equal(got[name], want[name]) for name in want):
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.parametrize("threads", [1, 2])
def test_the_time_of_a_run_holds_no_wait_for_other_callers(threads: int) -> None:
    """As many runs go on at once as there are lanes, so together they take no longer than the clock shows on each."""
    lanes = ThreadPool(threads).lanes
    if lanes >= 4:
        pytest.skip("a core for each caller")
    rng = np.random.default_rng(0)
    b = GraphBuilder("longer")
    x = b.input("x", (128, 256))
    for _ in range(4):
        x = b.add(K.MATMUL, x, b.constant(rng.standard_normal((256, 256)) / 16))
    graph = b.build([x])
    network = executable(graph, case.choices(graph), threads)
    feeds = feeds_of(graph)
    network.run(feeds, np.zeros(4, np.int64))
    took: list[int] = []
    waited: list[int] = []
    together = threading.Barrier(4)

    def work() -> None:
        nanoseconds = np.zeros(4, np.int64)
        together.wait()
        for _ in range(50):
            begin = time.perf_counter_ns()
            network.run(feeds, nanoseconds)
            waited.append(time.perf_counter_ns() - begin)
            took.append(int(nanoseconds.sum()))

    callers = [threading.Thread(target=work) for _ in range(4)]
    begin = time.perf_counter_ns()
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    passed = time.perf_counter_ns() - begin
    assert len(took) == 200
    assert sum(waited) > 1.5 * passed, "callers wait for each other"
    assert 0 < sum(took) <= lanes * passed


@pytest.mark.parametrize("threads", [1, 3])
def test_time_of_every_part_is_told(threads: int) -> None:
    graph = case.network()
    table = compile_table(graph, case.choices(graph), case.SPEC, ProgramCache())
    network = executable(graph, case.choices(graph), threads)
    nanoseconds = np.zeros(len(table.group_steps), np.int64)
    network.run(feeds_of(graph), nanoseconds)
    assert (nanoseconds > 0).all()


def test_a_network_runs_on_this_machine_without_calibration(tmp_path: Path) -> None:
    graph = case.network()
    feeds = feeds_of(graph)
    with Session(graph, target="cpu", threads=1, store=tmp_path / "store.db") as session:
        got = session.run(feeds)
        assert session.last_run.cycles > 0
    for name, value in evaluate(graph, feeds).items():
        np.testing.assert_allclose(got[name], value, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("opened", [False, True])
def test_a_model_of_other_features_stops_no_run_and_no_learning(
    opened: bool, tmp_path: Path
) -> None:
    graph, path = case.network(), tmp_path / "store.db"
    machine = target("cpu", 1)
    with Store.open(path) as store:
        store.save_model(machine.spec.profile_id, b"outdated", {}, FEATURE_VERSION - 1)
        with Session(graph, machine, store if opened else path) as session:
            assert session.run(feeds_of(graph))
        with Session(graph, machine, store, online=True) as session:
            assert session.run(feeds_of(graph))


@pytest.mark.parametrize("threads", [1, 2])
def test_attention_runs_as_one_program_on_this_machine(tmp_path: Path, threads: int) -> None:
    b = GraphBuilder("attention")
    rows, turned = (1, 40, 3, 32), {"perm": (0, 2, 1, 3)}
    q, k, v = (b.add(K.TRANSPOSE, b.input(x, rows), **turned) for x in "qkv")
    y = b.add(K.MUL, b.add(K.MATMUL, q, k, trans_b=1), b.constant(0.2))
    y = b.add(K.MATMUL, b.add(K.SOFTMAX, y, axis=-1), v)
    graph = b.build([b.add(K.TRANSPOSE, y, **turned)])
    feeds = feeds_of(graph)
    store = tmp_path / "store.db"
    with Session(graph, target="cpu", threads=threads, store=store) as session:
        got = session.run(feeds)
        assert len(session.table.group_steps) == 1
    for name, value in evaluate(graph, feeds).items():
        np.testing.assert_allclose(got[name], value, rtol=1e-5, atol=1e-6)


def test_a_trace_of_one_native_call_is_made_late_and_belongs_to_its_run() -> None:
    b = GraphBuilder("chain")
    x = b.input("x", (4, 6))
    graph = b.build(outputs=[b.add(K.RELU, b.add(K.EXP, x))])
    table = compile_table(graph, case.choices(graph), case.SPEC, ProgramCache())
    first, second = (TimedGroups(table, 2e9, np.array(ns, np.int64)) for ns in ([5, 0], [7, 9]))
    assert [run.execution.cycles for run in first] == [10, 1]
    assert [run.execution.counters["nanoseconds"] for run in second] == [7, 9]
    assert [run.step for run in first] == list(table.group_steps) and len(first) == 2
