"""The model of a CPU that was never measured: the formula at typical costs, with wide intervals."""

from __future__ import annotations

import numpy as np

from autotune.cost_model.analysis import analytic_model
from autotune.cost_model.model import CostModel
from autotune.fusion.analysis import nests_of
from autotune.fusion.group import layer
from autotune.schedule.space import enumerate_on
from autotune.targets.opening import load_spec


def test_typical_costs_predict_within_a_factor_of_two_and_survive_a_file() -> None:
    spec = load_spec("cpu")
    conv = layer("conv", x=(1, 8, 14, 14), w=(8, 8, 3, 3), pads=1)
    (nest,) = nests_of(conv)
    table = enumerate_on(nest, spec, 16, np.random.default_rng(0))
    model = CostModel.typical(spec)
    found = model.predict_nest(nest, table)
    estimate = analytic_model(spec).analyse(nest, table, spec).estimate
    np.testing.assert_allclose(found.cycles, np.maximum(estimate, 1.0))
    np.testing.assert_allclose(found.high, 2 * found.cycles)
    np.testing.assert_allclose(found.low, found.cycles / 2)
    again = CostModel.from_bytes(model.to_bytes(), spec).predict_nest(nest, table)
    np.testing.assert_array_equal(again.cycles, found.cycles)
    np.testing.assert_array_equal(again.high, found.high)
