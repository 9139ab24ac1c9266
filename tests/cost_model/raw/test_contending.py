"""A raw model answers where the analytic one misjudges a machine, and no model chooses worse than its plain formula."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from autotune.cost_model import choosing, held_out
from autotune.cost_model.dataset import MIN_RECORDS, Dataset, dataset
from autotune.cost_model.explanation import Explanation
from autotune.cost_model.export import export_model
from autotune.cost_model.fitting import extended, fit
from autotune.cost_model.model import CostModel
from autotune.cost_model.model_file import kind_of
from autotune.cost_model.predictor import Predictor
from autotune.cost_model.provenance import feature_hash
from autotune.cost_model.raw.model import RawModel
from autotune.cost_model.topics import raw_topic_of
from autotune.cost_model.training import FOLDS
from autotune.errors import InputError
from autotune.fusion.group import Group
from autotune.schedule.space import enumerate_nest
from autotune.store.records import Record
from tests.cost_model.measured import SPEC, drawn
from tests.cost_model.raw.invented import (
    LAWS,
    Law,
    by_the_spec,
    measurements,
    one_after_the_other,
)

pytestmark = pytest.mark.slow  # trains models


@pytest.fixture(scope="module")
def records() -> list[Record]:
    return measurements(one_after_the_other, 5, 60)


@pytest.fixture(scope="module")
def model(records: list[Record]) -> CostModel:
    return fit(records, SPEC, seed=0)


def test_a_machine_that_its_spec_misjudges_is_answered_by_its_raw_model(model: CostModel) -> None:
    assert model.kind == "raw" and model.is_raw
    assert model.metrics["mape"] < 0.25 < 0.5 < model.metrics["formula_mape"]
    assert model.metrics["top1_regret"] < model.metrics["formula_top1_regret"]
    assert 0.8 <= model.metrics["coverage"] <= 0.99


def test_a_machine_of_its_spec_is_answered_by_analytic_cycles_and_counts_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def never(*_: object, **__: object) -> None:
        raise AssertionError("raw rows were counted")

    monkeypatch.setattr(choosing, "dataset", never)
    found = fit(measurements(by_the_spec, 5, 100), SPEC, seed=0)
    assert found.kind in ("guided", "formula")


@pytest.mark.parametrize("law", LAWS)
def test_no_model_chooses_worse_than_its_plain_formula(
    law: Law, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where a raw model always contends, and is never given up after one fold."""
    monkeypatch.setattr(choosing, "MISJUDGED", 0.0)
    monkeypatch.setattr(held_out, "HOPEFUL", np.inf)
    found = fit(measurements(law, 1, 25), SPEC, seed=1)
    assert found.metrics["top1_regret"] <= found.metrics["formula_top1_regret"]


