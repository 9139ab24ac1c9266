"""A machine behind a function that takes schedules: calibrated, predicted and searched, by its raw model."""

from __future__ import annotations

import pytest

import autotune
from autotune import api
from autotune.cost_model.predictor import Predictor
from autotune.fusion.group import Group, layer
from autotune.lowering.exported import export_candidate
from autotune.store.store import Store
from autotune.targets.plugins.scheduled_target import ScheduledTarget
from autotune.tuner.calibrate import CalibrationResult
from tests.targets.plugins.scheduled_functions import tiled

MACHINE = ScheduledTarget.of("tiled", tiled)
BUDGET = 500


@pytest.fixture(scope="module")
def calibrated() -> tuple[CalibrationResult, Store]:
    store = Store.memory()
    found = api.calibrate(MACHINE, BUDGET, "mlp", store=store)
    assert isinstance(found, CalibrationResult)
    return found, store


def test_its_raw_model_answers_and_beats_the_stated_spec(
    calibrated: tuple[CalibrationResult, Store],
) -> None:
    found, _ = calibrated
    assert (found.measured, found.failed, found.model.kind) == (BUDGET, 0, "raw")
    assert found.metrics["mape"] < found.metrics["formula_mape"]
    assert found.metrics["top1_regret"] <= found.metrics["formula_top1_regret"]


def test_a_group_that_is_asked_often_is_predicted_all_along(
    calibrated: tuple[CalibrationResult, Store],
) -> None:
    """Recordings hold analytic counts, which a raw model does not read."""
    predictor = Predictor.load(MACHINE, calibrated[1])
    assert "raw" in predictor.origin
    prepared = predictor.prepare(layer("matmul", (32, 64), (64, 48)))
    rows = prepared.schedules(64)
    first = prepared.predict_batch(rows).cycles.tolist()
    assert all(prepared.predict_batch(rows).cycles.tolist() == first for _ in range(12))


def test_a_search_measures_by_the_function_and_gains(
    calibrated: tuple[CalibrationResult, Store],
) -> None:
    found = autotune.search(
        "mlp", MACHINE, trials=20, measure=40, store=calibrated[1], storage=":memory:"
    )
    (plan,) = found.plan.graphs
    network = api.load_network("mlp")
    for one in plan.groups:
        assert one.schedule is not None
        group = Group.from_graph(network, one.operators)
        exported = export_candidate(group, one.schedule, MACHINE.spec)
        assert one.measured_cycles == MACHINE.time(exported).cycles
    (search,) = found.graphs
    heuristic = search.heuristic
    assert heuristic is not None
    found_cycles, by_rule = (
        sum(one.measured_cycles or 0 for one in result.groups)
        for result in (search.found, heuristic)
    )
    assert 0 < found_cycles <= by_rule
