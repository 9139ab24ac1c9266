"""After drift, a few re-measured candidates correct what is believed of all the others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from autotune.runtime.online import online_dataset
from autotune.runtime.online.correction import Correction
from autotune.runtime.online.online_dataset import CORRECTED_WEIGHT, OnlineDataset
from autotune.store.records import Outcome, Record


def machine(rng: np.random.Generator, count: int) -> list[tuple[int, int]]:
    """Candidates as (cycles of computing, bytes to move), on both sides of the ridge."""
    draws = np.exp(rng.uniform(np.log(1e3), np.log(1e6), (count, 2)))
    return [(int(compute), int(8 * moved)) for compute, moved in draws]


def record(index: int, compute: int, moved: int, bandwidth: float, at_seconds: float) -> Record:
    cycles = round(max(compute, moved / bandwidth))
    return Record(
        group_key=f"group{index}",
        group_json="{}",
        schedule_json="[]",
        profile_id="p",
        target="edge",
        network="n",
        source="calibrate",
        outcome=Outcome.OK,
        reason="",
        cycles=cycles,
        energy_fj=10 * cycles,
        dram_bytes=moved,
        counters={"cycles_matrix": compute},
        created_at=at_seconds,
    )


def believed(dataset: OnlineDataset) -> dict[str, float]:
    """Believed cycles by group, of candidates to train on and of those held out."""
    trained = {r.group_key: float(r.cycles) for r in dataset.training_set().records}
    return trained | {one.record.group_key: one.cycles for one in dataset.held_out()}


def test_correction_from_a_sixth_of_the_candidates_halves_the_error_of_the_rest() -> None:
    rows = machine(np.random.default_rng(1), 300)
    dataset = OnlineDataset(record(i, *row, 8.0, float(i)) for i, row in enumerate(rows))
    truth = {f"group{i}": record(i, *row, 4.8, 0).cycles for i, row in enumerate(rows)}

    def errors() -> float:
        costs = believed(dataset)
        unseen = [k for i, k in enumerate(truth) if i % 6]
        return float(np.mean([abs(costs[k] / truth[k] - 1) for k in unseen]))

    before = errors()
    for i, row in list(enumerate(rows))[::6]:
        dataset.observe(record(i, *row, 4.8, 1000.0))
    assert dataset.incorporate_fresh(1000.0, seed=0) == 50
    assert errors() < before / 2


def test_no_correction_is_fitted_where_all_was_measured_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fits: list[int] = []
    fit = Correction.fit

    def counted(old: Sequence[tuple[Record, float]], *rest: Any) -> Correction:
        fits.append(len(old))
        return fit(old, *rest)

    monkeypatch.setattr(Correction, "fit", counted)
    rows = machine(np.random.default_rng(2), 20)
    dataset = OnlineDataset([record(i, *row, 8.0, float(i)) for i, row in enumerate(rows)])
    for count, again, fitted in ((20, 100.0, []), (19, 200.0, [19])):
        for i, row in enumerate(rows[:count]):
            dataset.observe(record(i, *row, 4.8, again))
        assert dataset.incorporate_fresh(again, seed=0) == count
        assert fits == fitted


def test_what_was_measured_since_is_believed_as_measured() -> None:
    dataset = OnlineDataset([record(0, 10_000, 8, 8.0, 1.0), record(1, 20_000, 8, 8.0, 2.0)])
    dataset.observe(replace(record(0, 10_000, 8, 8.0, 10.0), cycles=15_000))
    dataset.incorporate_fresh(10.0, seed=0)
    assert believed(dataset)["group0"] == 15_000
    assert believed(dataset)["group1"] == pytest.approx(30_000, rel=1e-6)
    assert dataset.training_set().weights == (CORRECTED_WEIGHT, 1.0)


def test_what_can_no_longer_be_predicted_is_forgotten() -> None:
    dataset = OnlineDataset([record(0, 10_000, 8, 8.0, 1.0), record(1, 20_000, 8, 8.0, 1.0)], 5.0)
    dataset.adopt_predictions(lambda r: None if r.group_key == "group0" else 7_000.0)
    assert believed(dataset) == {"group1": 7_000}


def test_noise_is_averaged_with_the_newest_weighing_most() -> None:
    dataset = OnlineDataset([record(0, 10_000, 8, 8.0, 1.0)])
    for at, cycles in enumerate((10_000, 11_000, 12_000), 10):
        dataset.observe(replace(record(0, 0, 0, 8.0, float(at)), cycles=cycles))
    dataset.incorporate_fresh(10.0, seed=0)
    assert 11_000 < believed(dataset)["group0"] < 12_000


def test_without_drift_nothing_else_is_corrected() -> None:
    dataset = OnlineDataset([record(0, 10_000, 8, 8.0, 1.0), record(1, 20_000, 8, 8.0, 1.0)])
    dataset.observe(replace(record(0, 0, 0, 8.0, 5.0), cycles=20_000))
    dataset.incorporate_fresh(None, seed=0)
    assert believed(dataset)["group1"] == 20_000


def test_what_is_older_than_a_retrained_model_is_left_to_the_model() -> None:
    dataset = OnlineDataset([record(0, 10_000, 8, 8.0, 1.0), record(1, 20_000, 8, 8.0, 9.0)], 5.0)
    dataset.adopt_predictions(lambda old: 1.5 * old.cycles)
    assert believed(dataset) == {"group0": 15_000, "group1": 20_000}


def keys(*groups: int) -> set[tuple[str, str]]:
    return {(f"group{index}", "[]") for index in groups}


def test_news_are_new_candidates_and_moved_costs_until_they_are_trained_on() -> None:
    dataset = OnlineDataset([record(0, 10_000, 8, 8.0, 1.0)])
    assert dataset.news(0.01) == set()
    dataset.observe(record(1, 10_000, 8, 8.0, 2.0))
    assert dataset.news(0.01) == keys(1)
    dataset.observe(replace(record(0, 0, 0, 8.0, 3.0), cycles=20_000))
    assert dataset.news(0.01) == dataset.news(0.01) == keys(0, 1)
    dataset.incorporate_fresh(None, seed=0)
    assert dataset.news(0.01) == set()


def test_what_a_model_was_not_trained_on_is_news_to_a_learner_that_follows() -> None:
    records = [record(0, 10_000, 8, 8.0, 1.0), record(1, 10_000, 8, 8.0, 5.0)]
    assert OnlineDataset(records, 0.0, 5.0).news(0.01) == keys(1)
    assert OnlineDataset(records).news(0.01) == set()


@pytest.mark.parametrize(
    ("noise", "moved", "is_news"), [(0.1, 0.0, False), (0.1, 0.2, False), (0.01, 0.2, True)]
)
def test_a_cost_that_moved_less_than_it_scatters_is_no_news(
    noise: float, moved: float, is_news: bool
) -> None:
    rng, dataset = np.random.default_rng(4), OnlineDataset([record(0, 10_000, 8, 8.0, 1.0)])
    for at in range(100):
        cycles = round(10_000 * np.exp(moved + rng.normal(0, noise)))
        dataset.observe(replace(record(0, 0, 0, 8.0, 2.0 + at), cycles=cycles))
    assert bool(dataset.news(0.01)) is is_news


def test_candidates_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(online_dataset, "MOST_CANDIDATES", 5)
    dataset = OnlineDataset([record(i, 10_000, 8, 8.0, float(i)) for i in range(9)])
    assert set(believed(dataset)) == {f"group{i}" for i in range(4, 9)}


def test_failed_measurements_say_nothing_of_cost() -> None:
    failed = replace(record(0, 10_000, 8, 8.0, 1.0), outcome=Outcome.FAILED, reason="no", cycles=0)
    assert len(OnlineDataset([failed])) == 0
