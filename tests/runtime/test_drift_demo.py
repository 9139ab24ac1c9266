"""With the real emulator, cost model and search: a calibrated machine opens at once, and an online
session answers a cut of DRAM bandwidth."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest

from autotune.datasets import NETWORKS
from autotune.graph.evaluation import evaluate
from autotune.graph.graph import Graph
from autotune.runtime.drift_demo import demonstrate_drift
from autotune.runtime.execution.event import EventKind
from autotune.runtime.online import planning
from autotune.runtime.online.drift import DriftRule
from autotune.runtime.online.learning import OnlineOptions
from autotune.runtime.session.network_session import PlannedBy
from autotune.runtime.session.opening import open_network
from autotune.runtime.session.session import Session
from autotune.store.store import Store
from autotune.targets.opening import target
from autotune.tuner.calibrate import calibrate
from tests.runtime import runtime_case as case

pytestmark = pytest.mark.slow

OPTIONS = OnlineOptions(rule=DriftRule(least_runs=4, confirm_runs=2), remeasure=40)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    builder = NETWORKS["mlp"].builder
    assert builder is not None
    file = tmp_path_factory.mktemp("network") / "mlp.onnx"
    onnx.save(builder(), file)
    return file


@pytest.fixture(scope="module")
def graph(path: Path) -> Graph:
    return open_network(path)


@pytest.fixture(scope="module")
def store(graph: Graph) -> Iterator[Store]:
    with Store.memory() as made:
        calibrate(target("edge"), budget=120, graphs=[graph], seed=0, store=made, workers=1)
        yield made


def test_an_online_session_opens_by_the_heuristic_with_the_predictions_of_the_model(
    path: Path, graph: Graph, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    feeds = case.inputs(graph)
    monkeypatch.setattr(planning, "search", None)  # calling it would raise
    with Session(path, "edge", store, online=True) as running:
        got = running.run(feeds)
        assert running.planned_by is PlannedBy.HEURISTIC
        assert running.table.predicted_cycles is not None
    for name, value in evaluate(graph, feeds).items():
        np.testing.assert_allclose(got[name], value, rtol=1e-3, atol=1e-5)


def test_error_rises_with_the_cut_and_falls_after_retraining(graph: Graph, store: Store) -> None:
    before = store.count(case.SPEC.profile_id)
    series = demonstrate_drift(
        graph, target("edge"), store, runs_before=5, runs_after=6, options=OPTIONS
    )
    assert series.error_at_worst > series.error_before + 0.05
    assert series.error_after < series.error_at_worst / 2
    kinds = [event.kind for event in series.events]
    assert kinds[:2] == [EventKind.DRIFT, EventKind.RETRAINED]
    assert kinds[2] in (EventKind.KEPT, EventKind.PROPOSED)
    retrained = series.events[1].figures
    assert retrained["error_after"] < retrained["error_before"]
    assert series.points[-1].cycles <= series.frozen_cycles
    assert store.count(case.SPEC.profile_id) == before
