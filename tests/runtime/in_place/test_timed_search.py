"""A search on this machine: without calibration, within its time, and never for a plan that is not faster."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import optuna
import pytest
from optuna.trial import FrozenTrial, TrialState

import autotune
from autotune.errors import InputError
from autotune.runtime.execution.memory_plan import memory_plan
from autotune.runtime.in_place.budget import Budget
from autotune.runtime.in_place.kept_times import KeptTimes
from autotune.runtime.in_place.search import InPlaceSearch
from autotune.runtime.in_place.search_setup import CONTEST_RUNS, CONTEST_SECONDS, Allowance
from autotune.runtime.session import plan_contest
from autotune.schedule.schedule import Schedule
from autotune.store.store import Store
from autotune.targets.opening import target
from autotune.tuner.choice import Choice
from autotune.tuner.contest import Contest
from autotune.tuner.heuristic_plan import heuristic_choices
from autotune.tuner.interruption import SearchInterrupted
from autotune.tuner.plan import Plan


def decide(monkeypatch: pytest.MonkeyPatch, *, is_won: bool) -> None:
    monkeypatch.setattr(
        plan_contest,
        "hold_contest",
        lambda *_, seconds: Contest(16, 16, 1.1 if is_won else 0.9, is_won),
    )


@pytest.mark.parametrize("is_won", [True, False])
def test_a_search_without_calibration_gives_a_plan_that_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_won: bool
) -> None:
    decide(monkeypatch, is_won=is_won)
    path, store = tmp_path / "mlp.plan", tmp_path / "store.db"
    result = autotune.search("mlp", "cpu:1", seconds=2.0, out=path, store=store)
    assert result.model is None
    assert "analytic estimate" in result.origin
    assert is_won or result.is_heuristic
    assert result.found.measured_cycles is not None
    assert result.heuristic is not None and result.heuristic.measured_cycles is not None
    assert result.trials[0].strategy == "heuristic"
    (statement,), (restriction,) = result.statements, result.restrictions
    assert "for these costs" in statement and "whole runs" in restriction
    # the bound is of peaks measured once: a plan near them may beat it while other work disturbs the clock
    assert result.bound_cycles and not result.is_bound_exact
    found = result.found.measured_cycles / result.bound_cycles
    assert result.above_bound == pytest.approx(found - 1.0) and found > 0.5
    session = autotune.Session(path, target="cpu:1")
    inputs = {x: np.ones(shape, np.float32) for x, shape in _inputs().items()}
    plain = autotune.Session("mlp", target="cpu:1").run(inputs)
    for name, value in session.run(inputs).items():
        np.testing.assert_allclose(value, plain[name], rtol=1e-3, atol=1e-5)
    with Store.open(store) as records:
        kept = records.records(target("cpu:1").spec.profile_id)
    assert {record.source for record in kept} == {"run", "search"}
    assert len(kept) == result.measurements > 0


def _inputs() -> dict[str, tuple[int, ...]]:
    graph = autotune.load_network("mlp")
    return {x: graph.shape(x) for x in graph.inputs}


def adopt_another(search: InPlaceSearch) -> None:
    """Adopt another schedule for a group."""
    at = next(i for i, choice in enumerate(search.plan) if choice.schedule is not None)
    other = search.propose(search.plan[at], 4)[0]
    plan = list(search.plan)
    plan[at] = Choice(plan[at].group, other)
    search.plan = tuple(plan)


@pytest.mark.parametrize("is_won", [True, False])
def test_ctrl_c_writes_the_plan_so_far_if_it_won_and_else_the_heuristic_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_won: bool
) -> None:
    def interrupted(search: InPlaceSearch) -> None:
        adopt_another(search)
        raise KeyboardInterrupt

    decide(monkeypatch, is_won=is_won)
    monkeypatch.setattr(InPlaceSearch, "run", interrupted)
    path = tmp_path / "mlp.plan"
    with pytest.raises(SearchInterrupted) as stop:
        autotune.search("mlp", "cpu:1", out=path, store=tmp_path / "store.db")
    assert stop.value.result.is_heuristic != is_won
    assert Plan.load(path) == stop.value.result.plan


def test_ctrl_c_in_the_contest_leaves_the_heuristic_plan(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object, seconds: float) -> Contest:
        raise KeyboardInterrupt

    monkeypatch.setattr(plan_contest, "hold_contest", interrupted)
    monkeypatch.setattr(InPlaceSearch, "run", adopt_another)
    path = tmp_path / "mlp.plan"
    with pytest.raises(SearchInterrupted) as stop:
        autotune.search("mlp", "cpu:1", out=path, store=tmp_path / "store.db")
    assert stop.value.result.is_heuristic
    assert stop.value.result.found.measured_cycles is not None
    assert Plan.load(path) == stop.value.result.plan


def test_kill_9_loses_nothing_measured_and_the_next_search_begins_with_it(tmp_path: Path) -> None:
    place, cpu = tmp_path / "store.db", target("cpu:1")
    code = f"import autotune; autotune.search('mlp', 'cpu:1', seconds=60.0, store={str(place)!r})"
    process = subprocess.Popen([sys.executable, "-c", code])
    deadline = time.monotonic() + 180.0
    with Store.open(place) as store:
        while store.count(cpu.spec.profile_id, "search") < 10 and time.monotonic() < deadline:
            assert process.poll() is None
            time.sleep(0.05)
        process.send_signal(signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL
        before = store.records(cpu.spec.profile_id, "search")
        assert len(before) >= 10
        kept = KeptTimes.read(store, cpu, before[0].network)
    graph = autotune.load_network("mlp", layout=cpu.spec.layout, accuracy="close")
    times = [kept.best(choice.group) for choice in heuristic_choices(graph, cpu.spec)]
    assert any(times)
    killed = studies_beside(place)
    result = autotune.search("mlp", "cpu:1", seconds=2.0, store=place)
    with Store.open(place) as store:
        assert store.records(cpu.spec.profile_id, "search")[: len(before)] == before
    assert result.measurements > 0
    later = studies_beside(place)
    assert later.keys() >= killed.keys() > set(), "the study of candidates may not have begun"
    for name, trials in killed.items():
        assert [t.number for t in later[name]] == list(range(len(later[name])))
        assert [t.user_attrs for t in later[name][: len(trials)]] == [t.user_attrs for t in trials]
        assert all(t.state.is_finished() for t in later[name])


def studies_beside(store: Path) -> dict[str, list[FrozenTrial]]:
    """Return the trials of each study in the file beside a store, as Optuna's own storage reads them."""
    place = f"sqlite:///{store.with_name('studies.db')}"
    names = optuna.get_all_study_names(place)
    return {x: optuna.load_study(study_name=x, storage=place).trials for x in names}


