"""Trees earn their place on a real target, on networks that they have not seen.

Where no formula is written, trees on raw features must be far ahead of a linear model of the same features.
Where one is, the chosen model may not choose worse schedules than it.
"""

from __future__ import annotations

from itertools import islice

import numpy as np
import pytest

from autotune.api import load_network
from autotune.cost_model.metrics import mape
from autotune.cost_model.model import CostModel
from autotune.fusion.group import Group
from autotune.measure.runner import measure
from autotune.schedule.schedule import Schedule
from autotune.store.records import Record
from autotune.targets.emulator.target import EmulatorTarget
from autotune.targets.opening import load_spec
from autotune.tuner.records import to_record
from autotune.tuner.sampling import sample_candidates
from benchmarks.model_baselines import train_linear, train_raw
from benchmarks.model_rows import Programs, Rows, rows_of

pytestmark = pytest.mark.slow  # trains models

EDGE = EmulatorTarget(load_spec("edge"))
NETWORKS = ("light_squeezenet", "mlp", "transformer_block", "attention", "gru", "norm_gelu")
PROGRAMS = 2000
MARGIN = 0.75
"""Largest error of trees over that of a linear model of the same features."""


@pytest.fixture(scope="module")
def records() -> list[Record]:
    """Measurements of the emulator, which counts the same cycles every time."""
    graphs = [load_network(name) for name in NETWORKS]
    drawn = {c.key: c for c in islice(sample_candidates(graphs, EDGE.spec, 0), PROGRAMS)}
    return [to_record(one, EDGE, "calibrate") for one in measure(EDGE, drawn.values(), 1)]


def as_rows(records: list[Record]) -> Rows:
    return rows_of(
        [
            Programs(
                record.network,
                Group.from_json(record.group_json),
                [Schedule.from_json(record.schedule_json)],
                np.array([record.cycles], dtype=np.float64),
            )
            for record in records
        ],
        EDGE.spec,
    )


def test_trees_beat_a_linear_model_on_raw_features(records: list[Record]) -> None:
    rows = as_rows(records)
    errors: dict[str, list[float]] = {"trees": [], "linear": []}
    for held in np.array_split(np.random.default_rng(0).permutation(np.unique(rows.networks)), 3):
        tested = np.isin(rows.networks, held)
        known = ~tested & ~np.isin(rows.keys, rows.keys[tested])
        for name, train in (("trees", train_raw), ("linear", train_linear)):
            predicted = train(rows.take(known))(rows.take(tested))
            errors[name].append(mape(rows.cycles[tested], predicted))
    assert np.mean(errors["trees"]) < MARGIN * np.mean(errors["linear"]), errors


def test_the_chosen_model_chooses_no_worse_than_the_formula(records: list[Record]) -> None:
    metrics = CostModel.fit(records, EDGE.spec, seed=0).metrics
    assert metrics["n"] > 0.9 * len(records)
    assert metrics["top1_regret"] <= metrics["formula_top1_regret"], metrics
    assert metrics["mape"] < 1.25 * metrics["formula_mape"], metrics
