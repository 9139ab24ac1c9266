"""Runs on this CPU by one compiled call: the same answers, counts and refusals as by the longer way."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from autotune.datasets import NETWORKS
from autotune.errors import AutotuneError, InputError
from autotune.runtime.execution import execution
from autotune.runtime.execution.program_table import ProgramTable
from autotune.runtime.session.session import Session


@pytest.fixture
def mlp(tmp_path: Path) -> Path:
    builder = NETWORKS["mlp"].builder
    assert builder is not None
    onnx.save(builder(), tmp_path / "mlp.onnx")
    return tmp_path / "mlp.onnx"


@pytest.fixture
def session(mlp: Path) -> Iterator[Session]:
    with Session(mlp, threads=1) as one:
        yield one


@pytest.fixture
def longer_ways(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A list that gets the name of each executable that a run called with checked inputs."""
    seen: list[str] = []
    usual = execution._execute_at_once

    def noted(table: ProgramTable, *rest: Any) -> object:
        seen.append(table.graph.name)
        return usual(table, *rest)

    monkeypatch.setattr(execution, "_execute_at_once", noted)
    return seen


def inputs_of(session: Session) -> dict[str, np.ndarray]:
    return session.draw_inputs(np.random.default_rng(3))


def strided(array: np.ndarray) -> np.ndarray:
    return np.repeat(array, 2, axis=-1)[..., ::2]


def test_arrays_as_programs_take_them_go_the_short_way_to_the_same_outputs(
    session: Session, longer_ways: list[str]
) -> None:
    inputs = inputs_of(session)
    found = session.run(inputs)
    assert not longer_ways
    others = session.run({x: strided(array) for x, array in inputs.items()})
    assert longer_ways
    assert [found[x].tobytes() for x in others] == [others[x].tobytes() for x in others]
    for x, expected in session.reference_outputs(inputs).items():
        np.testing.assert_allclose(found[x], expected, rtol=1e-4, atol=1e-5)


def test_both_ways_leave_a_trace_and_are_counted(session: Session) -> None:
    inputs = inputs_of(session)
    groups = len(session.table.group_steps)
    for given in (inputs, {x: strided(array) for x, array in inputs.items()}):
        _, trace = session.traced_run(given)
        assert len(trace.groups) == groups and trace.cycles > 0
        assert [run.step for run in trace.groups] == list(session.table.group_steps)
        assert session.last_run is trace
    assert {row.executions for row in session.profile()} == {2}


def test_each_run_makes_outputs_of_its_own(session: Session) -> None:
    inputs = inputs_of(session)
    first, kept = session.run(inputs), session.run(inputs)
    name = next(iter(first))
    before = kept[name].copy()
    first[name][...] = np.nan
    session.run(inputs)
    assert np.array_equal(kept[name], before)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda x: {name: a[:, :-1].copy() for name, a in x.items()}, "has shape"),
        (lambda x: {name: a.astype(np.float64) for name, a in x.items()}, "is float64"),
        (lambda x: {**x, "other": np.zeros(1, np.float32)}, "no input 'other'"),
        (lambda _: {}, "is missing"),
    ],
)
def test_wrong_inputs_are_refused_as_ever(
    session: Session,
    change: Callable[[dict[str, np.ndarray]], dict[str, np.ndarray]],
    message: str,
) -> None:
    inputs = inputs_of(session)
    session.run(inputs)
    with pytest.raises(InputError, match=message):
        session.run(change(inputs))


def test_a_closed_session_runs_nothing(mlp: Path) -> None:
    session = Session(mlp, threads=1)
    inputs = inputs_of(session)
    session.run(inputs)
    session.close()
    with pytest.raises(AutotuneError, match="closed"):
        session.run(inputs)


def test_inputs_stay_while_a_run_reads_them(session: Session) -> None:
    """Another thread takes the arrays from the dict over and over, which holds the only references."""
    drawn = inputs_of(session)
    expected = {x: y.copy() for x, y in session.run(drawn).items()}
    given: dict[str, np.ndarray] = {}
    over = threading.Event()

    def replace() -> None:
        while not over.is_set():
            for x, array in drawn.items():
                given[x] = array.copy()

    given.update({x: array.copy() for x, array in drawn.items()})
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    thread = threading.Thread(target=replace)
    thread.start()
    try:
        for _ in range(300):
            found = session.run(given)
            assert all(np.array_equal(found[x], y) for x, y in expected.items())
    finally:
        over.set()
        thread.join()
        sys.setswitchinterval(interval)
