"""A model takes the place of the one before only if it errs no more on candidates that neither was fitted on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from autotune.cost_model.replay_set import (
    HELD_OUT,
    REPLAYED,
    Replayed,
    is_held_out,
    judge,
    replay_set,
)
from autotune.runtime.online.online_dataset import OnlineDataset
from autotune.store.records import Record
from tests.runtime.online.test_online_dataset import record


def replayed(group: str, cycles: float, *, is_fresh: bool, at_seconds: float = 1.0) -> Replayed:
    one = replace(record(0, 1000, 8, 8.0, at_seconds), group_key=group)
    return Replayed(one, cycles, is_fresh)


def by_schedule(index: int, *, is_fresh: bool, at_seconds: float = 1.0) -> Replayed:
    """A candidate of one common group, by a schedule of its own."""
    one = replayed("common", 1.0, is_fresh=is_fresh, at_seconds=at_seconds)
    return replace(one, record=replace(one.record, schedule_json=f"[{index}]"))


def test_about_one_candidate_of_six_is_held_out_and_none_is_trained_on() -> None:
    dataset = OnlineDataset([record(i, 1000 + i, 8, 8.0, float(i)) for i in range(600)])
    trained = {r.group_key for r in dataset.training_set().records}
    held_out = {one.record.group_key for one in dataset.held_out()}
    assert trained.isdisjoint(held_out)
    assert len(trained) + len(held_out) == 600
    assert len(held_out) == pytest.approx(600 / HELD_OUT, rel=0.3)
    assert all(is_held_out((key, "[]")) for key in held_out)


def test_groups_take_turns_and_fresh_ones_come_first_within_the_bound() -> None:
    many = [by_schedule(i, is_fresh=False, at_seconds=float(i)) for i in range(500)]
    fresh = replayed("common", 2.0, is_fresh=True, at_seconds=0.5)
    chosen = replay_set([*many, fresh, replayed("rare", 3.0, is_fresh=False)])
    assert len(chosen) == REPLAYED
    assert [one.cycles for one in chosen[:2]] == [2.0, 3.0]


def test_a_candidate_measured_often_counts_once_by_its_freshest_measurement() -> None:
    again = [replayed("often", 1.0 + i, is_fresh=i > 5, at_seconds=float(i)) for i in range(50)]
    schedules = [
        replace(one, record=replace(one.record, group_key="often"), cycles=100.0 + i)
        for i, one in enumerate(
            by_schedule(i, is_fresh=False, at_seconds=i + 0.5) for i in range(3)
        )
    ]
    chosen = replay_set([*again, *schedules, replayed("rare", 3.0, is_fresh=False)])
    assert [one.cycles for one in chosen] == [50.0, 3.0, 102.0, 101.0, 100.0]
    keys = [(one.record.group_key, one.record.schedule_json) for one in chosen]
    assert len(set(keys)) == len(keys)


def test_many_schedules_of_a_group_leave_room_for_every_other() -> None:
    common = [by_schedule(i, is_fresh=True) for i in range(10 * REPLAYED)]
    others = [replayed(f"g{i}", 2.0, is_fresh=False) for i in range(REPLAYED - 10)]
    chosen = replay_set([*common, *others])
    assert len(chosen) == REPLAYED
    assert {one.record.group_key for one in chosen} == {"common", *(f"g{i}" for i in range(54))}


def test_the_larger_mean_error_is_worse() -> None:
    truth = [replayed(str(i), 100.0, is_fresh=True) for i in range(10)]

    def predicts(cycles: float | None) -> Callable[[Record], float | None]:
        return lambda record: cycles

    better = judge(truth, predicts(120.0), predicts(110.0))
    worse = judge(truth, predicts(110.0), predicts(80.0))
    assert better is not None and not better.is_worse
    assert worse is not None and worse.is_worse and worse.count == 10
    assert judge(truth, predicts(100.0), predicts(None)) is None
    assert judge(truth[:3], predicts(100.0), predicts(100.0)) is None


def test_records_that_no_model_predicts_judge_none() -> None:
    def only_first(one: Record) -> float | None:
        return 100.0 if int(one.group_key) < 3 else None

    truth = [replayed(str(i), 100.0, is_fresh=True) for i in range(10)]
    assert judge(truth, only_first, only_first) is None
