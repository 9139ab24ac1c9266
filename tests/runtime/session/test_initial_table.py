"""Opening never searches, with or without calibration, and the second open compiles nothing."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from autotune.cost_model.version import FEATURE_VERSION
from autotune.disk import file_stamp
from autotune.graph.builder import GraphBuilder
from autotune.graph.evaluation import evaluate
from autotune.graph.graph import Graph
from autotune.operators.op import OpKind
from autotune.runtime.builder import plan_build
from autotune.runtime.caches import network_cache
from autotune.runtime.session.network_session import PlannedBy
from autotune.runtime.session.session import Session
from autotune.store.store import Store
from autotune.targets.native.running.target import NativeTarget
from autotune.targets.opening import load_spec, spec_names, target
from autotune.tuner import legality
from autotune.tuner.calibrate import calibrate
from autotune.tuner.heuristic_plan import heuristic_choices
from tests.runtime import runtime_case as case


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("AUTOTUNE_HOME", str(tmp_path / "home"))
    now = file_stamp.now_ns
    monkeypatch.setattr(network_cache, "now_ns", lambda: now() + 3600 * 10**9)  # files are not new
    return tmp_path / "home"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    weight = numpy_helper.from_array(np.ones((8, 8), np.float32) / 8, "w")
    ends = [helper.make_tensor_value_info(e, TensorProto.FLOAT, [4, 8]) for e in ("x", "y")]
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"]),
        helper.make_node("Tanh", ["a"], ["b"]),
        helper.make_node("Softmax", ["b"], ["y"]),
    ]
    graph = helper.make_graph(nodes, "net", ends[:1], ends[1:], [weight])
    opsets = [helper.make_opsetid("", 17)]
    path = tmp_path / "net.onnx"
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)
    return path


def calibrated(machine: str) -> None:
    """A home with a model of a machine; where measuring takes long, one that nobody can read."""
    if machine == "edge":
        with Store.open(None) as store:
            calibrate(target(machine), budget=64, graphs=[], seed=0, store=store, workers=1)
        return
    with Store.open(None) as store:
        store.save_model(load_spec(machine).profile_id, b"unread", {}, FEATURE_VERSION)


def no_work(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    """Calls of these functions raise from now on."""

    def called(*_: object, **__: object) -> None:
        raise AssertionError("opening did work that it need not do")

    for name in names:
        module, _, path = name.partition(":")
        *owners, last = path.split(".")
        owner: object = import_module(module)  # autotune.search is a function as well
        for one in owners:
            owner = getattr(owner, one)
        monkeypatch.setattr(owner, last, called)


SEARCHING = (
    "autotune.tuner.fusion:search",
    "autotune.tuner.ranking:Ranking.rank",
    "autotune.cost_model.model:CostModel.from_bytes",
    "autotune.cost_model.fitting:fit",
)


@pytest.mark.parametrize("machine", ["cpu:1", "edge"])
def test_a_calibrated_home_opens_as_an_empty_one(
    machine: str, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = {"x": np.ones((4, 8), np.float32)}
    with Session(file, machine) as empty:
        wanted, before = empty.run(x), empty.table.choices
    calibrated(machine)
    no_work(monkeypatch, *SEARCHING)
    with Session(file, machine) as session:
        assert session.planned_by is PlannedBy.HEURISTIC
        assert session.table.choices == before
        np.testing.assert_array_equal(session.run(x)["y"], wanted["y"])


@pytest.mark.parametrize("machine", ["cpu:1", "edge"])
def test_the_second_open_seeks_no_schedule(
    machine: str, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calibrated(machine)
    Session(file, machine).close()
    no_work(monkeypatch, "autotune.tuner.heuristic_plan:enumerate_on", *SEARCHING)
    no_work(
        monkeypatch,
        "autotune.tuner.heuristic_plan:greedy",
        "autotune.tuner.heuristic_plan:legal_nests",
    )
    if machine != "edge":
        no_work(monkeypatch, "autotune.lowering.lower:lower", "autotune.isa.verifier.proof:verify")
        monkeypatch.setattr(plan_build, "build_plan", None)  # calling it would raise
    Session(file, machine).close()


def test_every_emulated_machine_runs_a_network_without_calibration(home: Path) -> None:
    graph = case.network()
    fed = case.inputs(graph)
    wanted = evaluate(graph, fed)
    for name in spec_names():
        with Session(graph, name) as session:
            got = session.run(fed)
            assert session.last_run.cycles > 0
            assert session.last_run.error is None, "nothing predicts without a model"
        for tensor, value in wanted.items():
            np.testing.assert_allclose(got[tensor], value, rtol=1e-3, atol=1e-5, err_msg=name)
    assert not (home / "autotune.db").exists()


def chain(length: int) -> Graph:
    b = GraphBuilder("chain")
    x = b.input("x", (2, 4))
    for _ in range(length):
        x = b.add(OpKind.SIN, x)
    return b.build([x])


@pytest.mark.parametrize("machine", ["cpu:1", "edge"])
def test_work_of_opening_a_chain_grows_with_its_length(
    machine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked_at: list[int] = []
    from autotune.tuner import heuristic_plan

    legal = legality.legal_nests

    def counted(group: case.Group, spec: object) -> object:
        looked_at.append(len(group.ops))
        return legal(group, spec)

    monkeypatch.setattr(heuristic_plan, "legal_nests", counted)
    work = []
    for length in (200, 400):
        looked_at.clear()
        heuristic_choices(chain(length), load_spec(machine))
        work.append(sum(looked_at))
    assert work[1] < 2.5 * work[0]


def test_the_heuristic_schedule_of_an_emulated_machine_takes_the_fewest_analytic_cycles() -> None:
    from autotune.cost_model.scratchpad.analysis import ScratchpadAnalysis
    from autotune.schedule.heuristic import default_schedule
    from autotune.schedule.table import ScheduleTable
    from autotune.tuner.heuristic_plan import heuristic_schedule
    from autotune.tuner.legality import legal_nests

    machine = target("edge")
    spec = machine.spec
    b = GraphBuilder("conv")
    weights = b.constant(np.ones((64, 32, 3, 3), np.float32))
    y = b.add(OpKind.CONV, b.input("x", (1, 32, 28, 28)), weights)
    graph = b.build([y])
    group = case.Group.from_graph(graph, [graph.ops[0].name])
    nests = legal_nests(group, spec)
    assert nests is not None
    traffic = default_schedule(nests, spec.capacity, spec.cores)
    chosen = heuristic_schedule(group, spec)
    assert traffic is not None and chosen is not None

    def cycles(schedule: case.Schedule) -> float:
        table = ScheduleTable.of(nests[0], schedule.nests)
        return float(ScratchpadAnalysis(nests[0], table, spec).estimate[0])

    from autotune.lowering.lower import lower

    assert cycles(chosen) <= cycles(traffic)
    times = [machine.time(lower(group, s, spec)).cycles for s in (chosen, traffic)]
    assert times[0] <= times[1]


def test_online_sessions_open_the_store_and_others_do_not(home: Path) -> None:
    assert isinstance(target("cpu", 1), NativeTarget)
    Session(case.network(), "cpu:1").close()
    assert not (home / "autotune.db").exists()
