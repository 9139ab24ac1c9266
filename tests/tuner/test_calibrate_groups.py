"""Calibration of machines behind a function: what is measured, stored, learnt, predicted, given up."""

from __future__ import annotations

from itertools import islice

import numpy as np
import pytest

from autotune import api
from autotune.api import calibration
from autotune.cost_model.additive.model import AdditiveModel
from autotune.errors import InputError, ProgramError, StoreError, TargetError
from autotune.fusion.group import Group, is_convex
from autotune.store.store import Store
from autotune.targets.plugins.model_target import ModelTarget
from autotune.tuner.calibrate_groups import HOPELESS, calibrate_groups, sample_groups
from tests.targets.plugins import timing_functions as functions

BUDGET = 120


@pytest.fixture(scope="module")
def calibrated() -> tuple[ModelTarget, Store]:
    machine, store = ModelTarget("mine", functions.by_results), Store.memory()
    calibrate_groups(machine, budget=BUDGET, graphs=[api.load_network("mlp")], store=store)
    return machine, store


def test_a_finished_calibration_only_trains(calibrated: tuple[ModelTarget, Store]) -> None:
    machine, store = calibrated
    again = calibrate_groups(machine, budget=BUDGET, graphs=[api.load_network("mlp")], store=store)
    assert (again.measured, again.known_before, store.count(machine.profile_id)) == (
        0,
        BUDGET,
        BUDGET,
    )


def test_the_model_learns_the_machine_from_networks_it_was_not_trained_on(
    calibrated: tuple[ModelTarget, Store],
) -> None:
    machine, store = calibrated
    stored = store.load_model(machine.profile_id)
    assert stored is not None and stored.metrics["spearman"] > 0.8
    assert stored.metrics["mape"] < 0.6
    assert 0.8 <= stored.metrics["coverage"] <= 1.0


def test_a_model_survives_its_file(calibrated: tuple[ModelTarget, Store]) -> None:
    machine, store = calibrated
    stored = store.load_model(machine.profile_id)
    assert stored is not None
    model = AdditiveModel.from_bytes(stored.blob, machine.profile_id, machine.name)
    graph = api.load_network("mlp")
    group = Group.from_graph(graph, [op.name for op in graph.ops])
    cost = model.predict(group)
    assert model.to_bytes() == stored.blob and 0 < cost.low < cost.seconds < cost.high
    for blob, reason in ((b"other", "not one of groups"), (stored.blob[:-1], "damaged")):
        with pytest.raises(StoreError, match=reason):
            AdditiveModel.from_bytes(blob, machine.profile_id, machine.name)
    with pytest.raises(StoreError, match="another machine"):
        AdditiveModel.from_bytes(stored.blob, "0" * 16, machine.name)


def test_a_network_costs_its_operators_and_one_run(calibrated: tuple[ModelTarget, Store]) -> None:
    machine, store = calibrated
    cost = api.predict_network("mlp", machine, store=store)
    parts = sum(part.seconds for part in cost.parts)
    assert 0 < parts <= cost.seconds and cost.low_seconds < cost.seconds < cost.high_seconds
    assert len(cost.parts) == len(api.load_network("mlp").ops)


def test_a_machine_that_was_never_calibrated_says_so() -> None:
    with pytest.raises(StoreError, match="autotune calibrate --target other"):
        api.predict_network("mlp", ModelTarget("other", functions.by_size), store=Store.memory())


def test_a_function_that_always_fails_ends_the_calibration_and_stores_nothing() -> None:
    machine, store = ModelTarget("mine", functions.raises), Store.memory()
    with pytest.raises(
        ProgramError, match=f"first {HOPELESS} groups failed.*device lost at line 2"
    ):
        calibrate_groups(machine, budget=60, store=store)
    assert store.count(machine.profile_id) == 0


def test_a_function_that_hangs_is_ended_by_the_time_limit() -> None:
    machine, store = ModelTarget("mine", functions.hangs), Store.memory()
    with pytest.raises(TargetError, match=r"took longer than 0\.2 s"):
        calibrate_groups(machine, budget=60, store=store, time_limit_seconds=0.2)


