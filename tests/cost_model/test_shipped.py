"""The shipped model is readable, small and answers for machines it was not trained on; measurements refine it."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from autotune.cost_model.dataset import MIN_RECORDS, dataset
from autotune.cost_model.fitting import fit, fit_many, fit_model
from autotune.cost_model.metrics import mape
from autotune.cost_model.model import CostModel
from autotune.cost_model.predictor import Predictor
from autotune.cost_model.shipped import MODELS, answering_model, shipped_model
from autotune.cost_model.version import FEATURE_VERSION
from autotune.errors import StoreError
from autotune.fusion.analysis import nests_of
from autotune.fusion.group import Group, layer
from autotune.schedule.schedule import Schedule
from autotune.store.records import Record
from autotune.store.store import Store
from autotune.targets.opening import load_spec, spec_names
from autotune.targets.spec import HardwareSpec, Memory
from tests.cost_model.measured import SPEC, observations

OTHERS = tuple(
    replace(SPEC, matrix=replace(SPEC.matrix, rows=rows), name=f"of {rows} rows")
    for rows in (8, 12, 24, 32, 48)
)


def error(model: CostModel, spec: HardwareSpec, seed: int, count: int = 30) -> float:
    """Mean error of a model on fresh observations of a machine."""
    records = seen(seed, count, spec)
    groups = [Group.from_json(record.group_json) for record in records]
    schedules = [Schedule.from_json(record.schedule_json) for record in records]
    for group in groups:
        assert nests_of(group)
    found = [model.predict(g, s) for g, s in zip(groups, schedules, strict=True)]
    return mape(np.array([float(r.cycles) for r in records]), np.array(found))


@cache
def seen(seed: int, count: int, spec: HardwareSpec = SPEC) -> tuple[Record, ...]:
    return tuple(observations(seed, count, spec))


def measured() -> dict[HardwareSpec, tuple[Record, ...]]:
    return {spec: seen(number, 30, spec) for number, spec in enumerate(OTHERS)}


@pytest.fixture(scope="module")
def shared() -> CostModel:
    return fit_many(measured(), seed=0)


@pytest.mark.parametrize("name", spec_names())
def test_the_shipped_model_answers_for_every_emulated_spec(name: str) -> None:
    spec = load_spec(name)
    answer = answering_model(Store.memory(), spec)
    assert answer.model.is_shared and answer.model.spec == spec
    assert f"{answer.model.metrics['mape']:.1%}" in answer.line
    assert f"calibrate --target {name}" in answer.line


@pytest.mark.parametrize("name", spec_names())
def test_a_machine_without_calibration_is_told_how_novel_a_group_is(name: str) -> None:
    spec = load_spec(name)
    predictor = Predictor(answering_model(Store.memory(), spec).model)
    usual = predictor.predict(layer("matmul", (64, 64), (64, 64)))
    assert 0.0 <= usual.novelty <= 1.0
    rows = predictor.schedules(layer("matmul", (64, 64), (64, 64)), 64)
    found = predictor.predict_batch(layer("matmul", (64, 64), (64, 64)), rows).novelty
    assert ((found >= 0.0) & (found <= 1.0)).all() and len(np.unique(found)) > 1


def test_the_shipped_file_is_small_and_errs_little_on_unseen_machines() -> None:
    """Trees are in it where they choose better than its formula, which need not be."""
    file = MODELS / f"{Memory.SCRATCHPAD.value}.model"
    assert file.stat().st_size <= 3 << 20
    model = shipped_model(SPEC)
    assert model is not None
    assert model.metrics["mape"] <= model.metrics["analytic_mape"]
    assert model.metrics["mape"] < 0.02 and model.metrics["top1_regret"] < 0.01
    assert model.metrics["machines"] >= 40


def test_a_shared_model_answers_for_a_machine_it_was_not_trained_on(shared: CostModel) -> None:
    data = dataset(seen(9, 30), SPEC)
    plain = mape(data.cycles, data.summed(data.estimate))
    model = CostModel.from_bytes(shared.to_bytes(), SPEC)
    assert model.spec == SPEC and model.is_shared
    assert error(model, SPEC, 9) < 0.8 * plain


def test_a_shared_model_is_refused_by_machines_with_other_memory(shared: CostModel) -> None:
    with pytest.raises(StoreError, match=r"other features|memory 'scratchpad'"):
        CostModel.from_bytes(shared.to_bytes(), replace(SPEC, memory=Memory.CACHED))


def test_training_on_many_machines_is_reproducible(shared: CostModel) -> None:
    again = fit_many(measured(), seed=0)
    assert again.to_bytes() == shared.to_bytes()


def test_measurements_refine_a_shared_model_and_never_make_it_worse_on_held_out_ones(
    shared: CostModel,
) -> None:
    slower = [replace(r, cycles=2 * r.cycles) for r in seen(20, 60)]
    refined = fit(slower, SPEC, seed=0, base=shared)
    assert not refined.is_shared and refined.metrics["mape"] < 0.25
    same = seen(21, 60)
    kept = fit(same, SPEC, seed=0, base=shared)
    assert kept.metrics["mape"] <= error(shared, SPEC, 21, 60) + 1e-9
    again = CostModel.from_bytes(refined.to_bytes(), SPEC)
    assert error(again, SPEC, 22) == error(refined, SPEC, 22)


def test_too_few_measurements_leave_the_shared_model(shared: CostModel) -> None:
    few = seen(23, MIN_RECORDS // 2)
    assert fit(few, SPEC, seed=0, base=shared) is shared


def test_a_stored_model_of_this_version_answers_before_the_shipped_one() -> None:
    with Store.memory() as store:
        model = fit_model(seen(21, 60), SPEC, seed=0)
        old = FEATURE_VERSION - 1
        store.save_model(SPEC.profile_id, model.to_bytes(), model.metrics, old)
        assert answering_model(store, SPEC).model.is_shared
        store.save_model(SPEC.profile_id, model.to_bytes(), model.metrics, FEATURE_VERSION)
        answer = answering_model(store, SPEC)
        assert not answer.model.is_shared and "calibrated" in answer.line


def test_a_machine_with_caches_still_asks_for_a_calibration() -> None:
    cached = replace(SPEC, memory=Memory.CACHED)
    with pytest.raises(StoreError, match=r"no cost model for small .* calibrate --target small"):
        answering_model(Store.memory(), cached)
