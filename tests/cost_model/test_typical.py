"""The model of a CPU that was never measured: the formula at typical costs, with wide intervals."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from autotune.api.calibration import predict_network
from autotune.cost_model.analysis import analytic_model
from autotune.cost_model.cached.work_kinds import TYPICAL_ERROR, TYPICAL_FACTOR
from autotune.cost_model.model import CostModel
from autotune.cost_model.predictor import Predictor
from autotune.cost_model.shipped import answering_model
from autotune.errors import StoreError
from autotune.fusion.analysis import nests_of
from autotune.fusion.group import layer
from autotune.schedule.space import enumerate_on
from autotune.store.store import Store
from autotune.targets.opening import load_spec


def test_typical_costs_predict_within_the_stated_factor_and_survive_a_file() -> None:
    spec = load_spec("cpu")
    conv = layer("conv", x=(1, 8, 14, 14), w=(8, 8, 3, 3), pads=1)
    (nest,) = nests_of(conv)
    table = enumerate_on(nest, spec, 16, np.random.default_rng(0))
    model = CostModel.typical(spec)
    found = model.predict_nest(nest, table)
    estimate = analytic_model(spec).analyse(nest, table, spec).estimate
    np.testing.assert_allclose(found.cycles, np.maximum(estimate, 1.0))
    np.testing.assert_allclose(found.high, TYPICAL_FACTOR * found.cycles)
    np.testing.assert_allclose(found.low, found.cycles / TYPICAL_FACTOR)
    assert model.kind == CostModel.from_bytes(model.to_bytes(), spec).kind == "typical"
    again = CostModel.from_bytes(model.to_bytes(), spec).predict_nest(nest, table)
    np.testing.assert_array_equal(again.cycles, found.cycles)
    np.testing.assert_array_equal(again.high, found.high)


def test_a_cpu_without_calibration_is_predicted_and_says_by_what() -> None:
    store, producer = Store.memory(), layer("conv", x=(1, 8, 14, 14), w=(8, 8, 3, 3), pads=1)
    predictor = Predictor.load("cpu", store)
    cost = predictor.predict(producer)
    assert 0 < cost.low_cycles < cost.cycles < cost.high_cycles
    for word in (
        "typical",
        f"{TYPICAL_ERROR:.0%}",
        f"{TYPICAL_FACTOR:g}",
        "calibrate --target cpu",
    ):
        assert word in predictor.origin
    consumer = layer("relu", producer)
    gain = predictor.should_fuse(producer, consumer)
    assert gain.fused is not None and gain.low_cycles < gain.gain_cycles < gain.high_cycles
    assert CostModel.from_bytes(predictor.model.to_bytes(), predictor.spec).kind == "typical"


def test_a_search_on_a_cpu_without_calibration_gets_no_typical_costs() -> None:
    with pytest.raises(StoreError, match="no cost model for cpu"):
        answering_model(Store.memory(), load_spec("cpu"))
    with pytest.raises(StoreError, match="no model 'abc'"):
        Predictor.load("cpu", Store.memory(), "abc")


def test_a_network_is_predicted_on_a_cpu_without_calibration(tmp_path: Path) -> None:
    cost = predict_network("mlp", "cpu", store=tmp_path / "a.db")
    assert 0 < cost.low_seconds < cost.seconds < cost.high_seconds