def test_the_gate_refuses_a_raw_model_that_chooses_worse(
    records: list[Record], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The raw predictions turned round: the cheapest is said to be the dearest."""
    true = held_out.hold_out_raw

    def reversed_(*arguments: Any) -> tuple[held_out.HeldOut, held_out.HeldOut] | None:
        found = true(*arguments)
        assert found is not None
        for one in found:
            one.cycles[:] = one.cycles.mean() ** 2 / one.cycles
        return found

    monkeypatch.setattr(choosing, "hold_out_raw", reversed_)
    refused = fit(records, SPEC, seed=0)
    assert refused.kind != "raw"
    assert refused.metrics["top1_regret"] <= refused.metrics["formula_top1_regret"]


def test_the_gate_refuses_a_raw_model_that_errs_less_in_one_network_alone(
    records: list[Record], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A mean error may fall by a single network that the others' models misjudge: what is bounded by no analysis has to
    err less in most of them."""

    def in_one(
        data: Dataset, fold: Any, seed: int, rival: held_out.HeldOut, *_: Any
    ) -> tuple[held_out.HeldOut, held_out.HeldOut]:
        lucky = data.networks == data.networks[0]
        raw = replace(rival, cycles=np.where(lucky, data.cycles, rival.cycles))
        assert raw.improves_on(rival, data)
        return raw, raw

    monkeypatch.setattr(choosing, "hold_out_raw", in_one)
    assert fit(records, SPEC, seed=0).kind != "raw"


def test_a_raw_model_that_has_no_hope_after_a_fold_is_given_up(
    records: list[Record], monkeypatch: pytest.MonkeyPatch
) -> None:
    trained: list[int] = []
    monkeypatch.setattr(held_out, "HOPEFUL", 0.0)

    def in_turn(learn: Callable[[int], None], folds: Iterable[int]) -> None:
        for fold in folds:
            trained.append(fold)
            learn(fold)

    found = fit(records, SPEC, seed=0, for_each=in_turn)
    assert found.kind != "raw" and len(trained) == FOLDS + 1


def test_raw_rows_stand_in_the_order_of_analytic_ones(records: list[Record]) -> None:
    ours, theirs = dataset(records, SPEC, is_raw=True), dataset(records, SPEC)
    np.testing.assert_array_equal(ours.cycles, theirs.cycles)
    np.testing.assert_array_equal(ours.owner, theirs.owner)
    np.testing.assert_array_equal(ours.moved_bytes, theirs.moved_bytes)
    assert ours.keys.tolist() == theirs.keys.tolist()
    assert ours.rows(ours.fit(np.ones(len(ours), dtype=bool))).shape == (
        len(ours.x),
        len(RawModel.feature_names),
    )


def test_a_stored_raw_model_predicts_the_same_and_says_what_it_is(
    model: CostModel, records: list[Record], tmp_path: Path
) -> None:
    blob = model.to_bytes()
    again = CostModel.from_bytes(blob, SPEC)
    assert (again.kind, kind_of(blob)) == ("raw", "raw") and again.to_bytes() == blob
    assert model.provenance is not None and again.provenance == model.provenance
    assert model.provenance.features == feature_hash(RawModel.feature_names)
    assert model.provenance.fingerprint == dataset(records, SPEC).fingerprint
    Predictor(model).save(tmp_path / "raw.predictor")
    _group, nests, _schedule = drawn(np.random.default_rng(4))
    table = enumerate_nest(nests[0], SPEC.capacity, 1, 64, np.random.default_rng(0))
    for one in (again, Predictor.load(tmp_path / "raw.predictor").model):
        np.testing.assert_array_equal(
            one.estimate(nests[0], table).columns, model.estimate(nests[0], table).columns
        )
    assert fit(records, SPEC, seed=0).to_bytes() == blob


def test_no_analytic_cycle_is_in_a_raw_prediction(
    model: CostModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, nests, _ = drawn(np.random.default_rng(4))
    table = enumerate_nest(nests[0], SPEC.capacity, 1, 64, np.random.default_rng(0))
    a = RawModel().analyse(nests[0], table, SPEC)
    x = RawModel().rows(a.features, a.work, model.unit_costs)
    logs = [trees.predict(x) for trees in model.cycle_forests]
    expected = a.cycles(model.unit_costs) * np.exp(np.sum([np.zeros(len(table)), *logs], axis=0))
    found = model.forecast(nests[0], table)
    np.testing.assert_array_equal(found.cycles, np.maximum(expected, 1.0))
    np.testing.assert_array_equal(model.rough(nests[0], table), a.cycles(model.unit_costs))
    assert (model.completed(found).low < found.cycles).all()


def explained(model: CostModel) -> Explanation:
    group, _, schedule = drawn(np.random.default_rng(4))
    return Predictor(model).explain(group, schedule)


def test_its_explanation_adds_up_in_the_terms_of_the_field() -> None:
    model = fit(measurements(one_after_the_other, 5, 90), SPEC, seed=0)
    assert model.is_raw and model.cycle_forests
    found = explained(model)
    assert found.model == "raw"
    assert {term.name for term in found.terms} >= {"load DMA", "store DMA", "sequencer"}
    added = sum(term.cycles for term in found.learned)
    np.testing.assert_allclose(found.analytic_cycles + added, found.cost.cycles, rtol=1e-6)
    assert any("of the priced cycles" in text for text in found.reasons)
    topics = {raw_topic_of(name) for name in RawModel.feature_names}
    assert {"array use", "DRAM traffic", "overlap of units", "launch"} <= topics
    assert {term.name for term in found.learned} <= topics | {"mean"}


@pytest.mark.parametrize("suffix", [".c", ".onnx"])
def test_trees_alone_are_not_exported(model: CostModel, tmp_path: Path, suffix: str) -> None:
    with pytest.raises(InputError, match=r"raw model.*model\.predictor") as refused:
        export_model(model, tmp_path / f"model{suffix}")
    assert "\n" not in str(refused.value) and not list(tmp_path.iterdir())


def test_a_raw_model_is_trained_anew_rather_than_extended(
    model: CostModel, records: list[Record]
) -> None:
    assert extended(model, records, seed=0) is None
    assert model.formula is model


def test_few_measurements_make_a_model_too(records: list[Record]) -> None:
    found = fit(records[: MIN_RECORDS + 5], SPEC, seed=0)
    assert found.kind in ("raw", "guided", "formula")
    assert found.metrics["top1_regret"] <= found.metrics["formula_top1_regret"]


def test_thinned_raw_rows_are_those_of_all(records: list[Record]) -> None:
    whole = dataset(records, SPEC, is_raw=True)
    for every in (2, 3, 7):
        some = dataset(records, SPEC, is_raw=True, every=every)
        assert some.fingerprint == whole.take(np.arange(len(whole)) % every == 0).fingerprint


def test_a_raw_model_contends_on_some_of_many_measurements(
    records: list[Record], model: CostModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("autotune.cost_model.choosing.RAW_ROWS", len(records) // 2)
    thinned = fit(records, SPEC, seed=0)
    assert thinned.kind == "raw" and thinned.metrics["n"] == -(-model.metrics["n"] // 2)
    assert thinned.metrics["mape"] < 0.5 * thinned.metrics["formula_mape"]


def test_a_raw_model_that_is_asked_often_answers_the_same(
    records: list[Record], model: CostModel
) -> None:
    """Recordings hold what the analytic model reads."""
    prepared = Predictor(model).prepare(Group.from_json(records[0].group_json))
    rows = prepared.schedules(32)
    first = prepared.predict_batch(rows).cycles.tolist()
    assert all(prepared.predict_batch(rows).cycles.tolist() == first for _ in range(8))
