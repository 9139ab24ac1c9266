"""The embedded predictor answers from a stored model, for one group or many."""

from __future__ import annotations

import pickle
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from autotune.cost_model.cost import Cost, FusionGain
from autotune.cost_model.fitting import fit
from autotune.cost_model.model import CostModel
from autotune.cost_model.predictor import Predictor
from autotune.cost_model.predictor_file import MAGIC
from autotune.cost_model.scratchpad.model import ScratchpadModel
from autotune.cost_model.topics import topic_of
from autotune.cost_model.version import FEATURE_VERSION
from autotune.errors import InputError, ScheduleError, SpecError, StoreError
from autotune.fusion.group import layer
from autotune.schedule.fit import check
from autotune.schedule.schedule import NestSchedule, Schedule
from autotune.store.store import Store
from autotune.targets.emulator.target import EmulatorTarget
from autotune.tuner.objective import Objective
from autotune.tuner.ranking import QUICK, Ranking
from tests.cost_model.measured import SPEC, drawn, observations

CONV = layer("conv", (1, 8, 12, 12), (8, 8, 3, 3), pads=1)


@pytest.fixture(scope="module")
def predictor() -> Predictor:
    return Predictor(fit(list(observations(2, 60)), SPEC, seed=0))


def test_a_stored_model_is_loaded_by_its_target(predictor: Predictor, tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    target = EmulatorTarget(SPEC)
    with Store.open(path) as store:
        shipped = Predictor.load(target, store)
        assert shipped.model.is_shared and "calibrate --target small" in shipped.origin
        blob = predictor.model.to_bytes()
        store.save_model(SPEC.profile_id, blob, predictor.model.metrics, FEATURE_VERSION)
        assert "calibrated model" in Predictor.load(target, store).origin
    group, _, schedule = drawn(np.random.default_rng(1))
    assert Predictor.load(target, path).predict(group, schedule) == predictor.predict(
        group, schedule
    )


@pytest.mark.parametrize("seed", range(6))
def test_a_batch_equals_its_schedules_one_by_one(predictor: Predictor, seed: int) -> None:
    group, _, schedule = drawn(np.random.default_rng(seed))
    prepared = predictor.prepare(group)
    rows = predictor.schedules(group, 40)[::5]
    rows = np.concatenate([rows, prepared.row(schedule)[None]])
    np.testing.assert_array_equal(prepared.rows([prepared.schedule(row) for row in rows]), rows)
    assert rows.shape[1] == len(prepared.columns)
    batch = predictor.predict_batch(group, rows)
    singles = [predictor.predict(group, prepared.schedule(row)) for row in rows]
    assert len(batch) == len(rows)
    for name in ("cycles", "low_cycles", "high_cycles", "energy_fj", "dram_bytes"):
        alone = [getattr(cost, name) for cost in singles]
        np.testing.assert_allclose(getattr(batch, name), alone, rtol=1e-5)
    assert (batch.low_cycles <= batch.cycles).all() and (batch.cycles <= batch.high_cycles).all()
    assert (batch.energy_fj > 0).all() and (batch.dram_bytes > 0).all()
    assert len(predictor.predict_batch(group, rows[:0])) == 0


@pytest.mark.parametrize("seed", range(6))
def test_the_best_schedule_is_legal_and_no_worse_than_any_enumerated(
    predictor: Predictor, seed: int
) -> None:
    group, nests, _ = drawn(np.random.default_rng(seed))
    best = predictor.predict(group)
    assert best.schedule == predictor.best_schedule(group)
    assert check(nests, best.schedule, SPEC.capacity, SPEC.cores) is None
    tried = predictor.predict_batch(group, predictor.schedules(group))
    assert best.cycles <= tried.cycles.min() * (1 + 1e-6)
    assert predictor.predict(group, best.schedule).cycles == pytest.approx(best.cycles, rel=1e-5)


@pytest.mark.parametrize("seed", range(6))
def test_where_the_formula_chooses_its_choice_is_priced_by_the_trees(
    predictor: Predictor, seed: int
) -> None:
    model = predictor.model
    learned = replace(model.learned, formula_chooses=True)
    model = CostModel(SPEC, learned, model.metrics, provenance=model.provenance)
    model = CostModel.from_bytes(model.to_bytes(), SPEC)
    assert model.kind == "guided" and model.chooser.kind == "formula"
    group, _, _ = drawn(np.random.default_rng(seed))
    found, formula = Predictor(model), Predictor(model.formula)
    schedule = formula.best_schedule(group)
    assert found.best_schedule(group) == schedule
    cost = predictor.predict(group, schedule)
    assert found.predict(group).cycles == pytest.approx(cost.cycles, rel=1e-5)
    assert found.predict(group, schedule).cycles == pytest.approx(cost.cycles, rel=1e-5)
    ranked = Ranking(model, SPEC, Objective.LATENCY, 0).rank(group, QUICK)
    draft = Ranking(model.formula, SPEC, Objective.LATENCY, 0).rank(group, QUICK)
    assert set(ranked.schedules) == set(draft.schedules)
    assert ranked.schedules[0] == draft.schedules[0]
    trees = Ranking(predictor.model, SPEC, Objective.LATENCY, 0)
    priced = trees.predict(group, ranked.schedules).values
    own = priced[:3] * np.maximum(1.0, priced[0, 0] / priced[0])
    np.testing.assert_allclose(ranked.values[:3], own)
    np.testing.assert_array_equal(ranked.values[:, 0], priced[:, 0])


def test_answers_are_the_same_whatever_tensors_are_called(predictor: Predictor) -> None:
    first, second = CONV, layer("conv", (1, 8, 12, 12), (8, 8, 3, 3), pads=1, name="other")
    assert predictor.predict(first) is predictor.predict(second)
    gain = predictor.should_fuse(first, layer("relu", first))
    assert predictor.should_fuse(second, layer("relu", second)) is gain


def test_a_pair_is_the_group_of_both(predictor: Predictor) -> None:
    relu = layer("relu", CONV)
    gain = predictor.should_fuse(CONV, relu)
    assert gain.separate == (predictor.predict(CONV), predictor.predict(relu))
    assert gain.fused == predictor.predict(CONV.then("relu")) == predictor.predict((CONV, relu))
    assert gain.gain_cycles == pytest.approx(
        sum(cost.cycles for cost in gain.separate) - predictor.predict(CONV.then("relu")).cycles
    )
    assert gain.low_cycles < gain.gain_cycles < gain.high_cycles
    assert gain.dram_bytes_saved > 0 and "DRAM bytes saved" in gain.reason
    kept = predictor.should_fuse(CONV, relu, keep=CONV.outputs)
    assert kept.dram_bytes_saved < gain.dram_bytes_saved


def cost(cycles: float, spread: float) -> Cost:
    return Cost(Schedule(()), cycles, cycles - spread, cycles + spread, 1.0, cycles)


@pytest.mark.parametrize(("fused", "fuse"), [(149.0, True), (151.0, False), (500.0, False)])
def test_a_gain_counts_beyond_the_three_uncertainties_together(fused: float, fuse: bool) -> None:
    separate = (cost(100.0, 30.0), cost(100.0, 40.0))
    gain = FusionGain.of(separate, cost(fused, 0.0))
    assert (gain.gain_cycles - gain.low_cycles, gain.high_cycles - gain.gain_cycles) == (50.0, 50.0)
    assert bool(gain) is fuse
    assert ("saved" if fused < 200 else "more") in gain.reason
    told = {149.0: "gain of fusing: 51 cycles", 151.0: "no sure gain", 500.0: "loss by fusing: 300"}
    assert gain.reason.startswith(told[fused])


def test_what_cannot_be_fused_is_no_gain_and_says_why(predictor: Predictor) -> None:
    rows = layer("softmax", (4, 60_000), axis=-1)
    column = layer("matmul", rows, (60_000, 8))
    gain = predictor.should_fuse(rows, layer("softmax", rows, axis=0, name="columns"))
    assert not gain and gain.fused is None and gain.gain_cycles == 0.0
    assert gain.obstacle and gain.obstacle in gain.reason
    with pytest.raises(InputError, match="no tensor in common"):
        predictor.should_fuse(column, rows)


def test_what_is_no_group_is_refused(predictor: Predictor) -> None:
    with pytest.raises(InputError, match=r"autotune\.layer and Graph\.group make groups"):
        predictor.predict("conv")


def test_a_reshape_costs_nothing(predictor: Predictor) -> None:
    flat = layer("reshape", CONV, shape=(8, 144))
    assert predictor.predict(flat).cycles == 0.0
    rows = predictor.prepare(flat).rows([Schedule(())] * 3)
    assert predictor.predict_batch(flat, rows).cycles.tolist() == [0.0] * 3
    assert predictor.should_fuse(CONV, flat).separate[1].schedule == Schedule(())


def test_an_explanation_names_the_resource_that_decides(predictor: Predictor) -> None:
    found = predictor.explain(CONV)
    assert found.cost == predictor.predict(CONV)
    assert found.bottleneck == max(found.terms, key=lambda term: term.cycles).name
    assert found.needed_multiply_adds == 8 * 8 * 9 * 12 * 12 <= found.multiply_adds
    assert found.needed_bytes == 4 * (2 * 8 * 12 * 12 + 8 * 8 * 9)
    assert found.bound_cycles <= found.analytic_cycles
    assert found.correction * found.analytic_cycles == pytest.approx(found.cost.cycles)
    assert 0 < found.array_use <= 1
    assert any("limited by the " + found.bottleneck in reason for reason in found.reasons)
    assert f"<td>{found.bottleneck}</td>" in found._repr_html_()


def test_a_prediction_below_the_roofline_is_told_as_such(predictor: Predictor) -> None:
    found = predictor.explain(CONV)
    (line,) = [reason for reason in found.reasons if reason.startswith("roofline")]
    assert "at least" in line and found.bound_cycles <= found.cost.cycles
    low = replace(found, bound_cycles=1.03 * found.cost.cycles)
    (line,) = [reason for reason in low.reasons if reason.startswith("roofline")]
    assert f"more than the {found.cost.cycles:,.0f} predicted" in line and "at least" not in line


def test_what_trees_add_is_told_by_topic_and_adds_up(predictor: Predictor) -> None:
    for group in (CONV, layer("softmax", (64, 128), axis=-1)):
        found = predictor.explain(group)
        assert sum(term.cycles for term in found.learned) == pytest.approx(
            found.cost.cycles - found.analytic_cycles, abs=0.01
        )
        assert {"array use", "DRAM traffic", "mean"} <= {term.name for term in found.learned}
        assert any(reason.startswith("learned: ×") for reason in found.reasons)


def test_every_scratchpad_feature_has_a_topic() -> None:
    names = ScratchpadModel.feature_names
    assert not [name for name in names if topic_of(name) == name.removeprefix("log_")]
    assert topic_of("log_copied_rows") == topic_of("copied_rows_share") == "copied rows"


def test_a_pair_is_explained_by_its_gain(predictor: Predictor) -> None:
    pair = (CONV, layer("relu", CONV))
    found = predictor.explain(pair)
    assert found.reasons[0] == predictor.should_fuse(*pair).reason
    assert "no program" in predictor.explain(layer("reshape", (4, 4), shape=(16,))).reasons[0]


def test_tiles_that_compute_halos_again_are_told(predictor: Predictor) -> None:
    two = CONV.then("conv", w=(8, 8, 3, 3), pads=1)
    rows = predictor.schedules(two)
    tables = [predictor.prepare(two).schedule(row) for row in rows]
    split = next(s for s in tables if s.nests[0].tile[2] == 1 and s.nests[0].tile[1] == 8)
    found = predictor.explain(two, split)
    assert found.multiply_adds > found.needed_multiply_adds
    assert any(reason.startswith("recomputation") for reason in found.reasons)


def test_threads_get_the_answers_of_one(predictor: Predictor) -> None:
    groups = [drawn(np.random.default_rng(seed))[0] for seed in range(6)]
    alone = [Predictor(predictor.model).predict(group) for group in groups]
    shared = Predictor(predictor.model)
    with ThreadPoolExecutor(6) as pool:
        together = list(pool.map(shared.predict, groups * 4))
    assert together == alone * 4


def test_a_saved_predictor_answers_bit_for_bit(predictor: Predictor, tmp_path: Path) -> None:
    file = tmp_path / "small.predictor"
    predictor.save(file)
    loaded = Predictor.load(file)
    assert loaded.spec == predictor.spec and loaded.spec.profile_id == SPEC.profile_id
    assert loaded.model.to_bytes() == predictor.model.to_bytes()
    assert loaded.predict(CONV) == predictor.predict(CONV)
    pickled = pickle.loads(pickle.dumps(predictor))
    assert pickled.predict(CONV) == predictor.predict(CONV)


def test_files_that_are_no_predictors_are_refused_by_name(
    predictor: Predictor, tmp_path: Path
) -> None:
    file = tmp_path / "small.predictor"
    predictor.save(file)
    whole = file.read_bytes()
    start = len(MAGIC) + 8
    for blob, message in (
        (whole[:-9], "checksum"),
        (whole[: start + 40], "damaged header"),
        (whole.replace(b'"format": 1', b'"format": 9', 1), "format 9; this version reads 1"),
        (whole.replace(b'"cores": 2', b'"cores": 0', 1), "cores: 0 is not in"),
    ):
        file.write_bytes(blob)
        with pytest.raises(StoreError, match=f"^{file}: .*{message}"):
            Predictor.load(file)
    other = tmp_path / "notes.txt"
    other.write_text("mine")
    with pytest.raises(InputError):
        predictor.save(other)
    with pytest.raises(SpecError):
        Predictor.load(tmp_path / "missing.predictor")


def test_an_illegal_schedule_is_refused(predictor: Predictor) -> None:
    group, nests, _ = drawn(np.random.default_rng(8))
    rank = len(nests[0].root_shape)
    k_tile = tuple(c.k_extent for c in nests[0].contractions)
    wrong = NestSchedule(tuple(n + 1 for n in nests[0].root_shape), tuple(range(rank)), k_tile)
    with pytest.raises(ScheduleError, match="tile"):
        predictor.predict(group, Schedule((wrong,) * len(nests)))
    with pytest.raises(ScheduleError, match="made for another group"):
        predictor.prepare(group).rows([Schedule(())])
    row = predictor.prepare(group).schedules(3)
    row[2, 0] = -row[2, 0]
    with pytest.raises(ScheduleError, match="row 2: tile"):
        predictor.predict_batch(group, row)
