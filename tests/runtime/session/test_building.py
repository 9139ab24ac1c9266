"""A group that cannot be built runs operator by operator; the session says so, and calibration too."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from autotune.errors import ProgramError
from autotune.fusion.group import Group
from autotune.graph.evaluation import evaluate
from autotune.isa.program import Program
from autotune.lowering import lower as lowering
from autotune.measure.attempt import attempt
from autotune.runtime.execution.event import EventKind
from autotune.runtime.session.session import Session
from autotune.schedule.candidate import Candidate
from autotune.schedule.schedule import Schedule
from autotune.targets.native.running.target import NativeTarget
from autotune.targets.opening import target
from autotune.targets.spec import HardwareSpec
from autotune.tuner.heuristic_plan import heuristic_choices
from tests.runtime import runtime_case as case

GRAPH = case.network()
LOWER = lowering.lower
ERRORS = (ProgramError("operand lhs depends on 3 loops"), IndexError("list index out of range"))


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AUTOTUNE_HOME", str(tmp_path / "home"))


def broken(monkeypatch: pytest.MonkeyPatch, error: Exception, least: int = 2) -> None:
    """Lowering groups of ``least`` operators and more raises from now on."""

    def lower(group: Group, schedule: Schedule, spec: HardwareSpec) -> Program:
        if len(group.ops) >= least:
            raise error
        return LOWER(group, schedule, spec)

    monkeypatch.setattr(lowering, "lower", lower)


@pytest.mark.parametrize("error", ERRORS, ids=lambda e: type(e).__name__)
@pytest.mark.parametrize("machine", ["cpu:1", "edge"])
def test_operators_of_a_group_that_cannot_be_lowered_run_one_by_one(
    machine: str, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken(monkeypatch, error)
    fed = case.inputs(GRAPH)
    with pytest.warns(RuntimeWarning, match=r"run one by one, not fused: .*" + str(error)) as told:
        session = Session(GRAPH, machine)
    assert {warning.filename for warning in told} == {__file__}
    with session:
        got = session.run(fed)
        assert all(len(step.operators) == 1 for step in session.table.group_steps)
        assert session.table.split
        events = session.events
    assert [event.kind for event in events] == [EventKind.SPLIT] * len(session.table.split)
    assert all(str(error) in group.reason for group in session.table.split)
    if not isinstance(error, ProgramError):
        assert "defect in lowering: IndexError" in session.table.split[0].reason
    for name, value in evaluate(GRAPH, fed).items():
        np.testing.assert_allclose(got[name], value, rtol=1e-3, atol=1e-5)


def test_a_group_that_cannot_be_bound_runs_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = target("cpu", 1)
    assert isinstance(machine, NativeTarget)
    verified, fed = NativeTarget._verified, case.inputs(GRAPH)
    fused = [c for c in heuristic_choices(GRAPH, machine.spec) if len(c.group.ops) > 1]
    streams = [LOWER(c.group, c.schedule, machine.spec).streams for c in fused if c.schedule]

    def refused(self: NativeTarget, program: Program) -> object:
        if program.streams in streams:
            raise ProgramError("no micro-kernel takes it")
        return verified(self, program)

    monkeypatch.setattr(NativeTarget, "_verified", refused)
    with pytest.warns(RuntimeWarning, match="no micro-kernel takes it"):
        session = Session(GRAPH, machine)
    with session:
        assert len(session.table.split) == len(fused)
        got = session.run(fed)
    for name, value in evaluate(GRAPH, fed).items():
        np.testing.assert_allclose(got[name], value, rtol=1e-4, atol=1e-5)


def test_a_network_whose_groups_can_all_be_built_is_not_split() -> None:
    with Session(GRAPH, "cpu:1") as session:
        assert session.table.split == () and session.events == ()


def test_what_cannot_be_built_even_alone_raises_its_own_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    broken(monkeypatch, IndexError("list index out of range"), least=1)
    with pytest.raises(IndexError, match="list index out of range"):
        Session(GRAPH, "cpu:1")


@pytest.mark.parametrize("error", ERRORS, ids=lambda e: type(e).__name__)
def test_calibration_and_search_still_report_it_as_a_failed_candidate(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken(monkeypatch, error)
    machine = target("edge")
    choice = next(c for c in heuristic_choices(GRAPH, machine.spec) if len(c.group.ops) > 1)
    assert choice.schedule is not None
    outcome = attempt(machine, Candidate(choice.group, choice.schedule, "net"), lowering.lower)
    assert isinstance(outcome, str) and str(error) in outcome
