"""Sessions of several devices: right answers whoever runs what, also when a device fails in the middle."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotune.api.device_search import search_devices
from autotune.errors import InputError, PlanError, TargetError
from autotune.fusion.greedy import unfused
from autotune.fusion.partition import Partition
from autotune.graph.graph import Graph
from autotune.graph.passes import simplify
from autotune.isa.formats import Format
from autotune.quantisation.quantize import quantize
from autotune.runtime.devices.device_worker import DeviceFailure, DeviceWorker
from autotune.runtime.devices.placed_runs import PlacedRuns
from autotune.runtime.devices.placed_table import placed_table
from autotune.runtime.execution.event import EventKind
from autotune.runtime.execution.program_cache import ProgramCache
from autotune.runtime.execution.program_table import CurrentTable
from autotune.runtime.execution.reference_session import ReferenceSession
from autotune.runtime.session.session import Session
from autotune.targets.device_set import DeviceSet
from autotune.targets.opening import target
from tests.drawn_graphs import graphs
from tests.quantisation.test_quantize import saved
from tests.runtime.devices.device_case import (
    Failing,
    Meeting,
    Meets,
    choices_on,
    device_set,
    emulated,
    plan_of,
)
from tests.runtime.runtime_case import inputs as given_inputs
from tests.runtime.runtime_case import network
from tests.tuner.placement.test_simulation import check

GRAPH = simplify(network()).graph


def session_on(devices: DeviceSet, graph: Graph = GRAPH) -> Session:
    """Every operator alone, the devices in turns."""
    partition = unfused(graph)
    place = [number % len(devices.devices) for number in range(len(partition.groups))]
    choices = choices_on(graph, partition, devices, place)
    return Session(graph, devices, plan=plan_of(graph, devices, choices))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("format", "devices"), [("int8", "mobile,edge,cpu:1"), ("bf16", "mobile,server")]
)
def test_devices_that_share_a_narrow_format_compute_in_it(
    format: str, devices: str, tmp_path: Path
) -> None:
    path, data = saved("mlp", tmp_path)
    narrow = quantize(path, data, tmp_path / "narrow.onnx", format=format).file
    search_devices(narrow, devices, measure=0, out=tmp_path / "net.plan")
    feeds = {name: rows[0] for name, rows in np.load(data).items()}
    with Session(tmp_path / "net.plan") as together, Session(narrow, "mobile") as alone:
        (stored,) = {Format.INT8, Format.BF16} & {t.storage for t in together.graph.types.values()}
        assert stored.name.lower() == format
        for name, value in alone.run(feeds).items():
            np.testing.assert_allclose(together.run(feeds)[name], value, rtol=1e-5, atol=1e-6)


def assert_right(session: Session) -> None:
    inputs = session.draw_inputs(np.random.default_rng(1))
    got, wanted = session.run(inputs), session.reference_outputs(inputs)
    for name, value in wanted.items():
        np.testing.assert_allclose(got[name], value, rtol=1e-4, atol=1e-5)


@given(graphs(), st.data())
@settings(max_examples=25)
def test_any_placement_computes_what_the_reference_does(graph: Graph, data: st.DataObject) -> None:
    graph = simplify(graph).graph
    devices = device_set(emulated("edge"), emulated("mobile"), target("cpu", 1))
    partition = unfused(graph)
    place = data.draw(st.lists(st.integers(0, 2), min_size=len(graph.ops), max_size=len(graph.ops)))
    choices = choices_on(graph, partition, devices, place)
    with Session(graph, devices, plan=plan_of(graph, devices, choices)) as session:
        assert_right(session)
        timeline = session.last_run.timeline
        assert timeline is not None
        assert timeline.makespan_seconds >= 0


def test_the_timeline_of_a_run_is_valid_and_has_the_costs_of_its_groups() -> None:
    from autotune.runtime.devices.placed_table import _costed_run

    devices = device_set(emulated("edge"), emulated("mobile"))
    with session_on(devices) as session:
        assert_right(session)
        run = session.last_run
        assert run.timeline is not None
        graph, placement = _costed_run(session.table, devices, run.groups)
        check(graph, placement, run.timeline)
        busy = sum(run.timeline.busy_seconds(number) for number in range(2))
        assert busy == pytest.approx(run.cycles * 1e-9)
        moved = [x for x in run.timeline.transfers if x.tensor == "x"]
        assert {x.destination for x in moved} == {0}, "the input comes from this machine's memory"


@pytest.mark.parametrize("at", [0, 1])
def test_a_device_that_raises_in_the_middle_is_replaced(at: int) -> None:
    broken = Failing("broken", at)
    with session_on(device_set(emulated("mobile"), broken)) as session:
        assert_right(session)
        (event,) = session.events
        assert event.kind is EventKind.LOST
        assert "device broken failed: OSError: the bus is gone" in event.text
        assert "groups run on mobile" in event.text
        assert {step.device for step in session.table.steps} == {"mobile"}
        assert_right(session)
        assert len(session.events) == 1
        assert session.planned_by.value == "plan"


def test_a_device_that_hangs_is_replaced() -> None:
    stuck = Failing("stuck", 1, hangs=True)
    devices = device_set(emulated("edge"), stuck)

    def wait(done: threading.Event, seconds: float) -> bool:
        """The time limit passes as soon as the device hangs, however slow this machine is."""
        while not done.wait(0.01):
            if stuck.is_hanging.is_set():
                stuck.is_hanging.clear()  # the next wait is for another device
                return False
        return True

    choices = choices_on(GRAPH, unfused(GRAPH), devices, [0, 1, 1, 0, 1, 0][: len(GRAPH.ops)])
    cache = ProgramCache()
    table = CurrentTable(placed_table(GRAPH, choices, devices, cache))
    runs = PlacedRuns(table, devices, ("edge", "stuck"), cache, wait)
    inputs = given_inputs(GRAPH)
    try:
        outputs, trace = runs.run(inputs)
    finally:
        stuck.released.set()
    (event,) = runs.events
    assert event.text == "device stuck failed: no result within 60 s; its 3 groups run on edge"
    assert {run.step.device for run in trace.groups} == {"edge"}
    for name, value in ReferenceSession(GRAPH).run(inputs).items():
        np.testing.assert_allclose(outputs[name], value, rtol=1e-4, atol=1e-5)
    runs.close()


def test_a_session_ends_when_its_last_device_fails() -> None:
    devices = device_set(Failing("one", 3), Failing("two", 1))
    with session_on(devices) as session, pytest.raises(TargetError, match="no device is left"):
        assert_right(session)


def test_requests_of_several_threads_are_on_several_devices_at_once() -> None:
    meeting = Meeting(2)
    devices = device_set(Meets("edge", meeting), Meets("mobile", meeting))
    with session_on(devices) as session:
        drawn = [session.draw_inputs(np.random.default_rng(seed)) for seed in range(6)]
        with ThreadPoolExecutor(3) as threads:
            answers = list(threads.map(session.run, drawn))
        for inputs, got in zip(drawn, answers, strict=True):
            for name, value in session.reference_outputs(inputs).items():
                np.testing.assert_allclose(got[name], value, rtol=1e-4, atol=1e-5)
    assert meeting.has_met.is_set(), "two devices worked at the same time"
    assert meeting.most_on_one == 1, "a device does one thing at a time"


@pytest.mark.parametrize("at", [0, 2, 5])
def test_a_device_fails_while_several_requests_are_under_way(at: int) -> None:
    with session_on(device_set(emulated("mobile"), Failing("broken", at))) as session:
        drawn = [session.draw_inputs(np.random.default_rng(seed)) for seed in range(6)]
        with ThreadPoolExecutor(3) as threads:
            answers = list(threads.map(session.run, drawn))
        (event,) = session.events
        assert "groups run on mobile" in event.text
        for inputs, got in zip(drawn, answers, strict=True):
            for name, value in session.reference_outputs(inputs).items():
                np.testing.assert_allclose(got[name], value, rtol=1e-4, atol=1e-5)


def test_groups_that_no_device_takes_end_every_run(monkeypatch: pytest.MonkeyPatch) -> None:
    def none_fits(*_: object) -> None:
        raise TargetError("no other device can run it")

    monkeypatch.setattr("autotune.runtime.devices.placed_runs.moved", none_fits)
    with session_on(device_set(emulated("mobile"), Failing("broken"))) as session:
        for _ in range(2):
            with pytest.raises(TargetError, match="no other device can run it"):
                assert_right(session)


def test_a_device_that_has_failed_lets_nobody_wait() -> None:
    waits = []

    def wait(done: threading.Event, seconds: float) -> bool:
        waits.append(seconds)
        return False

    worker = DeviceWorker("slow", 5.0, wait)
    for _ in range(3):
        with pytest.raises(DeviceFailure, match="device slow failed: no result within 5 s"):
            worker.call(lambda: None)
    assert waits == [5.0]
    worker.stop()


def test_several_devices_need_a_plan_and_do_not_learn() -> None:
    devices = device_set(emulated("edge"), emulated("mobile"))
    with pytest.raises(InputError, match="several devices run by a plan; make one with"):
        Session(GRAPH, devices)
    choices = choices_on(GRAPH, unfused(GRAPH), devices, [0] * len(GRAPH.ops))
    plan = plan_of(GRAPH, devices, choices)
    with pytest.raises(InputError, match="does not learn; leave online out"):
        Session(GRAPH, devices, plan=plan, online=True)
    with pytest.raises(PlanError, match="search again with '--devices edge,server'"):
        Session(GRAPH, device_set(emulated("edge"), emulated("server")), plan=plan)


def test_groups_of_a_plan_keep_their_devices_in_any_order() -> None:
    devices = device_set(emulated("edge"), emulated("mobile"))
    partition = Partition.of(GRAPH, [(op.name,) for op in reversed(GRAPH.ops)])
    choices = choices_on(GRAPH, partition, devices, [1] * len(GRAPH.ops))
    with Session(GRAPH, devices, plan=plan_of(GRAPH, devices, choices)) as session:
        assert {step.device for step in session.table.steps} == {"mobile"}
        assert_right(session)
