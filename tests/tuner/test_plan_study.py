"""Studies of searches: curves by strategy, plans that two processes begin at once, and how they open elsewhere."""

from __future__ import annotations

import json
import os
from pathlib import Path

import optuna
import pytest
from optuna.trial import TrialState

from autotune.cost_model.model import CostModel
from autotune.fusion.greedy import unfused
from autotune.targets.opening import target
from autotune.tuner.plan_study import PlanStudy
from autotune.tuner.problem import FusionProblem
from autotune.tuner.schedules import GroupCosts
from autotune.tuner.study_storage import open_storage
from tests.tuner.search_case import residual

SPEC = target("cpu:1").spec
GRAPH = residual(blocks=1, size=28)


def opened(place: Path | None = None) -> PlanStudy:
    problem = FusionProblem(GRAPH, GroupCosts(CostModel.typical(SPEC), SPEC))
    storage = None if place is None else open_storage(place)
    return PlanStudy.open(problem, "cpu", "latency", storage)


def enter(study: PlanStudy, strategy: str, measurements: int, cost: float | None) -> int:
    trial = study.begin(strategy, unfused(GRAPH), None, measurements)
    study.end(trial, cost)
    return trial


def test_curves_are_the_falls_of_each_strategy_by_its_own_measurements() -> None:
    study = opened()
    rows = [("tpe", 4, 90.0), ("random", 3, 100.0), ("random", 2, None), ("random", 5, 80.0)]
    for row in (*rows, ("random", 5, 85.0), ("tpe", 1, 95.0), ("gp", 2, None)):
        enter(study, *row)
    assert study.curves("random") == {
        "random": ((3, 100.0), (10, 80.0), (15, 80.0)),
        "tpe": ((4, 90.0), (5, 90.0)),
    }
    assert list(study.curves("random")) == ["random", "tpe"]
    assert list(study.curves("tpe")) == ["tpe", "random"]
    assert opened().curves("model") == {}


def answer(application: object, path: str) -> dict[str, object]:
    """Ask a WSGI application for a page; return its JSON."""
    import io
    from wsgiref.util import setup_testing_defaults

    environment: dict[str, object] = {"PATH_INFO": path, "wsgi.input": io.BytesIO()}
    setup_testing_defaults(environment)
    statuses: list[str] = []
    parts = application(environment, lambda status, *_: statuses.append(status))
    text = b"".join(parts).decode()
    assert statuses[0].startswith("200"), f"{path}: {statuses[0]} {text[:200]}"
    found: dict[str, object] = json.loads(text)
    return found


def test_a_study_opens_by_optunas_own_storage_and_in_its_dashboard(tmp_path: Path) -> None:
    place = tmp_path / "studies.db"
    study = opened(place)
    for cost in (100.0, None, 80.0):
        enter(study, "random", 4, cost)
    url = f"sqlite:///{place}"
    (name,) = optuna.get_all_study_names(url)
    loaded = optuna.load_study(study_name=name, storage=url)
    assert loaded.best_value == 80.0 and len(loaded.trials) == 3
    dashboard = pytest.importorskip("optuna_dashboard")
    page = dashboard.wsgi(optuna.storages.RDBStorage(url))
    listed = answer(page, "/api/studies")["study_summaries"]
    assert [one["study_name"] for one in listed] == [name]  # type: ignore[attr-defined]
    details = answer(page, f"/api/studies/{listed[0]['study_id']}")
    states = [trial["state"] for trial in details["trials"]]  # type: ignore[attr-defined]
    assert states == ["Complete", "Fail", "Complete"]


def test_of_two_processes_with_equal_draws_the_later_one_draws_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, plan = tmp_path / "studies.db", unfused(GRAPH)
    one, two = opened(place), opened(place)
    count = one.count
    assert two.count == count  # so both draw the same
    first = one.begin("random", plan, None, 4)
    monkeypatch.setattr(os, "getpid", os.getppid)
    second = two.begin("random", plan, None, 4)
    assert two.is_taken(second) and not one.is_taken(first)
    two.give_up(second)
    assert two.count == count + 2  # and the next draw differs
    other = two.begin("random", plan, {**two.decided(plan), next(iter(two.distributions)): True}, 4)
    assert not two.is_taken(other)
    one.end(first, 100.0)
    again = two.begin("random", plan, None, 4)
    assert not two.is_taken(again)
    failed = next(t for t in two.study.trials if t.state is TrialState.FAIL)
    assert failed.user_attrs["reason"] == "another process runs this plan"