def test_a_search_is_a_study_of_plans_and_one_of_candidates(tmp_path: Path) -> None:
    place = tmp_path / "own.db"
    autotune.search("mlp", "cpu:1", seconds=6.0, store=tmp_path / "store.db", storage=place)
    found = {
        x: optuna.load_study(study_name=x, storage=f"sqlite:///{place}")
        for x in optuna.get_all_study_names(f"sqlite:///{place}")
    }
    assert not (tmp_path / "studies.db").exists()
    (plans, candidates) = sorted(found.values(), key=lambda study: len(study.study_name))
    assert candidates.study_name == f"{plans.study_name}, candidates"
    assert {t.user_attrs["strategy"] for t in (*plans.trials, *candidates.trials)} == {"model"}
    first = plans.trials[0]
    assert first.value == plans.user_attrs["heuristic cycles"] and first.params
    states = {t.state for t in candidates.trials}
    assert TrialState.PRUNED in states and TrialState.COMPLETE in states
    for trial in candidates.trials:
        assert trial.user_attrs["base"] < len(plans.trials) and trial.user_attrs["schedules"]


@pytest.mark.parametrize("strategy", ["random", "tpe"])
def test_strategies_write_their_trials_into_the_same_study(tmp_path: Path, strategy: str) -> None:
    place = tmp_path / "store.db"
    for name in ("heuristic", strategy):
        result = autotune.search("mlp", "cpu:1", seconds=3.0, store=place, strategy=name)
        assert result.found.measured_cycles is not None
    (trials,) = studies_beside(place).values()
    assert {t.user_attrs["strategy"] for t in trials} == {"heuristic", strategy}
    assert result.graphs[0].trials[-1].strategy == strategy


