"""The cost model learns an invented machine, says how sure it is, and survives being stored."""

from __future__ import annotations

import hashlib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest

from autotune.cost_model import fitting, model_file, provenance
from autotune.cost_model.analysis import analytic_model
from autotune.cost_model.dataset import MIN_RECORDS, dataset
from autotune.cost_model.fitting import extended, fit
from autotune.cost_model.held_out import HeldOut
from autotune.cost_model.metrics import mape
from autotune.cost_model.model import CostModel
from autotune.cost_model.model_file import provenance_of
from autotune.cost_model.provenance import feature_hash
from autotune.cost_model.training import MORE_ROUNDS
from autotune.errors import StoreError
from autotune.fusion.group import Group
from autotune.graph.builder import GraphBuilder
from autotune.operators.op import OpKind
from autotune.schedule.schedule import NestSchedule, Schedule
from autotune.schedule.space import enumerate_nest
from autotune.store.records import Outcome, Record
from autotune.targets.spec import Memory
from tests.cost_model.measured import SPEC, drawn, observations

pytestmark = pytest.mark.slow  # trains models


@pytest.fixture(scope="module")
def records() -> list[Record]:
    return list(observations(7, 240))


@pytest.fixture(scope="module")
def model(records: list[Record]) -> CostModel:
    return fit(records, SPEC, seed=0)


def test_an_invented_machine_is_learned_on_unseen_networks(model: CostModel) -> None:
    assert model.metrics["mape"] < 0.05 < model.metrics["analytic_mape"]
    assert model.metrics["within_10"] >= model.metrics["within_5"] > 0.9
    assert model.metrics["median_error"] < model.metrics["mape"]
    assert model.metrics["dram_mape"] < 0.01
    assert 0.8 <= model.metrics["coverage"] <= 0.98


def test_its_energy_is_learned_whichever_networks_are_held_out(
    model: CostModel, records: list[Record]
) -> None:
    """One split of twelve networks says little: errors of single ones lie between 0.10 and 0.15."""
    others = [fit(records, SPEC, seed=seed) for seed in (1, 2)]
    assert np.mean([one.metrics["energy_mape"] for one in (model, *others)]) < 0.13


def test_a_group_costs_the_sum_of_its_nests_and_intervals_hold_it(model: CostModel) -> None:
    group, nests, schedule = drawn(np.random.default_rng(3))
    table = enumerate_nest(nests[0], SPEC.capacity, 1, 64, np.random.default_rng(0))
    found = model.predict_nest(nests[0], table)
    assert (found.low <= found.cycles).all() and (found.cycles <= found.high).all()
    assert model.predict(group, schedule) > 0


def test_what_is_trusted_less_weighs_less_beside_the_weights_given() -> None:
    noisy = ({}, {"noisy": 1}, {"noisy": 1})
    told = [replace(r, counters=c) for r, c in zip(observations(7, 3), noisy, strict=True)]
    alone, weighted = dataset(told, SPEC), dataset(told, SPEC, [0.5, 1.0, 0.5])
    trusted = {record.group_key: record.trust for record in told}
    assert len(trusted) == len(alone) == 3
    np.testing.assert_array_equal(alone.weight, [trusted[key] for key in alone.keys])
    assert sorted(weighted.weight) == [0.025, 0.05, 0.5]


def test_a_stored_model_predicts_the_same(model: CostModel) -> None:
    again = CostModel.from_bytes(model.to_bytes(), SPEC)
    _, nests, _ = drawn(np.random.default_rng(4))
    table = enumerate_nest(nests[0], SPEC.capacity, 1, 64, np.random.default_rng(0))
    for ours, theirs in zip(
        (model.estimate(nests[0], table).cycles, model.predict_energy(nests[0], table)),
        (again.estimate(nests[0], table).cycles, again.predict_energy(nests[0], table)),
        strict=True,
    ):
        assert np.array_equal(ours, theirs)
    assert again.metrics == model.metrics


def test_training_is_reproducible_and_the_file_says_on_what(records: list[Record]) -> None:
    first, second = (fit(records[:80], SPEC, seed=5) for _ in range(2))
    assert first.to_bytes() == second.to_bytes()
    assert first.provenance is not None
    assert first.provenance.measurements == len(dataset(records[:80], SPEC))
    assert provenance_of(first.to_bytes()) == first.provenance
    assert CostModel.from_bytes(first.to_bytes(), SPEC).provenance == first.provenance


def slowed(records: list[Record]) -> list[Record]:
    """Return news: records of groups that take 1.4 times as long as the invented machine says."""
    return [replace(one, cycles=round(1.4 * one.cycles), network="news") for one in records]


def error_on(model: CostModel, records: list[Record]) -> float:
    """Mean error of a model on measurements."""
    found = [
        model.predict(Group.from_json(r.group_json), Schedule.from_json(r.schedule_json))
        for r in records
    ]
    return mape(np.array([float(r.cycles) for r in records]), np.array(found))


