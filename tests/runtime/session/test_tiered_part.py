"""Runs never wait for the compiler: numpy answers until programs are there, and if they never come."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from autotune.errors import AutotuneError, ScheduleError
from autotune.graph.graph import Graph
from autotune.operators.families import evaluate_op
from autotune.operators.op import Op
from autotune.runtime.execution.event import EventKind
from autotune.runtime.session.compile_queue import CompileQueue
from autotune.runtime.session.dynamic import DynamicSession
from autotune.runtime.session.part import SessionPart
from autotune.runtime.session.session import Session
from tests.runtime.session.test_dynamic import LAYERS, agrees, drawn, saved, wanted

WAIT_SECONDS = 60.0


class Blocked:
    """A compiler that waits until it is released, and counts."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, failing: bool = False) -> None:
        self.released, self.asked = threading.Event(), threading.Event()
        self.graphs: list[Graph] = []
        self.lock = threading.Lock()
        compiled = DynamicSession._open_part

        def opened(session: DynamicSession, graph: Graph) -> SessionPart:
            with self.lock:
                self.graphs.append(graph)
            self.asked.set()
            assert self.released.wait(WAIT_SECONDS)
            if failing:
                raise ScheduleError("no schedule fits")
            return compiled(session, graph)

        monkeypatch.setattr(DynamicSession, "_open_part", opened)


@contextmanager
def opened(
    tmp_path: Path, blocked: Blocked, target: str = "cpu:1"
) -> Iterator[tuple[Session, Path]]:
    path = saved(tmp_path, LAYERS)
    with Session(path, target, tmp_path / "store.db") as session:
        try:
            yield session, path
        finally:
            blocked.released.set()
            session.wait_idle(WAIT_SECONDS)


@pytest.mark.parametrize("target", ["cpu:1", "edge"])
def test_many_threads_with_many_new_shapes_are_answered_while_the_compiler_blocks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, target: str
) -> None:
    blocked = Blocked(monkeypatch)
    with opened(tmp_path, blocked, target) as (session, path), ThreadPoolExecutor(8) as pool:
        shapes = [(1, seq) for seq in (3, 5, 6, 7, 9, 11)]  # none is a bucket
        expected = {shape: wanted(path, drawn(*shape))["y"] for shape in shapes}

        def run(number: int) -> None:
            shape = shapes[number % len(shapes)]
            made = session.run(drawn(*shape))["y"]
            np.testing.assert_allclose(made, expected[shape], rtol=1e-5, atol=1e-5)

        list(pool.map(run, range(12 * len(shapes))))
        assert blocked.asked.wait(WAIT_SECONDS)
        assert len(blocked.graphs) == 1  # the compiler has one thread, and it blocks
        blocked.released.set()
        session.wait_idle(WAIT_SECONDS)
        fingerprints = [graph.fingerprint for graph in blocked.graphs]
        assert len(set(fingerprints)) == len(fingerprints)  # no shape was compiled twice
        assert len(session.traced_run(drawn(1, 4))[1].groups) > 0


def test_a_shape_that_cannot_be_compiled_is_still_answered_and_an_event_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocked = Blocked(monkeypatch, failing=True)
    blocked.released.set()
    with opened(tmp_path, blocked) as (session, path):
        agrees(session, path, drawn(2, 3))
        session.wait_idle(WAIT_SECONDS)
        agrees(session, path, drawn(2, 3))
        session.wait_idle(WAIT_SECONDS)
        assert len(blocked.graphs) == 1  # it is not tried again
        (event,) = [one for one in session.events if one.kind is EventKind.UNCOMPILED]
        assert "x [2, 3, 8]" in event.text and "no schedule fits" in event.text
        with pytest.raises(ScheduleError, match="no schedule fits"):
            session.traced_run(drawn(2, 3))  # who asks for costs is told
        agrees(session, path, drawn(2, 3))


def test_closing_while_the_compiler_runs_returns_at_once_and_nothing_stays_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocked = Blocked(monkeypatch)
    closed: list[SessionPart] = []
    close = SessionPart.close

    def noted(part: SessionPart) -> None:
        closed.append(part)
        close(part)

    monkeypatch.setattr(SessionPart, "close", noted)
    with opened(tmp_path, blocked) as (session, path):
        agrees(session, path, drawn(1, 3))
        agrees(session, path, drawn(1, 4))
        assert blocked.asked.wait(WAIT_SECONDS)
        session.close()
        assert not closed
        blocked.released.set()
        session._network.wait_idle(WAIT_SECONDS)
        assert len(blocked.graphs) == len(closed) == 1  # those that waited are dropped
        with pytest.raises(AutotuneError, match="closed"):
            session.run(drawn(1, 3))


def test_a_run_that_programs_overtake_leaves_numpy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocked = Blocked(monkeypatch)
    ops: list[object] = []

    def slow(op: Op, values: Sequence[np.ndarray]) -> np.ndarray:
        ops.append(op)
        if len(ops) == 1:  # the programs come while the first operator is interpreted
            blocked.released.set()
            session.wait_idle(WAIT_SECONDS)
        return evaluate_op(op, values)

    with opened(tmp_path, blocked) as (session, path):
        expected = wanted(path, drawn(2, 3))["y"]
        monkeypatch.setattr("autotune.graph.evaluation.evaluate_op", slow)
        np.testing.assert_allclose(session.run(drawn(2, 3))["y"], expected, rtol=1e-5, atol=1e-5)
        assert len(ops) == 1
        assert len(session.last_run.groups) > 0


def test_the_queue_refuses_what_it_has_and_what_it_has_no_room_for() -> None:
    gate, done = threading.Event(), []

    class Waiting:
        def __init__(self, uses: int) -> None:
            self.uses = uses

        def make(self) -> None:
            assert gate.wait(WAIT_SECONDS)
            done.append(self.uses)

    queue = CompileQueue("net", limit=2)
    first = Waiting(9)
    assert queue.put(first)
    while not queue.put(Waiting(1)):  # until the thread has taken the first
        pass
    once = Waiting(5)
    while not queue.put(once):
        pass
    assert not queue.put(once) and not queue.put(Waiting(7))
    gate.set()
    queue.wait(WAIT_SECONDS)
    assert done == [9, 5, 1]  # the most used first
    queue.close()
    assert not queue.put(Waiting(1))


def test_a_defect_in_a_job_ends_its_thread_and_the_next_job_has_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    done = threading.Event()
    monkeypatch.setattr(threading, "excepthook", lambda _: None)

    class Job:
        uses = 0

        def __init__(self, defect: bool) -> None:
            self.defect = defect

        def make(self) -> None:
            if self.defect:
                raise SystemExit
            done.set()

    queue = CompileQueue("net")
    assert queue.put(Job(defect=True))
    for thread in threading.enumerate():
        if thread.name == "autotune-compile-net":
            thread.join()
    assert queue.put(Job(defect=False))
    assert done.wait(WAIT_SECONDS)