def test_a_proof_of_sums_is_refused_where_groups_depend_on_neighbours() -> None:
    with pytest.raises(InputError, match=r"strategy exact proves .* on cpu:1 .* take model"):
        autotune.search("mlp", "cpu:1", strategy="exact")
    with pytest.raises(InputError, match="no strategy 'best'; there are model, exact"):
        autotune.search("mlp", "cpu:1", strategy="best")


def test_least_memory_is_kept_even_if_it_is_no_faster(tmp_path: Path) -> None:
    path = tmp_path / "block.plan"
    result = autotune.search(
        "transformer_block",
        "cpu:1",
        seconds=3.0,
        objective="memory",
        out=path,
        store=tmp_path / "s.db",
    )
    heuristic = result.heuristic
    assert heuristic is not None and result.found.peak_bytes < heuristic.peak_bytes
    assert result.peak_bytes("found") == result.found.peak_bytes
    assert Plan.load(path).objective.name == "memory"
    found = autotune.Session(path, target="cpu:1")
    plain = autotune.Session("transformer_block", target="cpu:1")
    (name,) = autotune.load_network("transformer_block").inputs
    inputs = {name: np.ones(autotune.load_network("transformer_block").shape(name), np.float32)}
    for output, value in found.run(inputs).items():
        np.testing.assert_allclose(value, plain.run(inputs)[output], rtol=1e-3, atol=1e-4)
    held = [memory_plan(session.table).arena_bytes for session in (found, plain)]
    assert held == [result.found.peak_bytes, heuristic.peak_bytes]


def test_least_memory_is_searched_on_this_cpu_by_the_default_strategy() -> None:
    with pytest.raises(InputError, match=r"memory is for searches on this CPU, and edge is not"):
        autotune.search("mlp", "edge", objective="memory")
    with pytest.raises(InputError, match=r"strategy random .* for objective memory take model"):
        autotune.search("mlp", "cpu:1", objective="memory", strategy="random")


def test_limits_of_candidates_and_plans_take_effect(tmp_path: Path) -> None:
    limits = {"trials": 1, "measure": 3}
    result = autotune.search("mlp", "cpu:1", seconds=4.0, store=tmp_path / "a.db", **limits)
    (graph,) = result.graphs
    assert graph.heuristic is not None
    in_use = {(one.group.key, one.schedule) for one in graph.heuristic.groups}
    screened = {
        (one.group_key, Schedule.from_json(one.schedule_json))
        for one in result.records
        if one.source == "search"
    }
    assert len(screened - in_use) <= 3
    assert len(graph.trials) <= 2


def test_a_time_limit_of_single_measurements_is_refused() -> None:
    with pytest.raises(InputError, match="measures by whole runs"):
        autotune.search("mlp", "cpu:1", time_limit_seconds=3.0)


def test_seconds_are_for_machines_that_are_timed() -> None:
    with pytest.raises(InputError, match="on edge give trials and measure"):
        autotune.search("mlp", "edge", seconds=3.0)
    with pytest.raises(InputError, match="seconds above 0"):
        autotune.search("mlp", "cpu:1", seconds=-1.0)


def test_graphs_share_the_time_that_is_left() -> None:
    one = Allowance(100.0, 60.0, 1).budget(0.001, 110.0)
    two = Allowance(100.0, 60.0, 2).budget(0.001, 110.0)
    assert one.start_seconds == two.start_seconds == 110.0
    assert one.seconds == pytest.approx(50.0 - 0.08)
    assert two.seconds == pytest.approx(25.0 - 0.08)


def test_the_contest_has_what_is_left_and_half_of_its_own_time_at_least() -> None:
    for now, seconds in ((50.0, 30.0), (70.0, 10.0), (90.0, 5.0)):
        assert Budget(60.0, 10.0, lambda now=now: now, 10.0).contest_seconds == seconds


@pytest.mark.parametrize(("run_seconds", "most"), [(1e-4, 15.0), (0.05, 30.0), (1.0, 50.0)])
def test_without_seconds_a_search_takes_as_long_as_the_network_needs(
    run_seconds: float, most: float
) -> None:
    budget = Allowance(0.0, None).budget(run_seconds, 1.0)
    assert budget.seconds + min(CONTEST_SECONDS, CONTEST_RUNS * run_seconds) == pytest.approx(most)