def test_an_extended_model_learns_news_and_forgets_nothing(
    model: CostModel, records: list[Record]
) -> None:
    news = slowed(list(observations(99, 40)))
    more = extended(model, [*records, *news], seed=0)
    assert more is not None and more.metrics == model.metrics
    assert error_on(more, news) < 0.8 * error_on(model, news)
    assert error_on(more, records) < error_on(model, records) + 0.02
    trees = {name: len(forest.roots) for name, forest in model.trees.items()}
    grown = {name: len(forest.roots) for name, forest in more.trees.items()}
    assert grown == {name: n + (0 if name == "scale" else MORE_ROUNDS) for name, n in trees.items()}


def test_extending_is_reproducible_and_the_file_says_what_was_extended(
    model: CostModel, records: list[Record]
) -> None:
    both = [*records, *observations(98, 20)]
    first, second = (extended(model, both, seed=5) for _ in range(2))
    assert first is not None and second is not None and first.provenance is not None
    assert first.to_bytes() == second.to_bytes() != model.to_bytes()
    assert first.provenance.base == hashlib.sha256(model.to_bytes()).hexdigest()
    assert first.provenance.measurements == len(dataset(both, SPEC))
    assert CostModel.from_bytes(first.to_bytes(), SPEC).to_bytes() == first.to_bytes()


def test_supports_of_an_extended_model_are_those_of_all_its_trees(
    model: CostModel, records: list[Record]
) -> None:
    more = extended(model, records, seed=0)
    assert more is not None
    x = dataset(records, SPEC).x
    before, after = (np.median(one.learned.novelty(x)) for one in (model, more))
    assert abs(after - before) < 0.05
    known = more.learned.known_support
    assert known is not None and (np.diff(known) >= 0).all()


def test_what_has_no_trees_of_its_own_or_too_many_is_not_extended(
    model: CostModel, records: list[Record], monkeypatch: pytest.MonkeyPatch
) -> None:
    formula = CostModel.typical(replace(SPEC, memory=Memory.CACHED))
    assert extended(formula, records, seed=0) is None
    assert extended(model, records[:3], seed=0) is None
    monkeypatch.setattr(fitting, "MOST_TREES", len(model.cycle_forests[0].roots))
    assert extended(model, records, seed=0) is None


def test_a_fingerprint_tells_training_sets_apart(records: list[Record]) -> None:
    ours = dataset(records[:40], SPEC).fingerprint
    others = [
        dataset(records[:39], SPEC),
        dataset([*records[1:40], records[0]], SPEC),
        dataset([*records[:39], replace(records[39], cycles=records[39].cycles + 1)], SPEC),
        dataset(records[:40], SPEC, [0.5] * 40),
    ]
    assert dataset(records[:40], SPEC).fingerprint == ours
    assert len({ours, *(other.fingerprint for other in others)}) == 5


def test_a_feature_hash_knows_names_order_and_version(monkeypatch: pytest.MonkeyPatch) -> None:
    names = analytic_model(SPEC).feature_names
    ours = feature_hash(names)
    assert feature_hash(names[::-1]) != ours
    monkeypatch.setattr(provenance, "FEATURE_VERSION", 999)
    assert feature_hash(names) != ours


def test_threads_share_a_model(model: CostModel) -> None:
    _, nests, _ = drawn(np.random.default_rng(6))
    table = enumerate_nest(nests[0], SPEC.capacity, 1, 64, np.random.default_rng(0))
    expected = model.predict_nest(nests[0], table).cycles
    with ThreadPoolExecutor(4) as pool:
        for found in pool.map(lambda _: model.predict_nest(nests[0], table).cycles, range(16)):
            assert np.array_equal(found, expected)


def test_too_few_measurements_are_refused_with_the_way_out(records: list[Record]) -> None:
    failed = [replace(r, outcome=Outcome.FAILED, reason="no room") for r in records[MIN_RECORDS:]]
    with pytest.raises(StoreError, match="run 'autotune calibrate --target small' first"):
        fit([*records[: MIN_RECORDS - 1], *failed], SPEC, seed=0)


def test_the_last_of_equal_candidates_counts(records: list[Record]) -> None:
    slow = [replace(r, cycles=r.cycles * 3) for r in records]
    data = dataset([*slow, *records], SPEC)
    assert len(data) == len({(r.group_key, r.schedule_json) for r in records})
    assert sorted(data.cycles) == sorted(dataset(records, SPEC).cycles)


def test_records_of_nests_that_had_other_dimensions_are_left_out(
    records: list[Record],
) -> None:
    """Fused attention had no dimension for the reduction over keys: old stores hold three of four."""
    new, old = fused_attention((2, 4, 8, 16)), fused_attention((2, 4, 8))
    alone, found = dataset([new, *records], SPEC), dataset([old, new, *records, old], SPEC)
    np.testing.assert_array_equal(found.x, alone.x)
    np.testing.assert_array_equal(found.owner, alone.owner)
    assert found.keys.tolist() == alone.keys.tolist()
    assert found.cycles.tolist() == alone.cycles.tolist()
    assert len(dataset([old, *records], SPEC)) == len(dataset(records, SPEC))


