"""Trees earn their place: on a real target they err less than the plain formula on unseen networks."""

from __future__ import annotations

from itertools import islice

import pytest

from autotune.api import load_network
from autotune.cost_model.model import CostModel
from autotune.measure.runner import measure
from autotune.targets.emulator.target import EmulatorTarget
from autotune.targets.opening import load_spec
from autotune.tuner.records import to_record
from autotune.tuner.sampling import sample_candidates

NETWORKS = ("light_squeezenet", "mlp", "transformer_block", "attention", "gru", "norm_gelu")
PROGRAMS = 2000
MARGIN = 0.85
"""Largest error of the model over that of the formula."""


@pytest.mark.slow  # trains a model
def test_trees_beat_the_formula_on_networks_that_they_have_not_seen() -> None:
    """The emulator counts the same cycles every time, so that this is no matter of luck."""
    edge = EmulatorTarget(load_spec("edge"))
    graphs = [load_network(name) for name in NETWORKS]
    drawn = {c.key: c for c in islice(sample_candidates(graphs, edge.spec, 0), PROGRAMS)}
    records = [to_record(one, edge, "calibrate") for one in measure(edge, drawn.values(), 1)]
    metrics = CostModel.fit(records, edge.spec, seed=0).metrics
    assert metrics["n"] > 0.9 * len(drawn)
    assert metrics["mape"] < MARGIN * metrics["analytic_mape"], metrics
    assert metrics["top1_regret"] < 0.02, metrics
