"""Training sees every row once, in single precision, and forgets analyses beyond a bound."""

from __future__ import annotations

import numpy as np
import pytest
import xgboost as xgb

from autotune.cost_model import dataset as module
from autotune.cost_model.dataset import dataset
from autotune.cost_model.forest import Forest
from autotune.cost_model.training import BLOCK, COUNTED, boost, log_spread, singles
from autotune.store.records import LIMIT
from tests.cost_model.measured import SPEC, observations


@pytest.mark.parametrize("continued", [False, True])
def test_bins_alone_give_the_trees_of_all_features(continued: bool) -> None:
    """Against XGBoost on a plain matrix of doubles, bit for bit; one column is constant, one has few values."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(3000, 9)) * rng.lognormal(3, 3, 9)
    x[:, 0], x[:, 1] = 1.0, rng.integers(0, 3, len(x))
    y, weight = np.sin(x[:, 2]) + rng.normal(0, 0.1, len(x)), rng.random(len(x))
    before = boost(x[:500], y[:500], weight[:500], 1) if continued else None
    everywhere = np.ones(len(x), dtype=bool)
    grown = boost(singles(x, everywhere), y, weight, 1, COUNTED, before)
    start = None if before is None else before.predict(x)
    parameters = {
        "objective": "reg:pseudohubererror",
        "huber_slope": COUNTED.slope,
        "tree_method": "hist",
        "max_depth": COUNTED.depth,
        "max_bin": 128,
        "eta": COUNTED.eta,
        "subsample": 0.8,
        "colsample_bytree": 0.5,
        "min_child_weight": COUNTED.leaf_weight,
        "lambda": COUNTED.pull,
        "base_score": float(np.average(y, weights=weight)),
        "seed": 1 if before is None else 1 + len(before.roots),
        "nthread": 1,
    }
    plain = xgb.DMatrix(x, y, weight=weight, base_margin=start)
    wanted = Forest.of(xgb.train(parameters, plain, num_boost_round=COUNTED.rounds), before)
    assert grown.to_bytes() == wanted.to_bytes()


def test_rows_are_chosen_block_by_block() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(2 * BLOCK + 77, 2))
    for rows in (rng.random(len(x)) < 0.7, np.zeros(len(x), bool), np.ones(len(x), bool)):
        found = singles(x, rows)
        assert found.dtype == np.float32
        np.testing.assert_array_equal(found, x[rows].astype(np.float32))


def test_features_of_the_main_nest_are_those_rows() -> None:
    data = dataset(list(observations(0, 30)), SPEC)
    np.testing.assert_array_equal(data.main_x, data.x[data.main])
    single = data.take(np.bincount(data.owner) == 1)
    assert len(single) and single.main_x is single.x


def test_analyses_are_recalled_up_to_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """Retraining on the same measurements analyses none again; of more than the bound the last ones stay."""
    asked: list[str] = []
    analyse = module._analyse

    def counted(group: str, schedules: tuple[str, ...], spec: object) -> module.Analysed:
        asked.append(group)
        return analyse(group, schedules, SPEC)

    monkeypatch.setattr(module, "_analyse", counted)
    monkeypatch.setattr(module, "_memory", module._Memory())
    monkeypatch.setattr(module, "REMEMBERED_ROWS", 8)
    records = list({record.group_key: record for record in observations(3, 12)}.values())
    first = dataset(records, SPEC)
    assert len(asked) == len(records) > 8
    np.testing.assert_array_equal(dataset(records[-8:], SPEC).cycles, first.cycles[-8:])
    assert len(asked) == len(records)
    dataset(records[:1], SPEC)
    assert len(asked) == len(records) + 1


def test_no_interval_is_wider_than_what_can_be_measured() -> None:
    """Large errors among many that are nearly none: a factor in the hundreds, and a scale of several."""
    spread = np.exp(log_spread(700.0, np.array([0.002, 0.1, 7.0])))
    np.testing.assert_allclose(spread, [np.exp(1.4), LIMIT, LIMIT])
