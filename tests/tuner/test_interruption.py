"""However a search or a calibration ends, what was measured stays, and a search that has a plan leaves it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import cache
from pathlib import Path

import onnx
import optuna
import pytest
from optuna.trial import FrozenTrial, TrialState

from autotune import api
from autotune.cli.main import main
from autotune.cost_model.fitting import fit_model
from autotune.cost_model.model import CostModel
from autotune.fusion.group import Group
from autotune.graph.graph import Graph
from autotune.measure.measurement import Measured
from autotune.measure.runner import arrivals
from autotune.schedule.candidate import Candidate
from autotune.schedule.schedule import Schedule
from autotune.store.records import Outcome
from autotune.store.store import Store
from autotune.tuner.fusion import search
from autotune.tuner.heuristic_plan import heuristic_choices
from autotune.tuner.interruption import SearchInterrupted
from autotune.tuner.options import SearchOptions
from autotune.tuner.plan import Plan
from tests.runtime.control_case import BRANCH, model_of
from tests.tuner.killed_script import BUDGET, STUDIES, work
from tests.tuner.search_case import EDGE, calibrated, chain, halves, residual
from tests.tuner.stand_in import Fate, StandIn

pytestmark = pytest.mark.slow  # starts processes, trains models

PROFILE = EDGE.spec.profile_id
ENOUGH = 10
"""Measurements after which a process is killed."""
GUARD_SECONDS = 180
"""Against a hang; a busy machine may take its time."""


def interrupt(phase: str, done: int, total: int, best: float | None = None) -> None:
    """Ctrl-C in the middle of measuring."""
    if phase == "measure" and done == ENOUGH:
        raise KeyboardInterrupt


def killed(command: str, folder: Path) -> int:
    """Kill a process while it times program number ``ENOUGH``; return how many it had begun to time."""
    log = folder / "log"
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.tuner.killed_script", command, str(folder), str(ENOUGH)],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    deadline = time.monotonic() + GUARD_SECONDS
    while process.poll() is None and time.monotonic() < deadline:
        if log.exists() and len(log.read_text().splitlines()) >= ENOUGH:
            break
        time.sleep(0.002)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL, "it ended before it was killed"
    return len(log.read_text().splitlines())


def trials_of(folder: Path) -> list[FrozenTrial]:
    """The trials of a search's study, read as any tool of Optuna's reads them."""
    place = f"sqlite:///{folder / STUDIES}"
    (name,) = optuna.get_all_study_names(place)
    return optuna.load_study(study_name=name, storage=place).trials


@pytest.mark.parametrize("command", ["calibrate", "search"])
def test_kill_9_loses_no_measurement_and_nothing_is_measured_again(
    command: str, tmp_path: Path
) -> None:
    timed = killed(command, tmp_path)
    with Store.open(tmp_path / "store.db") as store:
        before = store.known(PROFILE)
        assert (
            timed - 1 <= len(before) <= timed
        )  # the last one may not have come to its transaction
    tried = trials_of(tmp_path) if command == "search" else []
    (tmp_path / "log").unlink()
    measured, candidates = work(command, tmp_path)
    assert len((tmp_path / "log").read_text().splitlines()) == measured
    if command == "calibrate":
        assert measured == 2 * BUDGET - len(before)
    assert not candidates & before
    if command == "search":
        _check_resumed(tried, trials_of(tmp_path))


def _check_resumed(before: list[FrozenTrial], after: list[FrozenTrial]) -> None:
    """Finished trials stay as they are, what ran when its process was killed failed, and new ones follow."""
    running = [trial.number for trial in before if trial.state is TrialState.RUNNING]
    assert running == [len(before) - 1]
    assert after[: running[0]] == before[: running[0]]
    assert after[running[0]].state is TrialState.FAIL
    assert len(after) > len(before)
    assert all(trial.state is TrialState.COMPLETE for trial in after[len(before) :])


def test_an_interrupted_search_raises_with_its_plan() -> None:
    with Store.memory() as store, pytest.raises(SearchInterrupted) as stop:
        search(
            residual(1),
            EDGE,
            calibrated()[0],
            SearchOptions(6, 24, workers=1),
            progress=interrupt,
            store=store,
        )
        assert store.count(PROFILE, "search") == ENOUGH
    result = stop.value.result
    assert result.stopped == "interrupted"
    assert len(result.records) == ENOUGH
    assert result.plan.groups
    least = min(plan.predicted_cycles for plan in (result.unfused, result.greedy))
    assert result.found.predicted_cycles <= 1.01 * least


def true_cycles(graph: Graph, plan: Iterable[tuple[Group, Schedule | None]]) -> int:
    """Cycles of a plan on the machine, every group itself."""
    candidates = [Candidate(g, s, graph.name) for g, s in plan if s is not None]
    results = [one for _, one in arrivals(EDGE, candidates, 1)]
    return sum(one.execution.cycles for one in results if isinstance(one, Measured))


class Stopping:
    """Ctrl-C at the report of a number."""

    def __init__(self, number: int) -> None:
        self.left = number

    def __call__(self, *_: object) -> None:
        self.left -= 1
        if self.left == 0:
            raise KeyboardInterrupt


@pytest.mark.parametrize("make", [residual, halves])
def test_a_search_interrupted_at_any_report_leaves_no_plan_worse_than_the_heuristic_one(
    make: Callable[[], Graph],
) -> None:
    graph, model = make(), wrong_model()
    choices = heuristic_choices(graph, EDGE.spec)
    least = true_cycles(graph, [(one.group, one.schedule) for one in choices])
    number, interrupted = 5, 0  # four reports come before there is anything to write
    while True:
        options = SearchOptions(4, 24, workers=1)
        try:
            search(graph, EDGE, model, options, progress=Stopping(number))
            break
        except SearchInterrupted as reason:
            found = reason.result.found
        assert true_cycles(graph, found.scheduled) <= least
        interrupted += 1
        number += max(1, number // 3)
    assert interrupted > 5


@cache
def wrong_model() -> CostModel:
    """A model of other costs: those of a machine on which more work takes less time."""
    records = [replace(one, cycles=10**10 // max(1, one.cycles)) for one in calibrated()[1]]
    return fit_model(records, EDGE.spec, seed=0)


@pytest.mark.parametrize("machine", ["edge", "cpu:1"])
@pytest.mark.parametrize("network", ["mlp", "branch"])
@pytest.mark.parametrize("number", [1, 3])
def test_from_the_first_report_on_ctrl_c_writes_the_heuristic_plan(
    machine: str, network: str, number: int, tmp_path: Path
) -> None:
    out, path = tmp_path / "found.plan", network
    if network == "branch":  # graphs of its own: before it, and both branches
        path = str(tmp_path / "branch.onnx")
        onnx.save(model_of(BRANCH.replace("[N, 4]", "[3, 4]")), path)
    with pytest.raises(SearchInterrupted) as stop:
        api.search(path, machine, out=out, store=tmp_path / "store.db", progress=Stopping(number))
    assert stop.value.result.is_heuristic
    plan = Plan.load(out)
    assert plan == stop.value.result.plan
    assert len(plan.graphs) == (1 if network == "mlp" else 3)


def test_ctrl_c_before_anything_is_imported_waits_for_the_heuristic_plan(tmp_path: Path) -> None:
    code = (
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # a shell's job ignores it
        "from autotune.cli.main import main; main()"
    )
    options = ["--target", "edge", "--out", str(tmp_path / "mlp.plan")]
    process = subprocess.Popen(
        [sys.executable, "-c", code, "search", "mlp", *options],
        env=os.environ | {"AUTOTUNE_HOME": str(tmp_path / "home")},
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    assert "starting" in process.stderr.readline()
    process.send_signal(signal.SIGINT)
    told = process.stderr.read()
    assert process.wait(GUARD_SECONDS) == 130, told
    assert "the heuristic plan is made first" in told
    assert "mlp.plan, predicted" in told
    assert Plan.load(tmp_path / "mlp.plan").groups
    assert (tmp_path / "mlp.html").exists()


def test_ctrl_c_writes_plan_and_report_and_says_how_good(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = api.search

    def interrupted(*arguments: object, **options: object) -> object:
        return run(*arguments, **{**options, "progress": interrupt})

    monkeypatch.setenv("AUTOTUNE_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(api, "search", interrupted)
    plan = tmp_path / "mlp.plan"
    with pytest.raises(SystemExit) as ending:
        main(["search", "mlp", "--target", "edge", "--trials", "4", "--out", str(plan)])
    assert ending.value.code == 130
    told = " ".join(capsys.readouterr().err.split())
    assert "best plan so far:" in told and f"{ENOUGH} measurements" in told
    assert "interrupted; what was measured is kept" in told
    assert Plan.load(plan).groups
    assert plan.with_suffix(".html").read_text().startswith("<!")


def test_a_target_that_fails_half_the_time_gets_a_plan() -> None:
    options = SearchOptions(4, 24, workers=1)
    with Store.memory() as store:
        found = search(chain(), StandIn(Fate.BREAKS, 2), calibrated()[0], options, store=store)
        stored = store.count(PROFILE, "search")
    failed = sum(record.outcome is Outcome.FAILED for record in found.records)
    assert 0 < failed < len(found.records) == stored <= 24
    assert found.found.measured_cycles is not None and not found.stopped


def test_a_target_that_begins_to_hang_ends_the_measuring_with_a_plan() -> None:
    class Tiring(StandIn):
        """Hangs from its fifth program on."""

        calls = 0

        def is_struck(self, program: object) -> bool:
            self.calls += 1
            return self.calls > 4

        def __reduce__(self) -> str:
            raise TypeError("stays in this process, where it can count")

    options = SearchOptions(4, 40, workers=1, time_limit_seconds=0.2)
    with Store.memory() as store:
        found = search(residual(1), Tiring(Fate.HANGS, 1), calibrated()[0], options, store=store)
        assert store.count(PROFILE, "search") == len(found.records) > 4
    assert "candidates in a row gave no result" in found.stopped, len(found.records)
    assert found.plan.groups
