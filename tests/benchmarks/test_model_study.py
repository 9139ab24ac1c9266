"""Studies hold networks out cleanly; figures, families and pages are whole."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from dataclasses import asdict, fields, replace
from itertools import islice

import numpy as np
import pytest

from autotune.api import load_network
from autotune.cost_model.analysis import analytic_model
from autotune.cost_model.bound.kernel_kinds import KERNEL_PRICES
from autotune.cost_model.bound.kernel_prices import kernel_cycles
from autotune.cost_model.raw.features import RAW_NAMES
from autotune.cost_model.verifier import bound_work
from autotune.measure.runner import measure
from autotune.schedule.candidate import Candidate
from autotune.store.records import Outcome, Record
from autotune.targets.emulator.target import EmulatorTarget
from autotune.targets.native.cpu.host import available
from autotune.targets.native.detection.detect import HostFigures, host_spec
from autotune.targets.opening import load_spec
from autotune.tuner.records import to_record
from autotune.tuner.sampling import sample_candidates
from benchmarks.model_baselines import BASELINES, train_raw
from benchmarks.model_experiments import (
    GUIDED_FAMILIES,
    OTHER,
    RAW_FAMILIES,
    families,
    learning_curves,
)
from benchmarks.model_kept import kept_targets
from benchmarks.model_measure import MeasuredPlan, MeasuredSet
from benchmarks.model_page import METRICS, TargetFigures, page
from benchmarks.model_pictures import curves_picture, scatter_picture
from benchmarks.model_scores import Scores, score
from benchmarks.model_sets import draw_network
from benchmarks.model_study import DRAFT, OURS, Study, held_out, scores_by_network

pytestmark = pytest.mark.slow  # trains models

EDGE = EmulatorTarget(load_spec("edge"))
NETWORKS = ("mlp", "norm_gelu", "gru")


def cycles_of(candidates: list[Candidate]) -> np.ndarray:
    return np.array(
        [one.execution.cycles for one in measure(EDGE, candidates, 1)], dtype=np.float64
    )


@pytest.fixture(scope="module")
def study() -> Study:
    sets, plans, records, taken = [], [], [], set()
    for seed, name in enumerate(NETWORKS):
        graph = load_network(name)
        drawn = draw_network(graph, name, EDGE.spec, 0, 1, taken, {})
        for one in drawn.sets:
            few = replace(one, schedules=one.schedules[::16])
            cycles = cycles_of(list(few.candidates()))
            sets.append(MeasuredSet(name, one.kind, one.group, few.schedules, cycles))
        parts = tuple((group, schedule) for group, schedule, _ in drawn.plan.parts)
        counts = np.array([count for *_, count in drawn.plan.parts], dtype=np.float64)
        plans.append(MeasuredPlan(name, parts, counts, cycles_of(list(drawn.plan.candidates()))))
        some = {c.key: c for c in islice(sample_candidates((graph,), EDGE.spec, seed), 90)}
        for one in measure(EDGE, some.values(), 1):
            record = to_record(one, EDGE, "calibrate")
            own = record.network.startswith("workload:")
            records.append(record if own else replace(record, network=name))
    return Study.of(EDGE.spec, sets, plans, records, 3)


def test_no_network_is_trained_on_where_it_is_tested(study: Study) -> None:
    for fold in range(study.folds):
        tested, known = study.tested(fold), study.known(fold)
        assert tested.any() and known.any() and not known.all()
        assert not set(study.training.networks[known]) & set(study.rows.networks[tested])
        assert not set(study.training.keys[known]) & set(study.rows.keys[tested])
    assert sum(study.tested(fold) for fold in range(study.folds)).tolist() == [1] * len(study.rows)


def test_exact_predictions_have_no_error_and_plans_add_up(study: Study) -> None:
    exact = score(study.judged(study.rows.cycles))
    assert (exact.mape, exact.top1_regret) == (0.0, 0.0)
    assert exact.spearman == pytest.approx(1.0)
    assert study.plan_ratios(2.0 * study.rows.cycles) == pytest.approx(dict.fromkeys(NETWORKS, 2.0))


def test_training_rows_are_those_of_the_records(study: Study) -> None:
    assert study.training.cycles.tolist() == [record.cycles for record in study.records]
    assert study.training.keys.tolist() == [record.group_key for record in study.records]


def test_a_page_shows_every_figure_of_every_predictor(study: Study) -> None:
    predicted, kinds = held_out(study, lambda _: None)
    judged = {name: study.judged(cycles) for name, cycles in predicted.items()}
    scores = {name: score(found) for name, found in judged.items()}
    assert set(scores) == {*BASELINES, OURS}, "an emulated machine has one stage"
    assert scores[OURS].mape < scores["roofline"].mape
    assert scores[OURS].coverage is not None and scores["formula"].coverage is None
    curves = tuple(learning_curves(study))
    assert {point.choice for point in curves} == {"random", "active"}
    figures = TargetFigures(
        "edge",
        len(study.records),
        sum(map(len, study.sets)),
        16,
        study.folds,
        scores,
        {name: scores_by_network(judged[name]) for name in ("formula", OURS)},
        {name: study.plan_ratios(cycles) for name, cycles in predicted.items()},
        kinds,
        (),
        curves,
        ((1.0, 2.0),),
    )
    assert TargetFigures.from_plain(json.loads(json.dumps(asdict(figures)))) == figures
    text = page([figures], "images")
    assert all(title in text for title, _ in METRICS.values())
    assert set(METRICS) == {field.name for field in fields(Scores)} - {"sets"}
    kept = kept_targets(text.replace("edge", "mobile"))
    assert list(kept) == ["mobile"]
    both = page([figures], "images", kept)
    assert list(kept_targets(both)) == ["edge", "mobile"]
    assert kept_targets(both)["mobile"] == kept["mobile"]
    assert page([], "images", kept_targets(both)) == both
    renewed = page([replace(figures, trained=7)], "images", kept_targets(both))
    assert kept_targets(renewed)["mobile"] == kept["mobile"]
    assert ", 7 to train on" in kept_targets(renewed)["edge"].section
    for picture in (scatter_picture("edge", [1.0, 9.0], [2.0, 8.0]), curves_picture("x", curves)):
        assert ET.fromstring(picture).tag.endswith("svg")


def test_every_feature_is_left_out_once(study: Study) -> None:
    for names, patterns in (
        (RAW_NAMES, RAW_FAMILIES),
        (analytic_model(EDGE.spec).feature_names, GUIDED_FAMILIES),
        (analytic_model(load_spec("cpu:1")).feature_names, GUIDED_FAMILIES),
    ):
        found = families(names, patterns)
        assert sorted(column for own in found.values() for column in own) == list(range(len(names)))
        assert len(found.get(OTHER, [])) < len(names) / 4


def test_features_that_were_left_out_cannot_help(study: Study) -> None:
    every = score(study.judged(study.predict(train_raw)))
    none = score(study.judged(study.predict(lambda rows: train_raw(rows, columns=[0]))))
    assert every.mape < none.mape


@pytest.mark.skipif(not available(), reason="no code is generated without llvmlite")
def test_on_cpus_the_second_stage_stands_beside_its_draft() -> None:
    """Programs cost what their kernels do, which the draft cannot see."""
    spec = host_spec(1, HostFigures(3e9, 2, 16, 32 << 20, 5.0))
    by_group: dict[str, list[Candidate]] = {}
    for candidate in islice(sample_candidates([], spec, 1), 150):
        by_group.setdefault(candidate.group.key, []).append(candidate)
    sets, records = [], []
    for number, members in enumerate(by_group.values()):
        group, schedules = members[0].group, tuple(one.schedule for one in members)
        cycles = kernel_cycles(bound_work(group, schedules, spec), KERNEL_PRICES).round()
        for one, cost in zip(members, cycles, strict=True):
            texts = group.key, group.to_json(), one.schedule.to_json()
            rest = spec.profile_id, "host", f"net {number}", "calibrate", Outcome.OK, "", int(cost)
            records.append(Record(*texts, *rest, 0, 0))
        if number < 4:
            sets.append(MeasuredSet(f"net {number}", "single", group, schedules, cycles))
    study = Study.of(spec, sets, (), records, 2)
    predicted, kinds = study.predict_ours(lambda _: None)
    scores = {name: score(study.judged(cycles)) for name, cycles in predicted.items()}
    assert list(scores) == [DRAFT, OURS]
    assert scores[OURS].mape < 0.1 < scores[DRAFT].mape
    assert set(kinds) <= {"formula and bound programs", "guided and bound programs"}