def test_a_budget_too_small_for_a_model_is_refused_before_anything_is_measured() -> None:
    machine, store = ModelTarget("mine", functions.by_results), Store.memory()
    with pytest.raises(
        StoreError, match=r"budget of 40 .* nothing was measured, raise --budget to"
    ):
        calibrate_groups(machine, budget=40, store=store)
    assert store.count(machine.profile_id) == 0


def test_a_function_that_raises_on_half_its_calls_is_calibrated() -> None:
    machine, store = ModelTarget("mine", functions.flaky), Store.memory()
    result = calibrate_groups(machine, budget=60, store=store)
    assert (result.measured, result.failed) == (60, 0)
    assert result.repeated_calls >= 60 and result.remark == "RuntimeError: link busy"
    assert "link busy" in repr(result)


def test_groups_that_fail_for_good_are_replaced_counted_and_not_measured_again() -> None:
    machine, store = ModelTarget("mine", functions.supports_few), Store.memory()
    result = calibrate_groups(machine, budget=60, store=store)
    assert result.failed > 0 and result.measured - result.failed == 60
    (failure,) = result.failures
    assert failure.count == result.failed and "no such operator" in failure.reason
    assert calibrate_groups(machine, budget=60, store=store).measured == 0


@pytest.mark.slow
def test_parameters_of_a_machine_are_learned_and_the_best_ones_quoted() -> None:
    machine, store = ModelTarget("mine", functions.tuned), Store.memory()
    network = api.load_network("mlp")
    result = calibrate_groups(machine, budget=240, graphs=[network], store=store)
    assert calibrate_groups(machine, budget=240, graphs=[network], store=store).measured == 0
    keys = store.known(machine.profile_id)
    assert len(keys) == 240 and len({key for key, _ in keys}) < 120
    cost = api.predict_network("transformer_block", machine, store=store)
    assert cost.configuration == {"units": 4, "layout": "columns"}
    group = Group.from_graph(network, [op.name for op in network.ops])
    model = AdditiveModel.from_bytes(result.model.to_bytes(), machine.profile_id, machine.name)
    best = model.predict(group)
    assert best == result.model.predict(group)
    slow = model.predict(group, {"units": 1, "layout": "rows"})
    assert slow.seconds / best.seconds == pytest.approx(3.5, rel=0.35)


def test_drawn_groups_are_convex_and_begin_with_whole_networks() -> None:
    graph = api.load_network("transformer_block")
    drawn = list(islice(sample_groups([graph], 1), 60))
    assert len(drawn[0].group.ops) == len(graph.ops)
    own = [c.group for c in drawn if c.network == graph.name]
    assert len(own) > 20 and {len(group.ops) for group in own} > {1, 2}
    assert all(is_convex(graph, {op.name for op in group.ops}) for group in own)
    again = islice(sample_groups([graph], 1), 60)
    assert [c.key for c in drawn] == [c.key for c in again]


def test_metrics_are_shares(calibrated: tuple[ModelTarget, Store]) -> None:
    machine, store = calibrated
    stored = store.load_model(machine.profile_id)
    assert stored is not None
    assert all(np.isfinite(value) for value in stored.metrics.values())


@pytest.mark.parametrize(("budget", "count"), [(None, 16), (1000, 16), (999, 4), (60, 4)])
def test_large_calibrations_draw_from_more_networks(
    monkeypatch: pytest.MonkeyPatch, budget: int | None, count: int
) -> None:
    drawn_from: list[str] = []
    monkeypatch.setattr(
        calibration, "_calibrate_plugin", lambda _, __, named, *rest: drawn_from.extend(named)
    )
    api.calibrate(ModelTarget("mine", functions.by_results), budget)
    assert len(set(drawn_from)) == count


def test_a_budget_that_is_no_number_is_refused_in_one_line() -> None:
    with pytest.raises(InputError, match="budget is a whole number"):
        api.calibrate(ModelTarget("mine", functions.by_results), "many")
