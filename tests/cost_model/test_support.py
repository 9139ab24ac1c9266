"""Support is the weight of training rows in a row's leaves; novelty its place among training rows."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from autotune.cost_model.cost import NOVEL
from autotune.cost_model.dataset import dataset
from autotune.cost_model.fitting import fit
from autotune.cost_model.forest import Forest
from autotune.cost_model.model import CostModel
from autotune.cost_model.support import Support, novelty, percentiles
from autotune.cost_model.training import conformal_quantile, network_quantile
from autotune.schedule.table import ScheduleTable
from autotune.store.records import Record
from tests.cost_model.boosted import KINDS, train_booster
from tests.cost_model.measured import SPEC, drawn, observations


def nodes_of(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Give a node of XGBoost's own dump and all below it."""
    yield node
    for child in node.get("children", ()):
        yield from nodes_of(child)


@pytest.mark.parametrize("name", ["one stump", "missing numbers", "no split at all"])
def test_support_is_the_mean_log_cover_of_the_leaves_that_xgboost_names(name: str) -> None:
    import xgboost as xgb

    booster = train_booster(KINDS[name], 1)
    forest = Forest.of(booster)
    x = np.random.default_rng(0).normal(size=(50, forest.features)).astype(np.float32)
    x[::7, 0] = np.nan
    leaves = booster.predict(xgb.DMatrix(x), pred_leaf=True).reshape(len(x), -1).astype(int)
    dumps = booster.get_dump(dump_format="json", with_stats=True)
    cover = {
        (tree, node["nodeid"]): node["cover"]
        for tree, dump in enumerate(dumps)
        for node in nodes_of(json.loads(dump))
    }
    expected = [
        np.mean([np.log(max(cover[tree, leaf], 1e-6)) for tree, leaf in enumerate(row)])
        for row in leaves
    ]
    np.testing.assert_allclose(Support([forest]).of(x), expected, rtol=1e-4, atol=1e-4)
    twice = Support([forest, forest]).of(x)
    np.testing.assert_allclose(twice, expected, rtol=1e-4, atol=1e-4)


def test_novelty_is_the_share_of_training_rows_with_more_support() -> None:
    support = np.random.default_rng(0).normal(size=5000)
    known = percentiles(support)
    asked = np.array([-99.0, -1.0, 0.0, 2.0, 99.0])
    expected = [(support > one).mean() for one in asked]
    np.testing.assert_allclose(novelty(asked, known), expected, atol=0.006)
    assert novelty(asked[:1], known)[0] == 1.0


def test_each_network_counts_as_one_and_the_new_one_as_infinite() -> None:
    networks = np.array(["a"] * 900 + [f"n{i}" for i in range(29)])
    scores = np.array([0.0] * 900 + [float(i) for i in range(1, 30)])
    assert conformal_quantile(scores, 0.9) == 0.0
    assert network_quantile(scores, networks, 0.5) == 15.0  # 16 of 31 lie at or below it
    assert network_quantile(scores, networks, 0.9) == 27.0
    assert network_quantile(scores, networks, 0.99) == 29.0  # more than 30 networks can tell


def test_few_networks_leave_the_quantile_to_rows() -> None:
    networks, scores = np.array([f"n{i % 7}" for i in range(70)]), np.arange(70.0)
    assert network_quantile(scores, networks, 0.9) == conformal_quantile(scores, 0.9)


def test_generated_graphs_count_only_without_networks() -> None:
    generated = np.array([f"workload:{i}" for i in range(20)])
    real = np.array([f"n{i}" for i in range(20)])
    scores = np.concatenate([np.zeros(20), np.ones(20)])
    assert network_quantile(scores, np.concatenate([generated, real]), 0.8) == 1.0
    assert network_quantile(scores[:20], generated, 0.8) == 0.0


def test_a_new_network_is_covered_where_rows_of_a_network_err_alike() -> None:
    """Networks of 1 to 60 rows, each with a size of error of its own, the larger ones with smaller errors."""
    rng = np.random.default_rng(0)
    held: dict[str, list[float]] = {"networks": [], "rows": []}
    for _ in range(400):
        rows = rng.integers(1, 60, 30)
        size = np.exp(rng.normal(size=30)) / np.sqrt(rows)
        names = np.repeat([f"n{i}" for i in range(30)], rows)
        scores = np.abs(rng.normal(size=len(names))) * np.repeat(size, rows)
        new = names == "n0"
        quantiles = {
            "networks": network_quantile(scores[~new], names[~new], 0.9),
            "rows": conformal_quantile(scores[~new], 0.9),
        }
        for name, limit in quantiles.items():
            held[name].append(float((scores[new] <= limit).mean()))
    assert 0.89 <= np.mean(held["networks"]) <= 0.94
    assert np.mean(held["rows"]) < 0.85


@pytest.fixture(scope="module")
def records() -> list[Record]:
    return list(observations(7, 240))


@pytest.fixture(scope="module")
def model(records: list[Record]) -> CostModel:
    return fit(records, SPEC, seed=0)


@pytest.mark.slow
def test_rows_of_shuffled_features_are_more_novel(model: CostModel, records: list[Record]) -> None:
    x = dataset(records, SPEC).x
    familiar = model.learned.novelty(x)
    assert ((familiar >= 0.0) & (familiar <= 1.0)).all()
    odd = x[np.random.default_rng(0).integers(len(x), size=x.shape), np.arange(x.shape[1])]
    assert np.median(model.learned.novelty(odd)) > np.median(familiar) + 0.1


@pytest.mark.slow
def test_caution_is_the_upper_end_over_the_prediction_of_what_is_novel(model: CostModel) -> None:
    cautions = set()
    for seed in range(12):
        group, nests, schedule = drawn(np.random.default_rng(seed))
        parts = [
            model.estimate(nest, ScheduleTable.of(nest, [part]))
            for nest, part in zip(nests, schedule.nests, strict=True)
        ]
        is_novel = max(float(part.novelty[0]) for part in parts) >= NOVEL
        high, cycles = (
            sum(float(column[0]) for column in c)
            for c in ((p.high for p in parts), (p.cycles for p in parts))
        )
        assert model.caution(group, schedule) == pytest.approx(high / cycles if is_novel else 1.0)
        cautions.add(is_novel)
    assert False in cautions


@pytest.mark.slow
def test_a_stored_model_finds_the_same_novel_and_an_old_file_none(
    model: CostModel, records: list[Record]
) -> None:
    x = dataset(records, SPEC).x
    again = CostModel.from_bytes(model.to_bytes(), SPEC)
    np.testing.assert_array_equal(again.learned.novelty(x), model.learned.novelty(x))
    blob = model.to_bytes()
    start = blob.index(b'"support": [')
    end = blob.index(b"]", start) + 1
    without = blob[:start] + b'"support": null' + blob[end:]
    at = len(b"autotune-hpm\n")
    length = int.from_bytes(blob[at : at + 8], "little") - (len(blob) - len(without))
    old = CostModel.from_bytes(
        without[:at] + length.to_bytes(8, "little") + without[at + 8 :], SPEC
    )
    assert np.isnan(old.learned.novelty(x)).all()
    group, _, schedule = drawn(np.random.default_rng(3))
    assert old.caution(group, schedule) == 1.0
