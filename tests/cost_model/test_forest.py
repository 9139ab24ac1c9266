"""Flat trees predict what XGBoost predicts, bit for bit, and refuse what is no tree."""

from __future__ import annotations

import pickle
import struct
from dataclasses import replace

import numpy as np
import pytest
import xgboost as xgb

from autotune.cost_model.forest import Forest
from autotune.cost_model.training import boost
from autotune.errors import StoreError
from autotune.kernels.trees.packed_forest import ROWS_APART
from tests.cost_model.boosted import KINDS, Kind, hostile_rows, train_booster

ROWS = 10_000


@pytest.fixture(scope="module")
def small() -> tuple[xgb.Booster, Forest]:
    booster = train_booster(Kind(20, 4, missing=0.1, features=4), 1)
    return booster, Forest.of(booster)


@pytest.mark.parametrize("name", KINDS)
def test_every_bit_is_that_of_xgboost(name: str) -> None:
    booster = train_booster(KINDS[name], 0)
    forest = Forest.of(booster)
    x = hostile_rows(forest, ROWS, np.random.default_rng(0))
    with np.errstate(over="ignore"):  # the largest are infinite in float32
        single = x.astype(np.float32)
    for rows in (x, single):
        theirs = booster.inplace_predict(rows)
        assert forest.predict(rows).astype(np.float32).tobytes() == theirs.tobytes()
        apart = np.concatenate([forest.predict(rows[i : i + 1]) for i in range(500)])
        assert apart.astype(np.float32).tobytes() == theirs[:500].tobytes()


def test_trees_that_go_on_from_others_are_those_of_xgboost() -> None:
    rng = np.random.default_rng(3)
    x, more = rng.normal(size=(2, 2000, 5))
    labels = [np.sin(rows).sum(axis=1) for rows in (x, more)]
    parameters = {"max_depth": 4, "tree_method": "hist", "seed": 1, "nthread": 1, "verbosity": 0}
    first = xgb.train(parameters, xgb.DMatrix(x, labels[0]), num_boost_round=30)
    both = xgb.train(parameters, xgb.DMatrix(more, labels[1]), num_boost_round=7, xgb_model=first)
    known = Forest.of(first)
    left = xgb.DMatrix(more, labels[1], base_margin=known.predict(more))
    joined = Forest.of(xgb.train(parameters, left, num_boost_round=7), known)
    assert len(joined.roots) == 37
    rows = hostile_rows(joined, 1000, rng)
    ours = joined.predict(rows).astype(np.float32).tobytes()
    assert ours == both.inplace_predict(rows).tobytes()
    assert Forest.from_bytes(joined.to_bytes()).to_bytes() == joined.to_bytes()


def test_any_number_of_rows_has_the_same_predictions(small: tuple[xgb.Booster, Forest]) -> None:
    booster, forest = small
    x = hostile_rows(forest, 200, np.random.default_rng(1))
    whole = booster.inplace_predict(x)
    for n in (0, 1, ROWS_APART - 1, ROWS_APART, 63, 64, 65, 64 + ROWS_APART, 200):
        np.testing.assert_array_equal(forest.predict(x[:n]), whole[:n])
    np.testing.assert_array_equal(forest.predict(x[::3]), whole[::3])
    np.testing.assert_array_equal(forest.predict(np.asfortranarray(x)), whole)


def test_a_stored_forest_is_the_same(small: tuple[xgb.Booster, Forest]) -> None:
    _, forest = small
    again = Forest.from_bytes(forest.to_bytes())
    x = hostile_rows(forest, 200, np.random.default_rng(2))
    assert again.to_bytes() == forest.to_bytes() == pickle.loads(pickle.dumps(forest)).to_bytes()
    np.testing.assert_array_equal(again.predict(x), forest.predict(x))


def test_rows_of_another_form_are_refused(small: tuple[xgb.Booster, Forest]) -> None:
    _, forest = small
    with pytest.raises(ValueError, match=r"rows of 4 features, not \(3, 5\)"):
        forest.predict(np.zeros((3, 5)))
    with pytest.raises(ValueError, match="rows of 4 features"):
        forest.predict(np.zeros(4))
    with pytest.raises(TypeError, match="float32 or float64, not int64"):
        forest.predict(np.zeros((3, 4), dtype=np.int64))


def test_a_processor_that_answers_other_bits_is_noticed(small: tuple[xgb.Booster, Forest]) -> None:
    _, forest = small
    answers = forest.answers.copy()
    answers[3] = np.nextafter(answers[3], np.float32(np.inf))
    with pytest.raises(StoreError, match="other numbers on this processor"):
        replace(forest, answers=answers)


@pytest.mark.parametrize("column", ["feature", "left", "nan_left", "value"])
def test_tables_that_are_no_trees_are_refused(
    small: tuple[xgb.Booster, Forest], column: str
) -> None:
    _, forest = small
    bad = {"feature": 4, "left": 0, "nan_left": 2, "value": np.nan}
    changed = getattr(forest, column).copy()
    changed[0] = bad[column]
    with pytest.raises(StoreError, match="damaged trees"):
        replace(forest, **{column: changed})


def test_bytes_that_are_no_trees_are_refused(small: tuple[xgb.Booster, Forest]) -> None:
    blob = small[1].to_bytes()
    for bad in (b"", blob[:-1], blob + b"\0", struct.pack("<i", -5) + blob[4:]):
        with pytest.raises(StoreError, match="damaged trees"):
            Forest.from_bytes(bad)


def test_what_is_no_sum_of_leaves_is_refused() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(2000, 3))
    y = (x[:, 0] > 0).astype(float)
    for parameters, reason in (
        ({"objective": "binary:logistic"}, "binary:logistic"),
        ({"booster": "gblinear", "objective": "reg:squarederror"}, "gblinear"),
        ({"objective": "reg:squarederror", "max_depth": 14}, "8 levels"),
    ):
        data = xgb.DMatrix(x, rng.normal(size=len(x)) if "max_depth" in parameters else y)
        booster = xgb.train(parameters | {"verbosity": 0, "nthread": 1}, data, 2)
        with pytest.raises(StoreError, match=reason):
            Forest.of(booster)


def test_a_step_is_added_where_a_feature_is_at_its_threshold_or_missing() -> None:
    rng = np.random.default_rng(5)
    x = rng.random((200, 3))
    grown = boost(x, x[:, 0] * 2.0, np.ones(len(x)), 0)
    stepped = grown.with_step(1, 0.5, 0.75)
    x[:9, 1] = np.nan
    wanted = grown.predict(x) + np.where(x[:, 1] < 0.5, 0.0, 0.75)
    np.testing.assert_allclose(stepped.predict(x), wanted, atol=1e-6)
    assert Forest.from_bytes(stepped.to_bytes()).predict(x).tolist() == stepped.predict(x).tolist()