def fused_attention(tile: tuple[int, ...]) -> Record:
    """softmax(q · kᵀ) · v [2, 16, 8] by tiles of the nest's dimensions."""
    b = GraphBuilder("attention")
    q, k, v = (b.input(name, (2, 16, 8)) for name in "qkv")
    y = b.add(OpKind.SOFTMAX, b.add(OpKind.MATMUL, q, k, trans_b=1), axis=2)
    graph = b.build([b.add(OpKind.MATMUL, y, v)])
    group = Group.from_graph(graph, [op.name for op in graph.ops])
    part = NestSchedule(tile, tuple(range(len(tile))), (8, 16), 1, 1)
    text = Schedule((part,)).to_json()
    origin = (SPEC.profile_id, SPEC.name, "attention", "calibrate", Outcome.OK, "")
    return Record(group.key, group.to_json(), text, *origin, 9, 9, 9)


def test_foreign_or_damaged_files_are_refused(
    model: CostModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    blob = model.to_bytes()
    with pytest.raises(StoreError, match="not a cost model"):
        CostModel.from_bytes(b"PK\x03\x04", SPEC)
    with pytest.raises(StoreError, match="checksum"):
        CostModel.from_bytes(blob[:-1] + bytes([blob[-1] ^ 1]), SPEC)
    with pytest.raises(StoreError, match="header"):
        CostModel.from_bytes(blob[:60], SPEC)
    with pytest.raises(StoreError, match="hardware profile"):
        CostModel.from_bytes(blob, replace(SPEC, cores=1))
    monkeypatch.setattr(model_file, "FEATURE_VERSION", 999)
    with pytest.raises(StoreError, match="this version reads"):
        CostModel.from_bytes(blob, SPEC)


def test_a_misjudged_group_is_the_one_whose_median_is_furthest_off() -> None:
    data = dataset(list(observations(3, 40)), SPEC)
    keys = data.keys.tolist()
    error = np.full(len(data), 0.1)
    worst, second = dict.fromkeys(keys[:1] + keys[-1:])
    error[data.keys == worst] = -1.0
    error[data.keys == second] = 0.5
    nothing = np.zeros(len(data))
    held = HeldOut(nothing, nothing, nothing, error, nothing, nothing, nothing, nothing, data.x)
    found = held.misjudged(data, 2)
    assert [m.group_key for m in found] == [worst, second]
    assert [m.factor for m in found] == pytest.approx([np.exp(-1.0), np.exp(0.5)])
    assert found[0].runs == keys.count(worst)


def choices(seed: int, groups: int, noise: float) -> list[Record]:
    """Six schedules of each group, which take their analytic cycles but for noise: nothing to learn."""
    rng = np.random.default_rng(seed)
    found: list[Record] = []
    while len(found) < 6 * groups:
        group, nests, _ = drawn(rng)
        table = enumerate_nest(nests[0], SPEC.capacity, 1, 6, rng)
        if len(nests) > 1 or len(table) < 6:
            continue
        estimate = analytic_model(SPEC).analyse(nests[0], table, SPEC).estimate
        cycles = np.rint(estimate * np.exp(rng.normal(0.0, noise, len(table)))).astype(int).tolist()
        origin = (SPEC.profile_id, SPEC.name, f"network:{len(found) % 9}", "calibrate", Outcome.OK)
        found += [
            Record(
                group.key,
                group.to_json(),
                Schedule((table.row(row),)).to_json(),
                *origin,
                "",
                max(1, took),
                1,
                1,
            )
            for row, took in enumerate(cycles)
        ]
    return found


@pytest.mark.parametrize("noise", [0.02, 0.2])
def test_no_model_chooses_worse_than_its_formula(noise: float) -> None:
    metrics = fit(choices(1, 40, noise), SPEC, seed=0).metrics
    assert metrics["top1_regret"] <= metrics["formula_top1_regret"]


def test_where_there_is_nothing_to_learn_the_formula_is_kept() -> None:
    one = fit(choices(2, 40, 0.0), SPEC, seed=0)
    assert one.kind == "formula"
    _, nests, _ = drawn(np.random.default_rng(4))
    table = enumerate_nest(nests[0], SPEC.capacity, 1, 16, np.random.default_rng(0))
    expected = analytic_model(SPEC).analyse(nests[0], table, SPEC).estimate
    for kept in (one, CostModel.from_bytes(one.to_bytes(), SPEC)):
        np.testing.assert_allclose(kept.predict_nest(nests[0], table).cycles, expected)


def test_trees_are_kept_where_they_learn_something(model: CostModel) -> None:
    assert model.kind == "guided"
    assert model.metrics["mape"] < model.metrics["formula_mape"]
