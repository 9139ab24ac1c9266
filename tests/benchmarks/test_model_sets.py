"""Candidate sets are legal, ranked as a search would, kept in files, and judged by hand-worked figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from autotune.api import load_network
from autotune.cost_model.analysis import analytic_model
from autotune.fusion.analysis import nests_of
from autotune.fusion.group import Group
from autotune.measure.cluster.cluster import opened_cluster
from autotune.schedule.fit import check
from autotune.schedule.schedule import Schedule
from autotune.schedule.table import ScheduleTable
from autotune.targets.opening import load_spec
from benchmarks import model_measure
from benchmarks.model_measure import (
    MeasuredPlan,
    MeasuredSet,
    in_turn,
    measure_missing,
    measured_sets,
    open_store,
)
from benchmarks.model_scores import Judged, plan_error, score
from benchmarks.model_sets import FEWEST, SCHEDULES, NetworkSets, draw_network, draw_schedules

EDGE = load_spec("edge")


@pytest.fixture(scope="module")
def drawn() -> NetworkSets:
    return draw_network(load_network("mlp"), "mlp", EDGE, 0, 3, set(), {})


def test_sets_are_of_distinct_groups_and_legal_schedules(drawn: NetworkSets) -> None:
    first, second, third = (one.kind for one in drawn.sets)
    assert (first, third) == ("heuristic", "heuristic")
    assert second in ("merged", "single")
    assert len({one.group.key for one in drawn.sets}) == 3
    for one in drawn.sets:
        assert FEWEST <= len(set(one.schedules)) == len(one.schedules) <= SCHEDULES
        for schedule in one.schedules[::32]:
            assert check(nests_of(one.group), schedule, EDGE.capacity, EDGE.cores) is None


def test_half_of_a_set_is_what_a_search_would_look_at_first(drawn: NetworkSets) -> None:
    (nest,) = nests_of(drawn.sets[0].group)
    rows = [schedule.nests[0] for schedule in drawn.sets[0].schedules]
    order = analytic_model(EDGE).analyse(nest, ScheduleTable.of(nest, rows), EDGE).order()
    assert np.median(order[: SCHEDULES // 2]) < np.median(order[-SCHEDULES // 4 :])


def test_a_seed_draws_equal_sets() -> None:
    group = draw_network(load_network("mlp"), "mlp", EDGE, 0, 1, set(), {}).sets[0].group
    first, second = (draw_schedules(group, EDGE, np.random.default_rng(4), 32) for _ in range(2))
    assert first == second and len(first) == 32


def test_sets_are_read_as_they_were_drawn_and_measuring_goes_on(
    tmp_path: Path, drawn: NetworkSets, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = replace(drawn.sets[0], schedules=drawn.sets[0].schedules[:FEWEST])
    few = replace(drawn, sets=(small,))
    monkeypatch.setattr(model_measure, "draw_network", lambda *_: few)
    assert model_measure.drawn_sets("edge", tmp_path, ["mlp"], 1) == (few,)
    monkeypatch.delattr(model_measure, "draw_network")
    again = model_measure.drawn_sets("edge", tmp_path, ["mlp"], 1)
    assert [one.group.key for one in again[0].sets] == [small.group.key]
    with open_store("edge", tmp_path) as store:
        programs = FEWEST + len(drawn.plan.parts)
        assert (
            FEWEST
            <= measure_missing("edge", in_turn(again), store, seconds=0.0, workers=1)
            < programs
        )
        assert measured_sets("edge", again, store).sets == ()
        assert measure_missing("edge", in_turn(again), store, workers=1) == 0
        (measured,) = measured_sets("edge", again, store).sets
    assert measured.schedules == small.schedules
    assert (measured.cycles > 0).all()


@pytest.mark.slow
def test_workers_of_a_cluster_measure_what_this_process_measures(
    tmp_path: Path, drawn: NetworkSets
) -> None:
    small = replace(drawn.sets[0], schedules=drawn.sets[0].schedules[:FEWEST])
    sets = (replace(drawn, sets=(small,)),)
    cycles = []
    for folder, workers in (("here", None), ("there", "2")):
        with opened_cluster(workers) as cluster, open_store("edge", tmp_path / folder) as store:
            assert measure_missing("edge", in_turn(sets), store, workers=cluster) == 0
            cycles.append(measured_sets("edge", sets, store).sets[0].cycles)
    np.testing.assert_array_equal(*cycles)


def test_scores_by_hand(drawn: NetworkSets) -> None:
    group, schedules = drawn.sets[0].group, drawn.sets[0].schedules[:4]

    def predict(of: Group, some: Sequence[Schedule]) -> np.ndarray:
        cycles = np.array([110.0, 90.0, 400.0, 300.0])[: len(some)]
        return np.stack([cycles, cycles * 0.8, cycles * 1.2])

    actual = np.array([100.0, 120.0, 400.0, 500.0])
    measured = MeasuredSet("mlp", "single", group, schedules, actual)
    scores = score([Judged.of(measured, predict)])
    assert scores.mape == pytest.approx((0.1 + 0.25 + 0.0 + 0.4) / 4)
    assert scores.within_10 == 0.5
    assert scores.top1_regret == pytest.approx(0.2)
    assert scores.top5_regret == 0.0
    assert scores.coverage == 0.5
    assert scores.spearman == pytest.approx(0.6)
    plan = MeasuredPlan("mlp", ((group, schedules[0]),), np.array([3.0]), np.array([100.0]))
    assert plan_error(plan, predict) == pytest.approx(0.1)
