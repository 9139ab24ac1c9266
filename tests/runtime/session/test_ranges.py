"""A session that was opened for ranges of inputs is right within them, and says when they are left."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest

from autotune import Session
from autotune.errors import AutotuneError, InputError
from autotune.graph.builder import GraphBuilder
from autotune.graph.evaluation import evaluate
from autotune.graph.graph import Graph
from autotune.operators.interval import Interval
from autotune.operators.op import OpKind as K
from autotune.runtime.execution.execution import RunTrace
from autotune.runtime.session.graph_session import GraphSession
from autotune.tuner.graph_plan import GraphPlan, PlannedGroup
from autotune.tuner.heuristic_plan import heuristic_choices
from autotune.tuner.objective import Objective
from autotune.tuner.plan import Plan
from tests.runtime.control_case import model_of

UNIT = {"x": (0.0, 1.0)}


def clipped() -> Graph:
    b = GraphBuilder("clipped")
    x = b.input("x", (4, 8))
    y = b.add(K.CLIP, b.add(K.RELU, x), min=0.0, max=1.0)
    return b.build([b.add(K.TANH, y)])


def test_what_a_range_makes_needless_is_not_run() -> None:
    graph = clipped()
    x = np.random.default_rng(0).random((4, 8), dtype=np.float32)
    with Session(graph, "cpu", ranges=UNIT) as session:
        assert [op.kind for op in session.graph.ops] == [K.TANH]
        (found,) = session.run({"x": x}).values()
    (wanted,) = evaluate(graph, {"x": x}).values()
    np.testing.assert_allclose(found, wanted, rtol=1e-6)


@pytest.mark.parametrize("value", [-0.5, 1.5, np.nan])
def test_an_input_outside_of_its_range_is_refused(value: float) -> None:
    x = np.full((4, 8), 0.5, np.float32)
    x[2, 3] = value
    message = r"input 'x' holds .*opened for 0 to 1; feed such"
    with (
        Session(clipped(), "cpu", ranges=UNIT) as session,
        pytest.raises(InputError, match=message),
    ):
        session.run({"x": x})


@pytest.mark.parametrize("target", ["cpu:1", "cpu:2"])
def test_an_input_outside_of_its_range_runs_on_the_whole_network_if_asked(target: str) -> None:
    graph = clipped()
    near = np.random.default_rng(0).random((4, 8), dtype=np.float32)
    with Session(graph, target, ranges=UNIT, outside="general") as session:
        for x in (near, near * 4 - 2, near, -near):
            (found,) = session.run({"x": x}).values()
            (wanted,) = evaluate(graph, {"x": x}).values()
            np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-7)
            assert session.last_run.groups
        assert [op.kind for op in session.graph.ops] == [K.TANH]


def test_a_run_outside_of_ranges_tells_its_own_cost_and_not_another_threads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    others = RunTrace((), 0, 0)
    x = np.full((4, 8), 2.0, np.float32)
    with Session(clipped(), "cpu:1", ranges=UNIT, outside="general") as session:
        # another thread always finishes a run right after this one
        always = property(lambda self: others, lambda self, trace: None)
        monkeypatch.setattr(GraphSession, "_last_run", always, raising=False)
        assert session.traced_run({"x": x})[1].groups
        assert session.last_run is others


@pytest.mark.parametrize("ask", [Session.run, Session.serving], ids=["run", "serving"])
@pytest.mark.parametrize("value", [0.5, 2.0])
def test_a_closed_session_runs_nothing_outside_of_ranges_either(
    ask: Callable[..., object], value: float
) -> None:
    session = Session(clipped(), "cpu:1", ranges=UNIT, outside="general")
    session.close()
    with pytest.raises(AutotuneError, match="clipped: the session is closed"):
        ask(session, {"x": np.full((4, 8), value, np.float32)})


@pytest.mark.parametrize("ask", [Session.run, Session.serving], ids=["run", "serving"])
def test_a_session_that_is_closed_while_it_looks_at_inputs_opens_no_other(
    ask: Callable[..., object], monkeypatch: pytest.MonkeyPatch
) -> None:
    session = Session(clipped(), "cpu:1", ranges=UNIT, outside="general")
    network = session._network
    assert isinstance(network, GraphSession)
    enter = network._adapter.to_float32

    def closing(inputs: dict[str, np.ndarray]) -> object:
        session.close()
        return enter(inputs)

    monkeypatch.setattr(network._adapter, "to_float32", closing)
    with pytest.raises(AutotuneError, match="session is closed; open another"):
        ask(session, {"x": np.full((4, 8), 2.0, np.float32)})


def test_other_mistakes_are_refused_whatever_becomes_of_ranges() -> None:
    with Session(clipped(), "cpu:1", ranges=UNIT, outside="general") as session:
        with pytest.raises(InputError, match="shape"):
            session.run({"x": np.zeros((4, 9), np.float32)})
        with pytest.raises(InputError, match="x"):
            session.run({})
    with pytest.raises(InputError, match="elsewhere"):
        Session(clipped(), "cpu:1", ranges=UNIT, outside="elsewhere")


def test_a_network_in_a_file_runs_without_its_ranges_too(tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    onnx.save(model_of("net (float[4,8] x) => (float[4,8] y) { z = Relu (x) y = Tanh (z) }"), path)
    x = np.random.default_rng(1).standard_normal((4, 8)).astype(np.float32)
    with Session(path, "cpu:1", ranges=UNIT, outside="general") as session:
        np.testing.assert_allclose(session.run({"x": x})["y"], np.tanh(np.maximum(x, 0)), rtol=1e-6)


@pytest.mark.parametrize(
    ("ranges", "message"),
    [({"z": (0, 1)}, "a range for 'z'; the inputs are 'x'"), ({"x": (1, 0)}, "has no numbers")],
)
def test_ranges_of_nothing_are_refused(ranges: dict, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Session(clipped(), "cpu", ranges=ranges)


def made_for(ranges: dict[str, tuple[float, float]]) -> Plan:
    """A plan, by rule, for the network as it is within ranges."""
    with Session(clipped(), "cpu:1", ranges=ranges) as session:
        spec = session.target.spec
        groups = []
        for choice in heuristic_choices(session.graph, spec):
            names = tuple(op.name for op in choice.group.ops)
            outputs, schedule = choice.group.outputs, choice.schedule
            groups.append(PlannedGroup(names, outputs, schedule, 1.0, None, None, None))
        graph = GraphPlan("clipped", session.graph.fingerprint, tuple(groups))
        return Plan((graph,), None, "cpu", spec.profile_id, Objective.LATENCY,
                    ranges=tuple(ranges.items()))  # fmt: skip


def test_ranges_beside_a_plan_are_those_that_it_was_made_for() -> None:
    plan = made_for(UNIT)
    with Session(clipped(), "cpu:1", plan=plan, ranges={"x": (0, 1)}) as session:
        assert session.ranges == {"x": Interval(0.0, 1.0)}
    with pytest.raises(InputError, match=r"made for the ranges .*got {'x': \(0.0, 2.0\)}"):
        Session(clipped(), "cpu:1", plan=plan, ranges={"x": (0, 2)})


def test_a_plan_with_ranges_is_refused_where_a_run_binds_dimensions(tmp_path: Path) -> None:
    onnx.save(model_of("net (float[N] x) => (float[N] y) { y = Relu (x) }"), tmp_path / "net.onnx")
    with pytest.raises(InputError, match="the plan is for inputs in ranges"):
        Session(tmp_path / "net.onnx", "cpu:1", plan=made_for(UNIT))
