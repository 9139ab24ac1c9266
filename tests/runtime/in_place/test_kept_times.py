"""Kept times are bounded, and no group with many schedules takes the place of others."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from autotune.runtime.in_place import kept_times
from autotune.runtime.in_place.kept_times import KeptTimes
from autotune.schedule.schedule import Schedule
from autotune.store.records import Record
from tests.cost_model.measured import SPEC, drawn, observations
from tests.fusion.narrow_product import product
from tests.schedule.drawn_schedules import random_schedule


@pytest.fixture
def record() -> Record:
    return next(observations(1, 1))


def timed(record: Record, count: int) -> Iterator[Record]:
    """Records of one group by ``count`` schedules, which differ in their text alone; the first is the fastest."""
    for i in range(count):
        yield replace(record, schedule_json=record.schedule_json + " " * i, cycles=1000 + i)


def test_the_slowest_schedules_of_a_group_go_first(
    record: Record, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_times, "MOST_SCHEDULES", 8)
    kept = KeptTimes([*timed(record, 500)][::-1])
    assert list(kept._cycles[record.group_key].values()) == [*range(1007, 999, -1)]


def test_the_newest_time_of_a_schedule_counts_at_the_bound(
    record: Record, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_times, "MOST_SCHEDULES", 2)
    first, second = timed(record, 2)
    kept = KeptTimes([first, second, replace(first, cycles=5000)])
    assert kept._cycles[record.group_key] == {
        first.schedule_json: 5000,
        second.schedule_json: 1001,
    }


def test_groups_are_bounded_too_and_the_one_measured_longest_ago_goes(
    record: Record, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_times, "MOST_GROUPS", 3)
    groups = [replace(record, group_key=name) for name in ("a", "b", "c", "a", "d")]
    assert list(KeptTimes(groups)._cycles) == ["c", "a", "d"]


def test_the_best_schedule_and_the_faster_ones_survive_the_bound(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(kept_times, "MOST_SCHEDULES", 4)
    rng = np.random.default_rng(0)
    record = next(observations(1, 1))
    group, nests, first = drawn(rng)
    others = [random_schedule(nests, SPEC.capacity, SPEC.cores, rng) for _ in range(40)]
    schedules = [*dict.fromkeys(one for one in (first, *others) if one is not None)]
    assert len(schedules) > 6
    records = [
        replace(record, group_key=group.key, schedule_json=one.to_json(), cycles=900 - i)
        for i, one in enumerate(schedules)
    ]
    kept = KeptTimes(records)
    current: Schedule = schedules[-4]
    assert kept.best(group) == schedules[-1]
    assert list(kept.faster(group, current)) == [schedules[-1], schedules[-2], schedules[-3]]


def test_times_of_an_int8_group_hold_for_other_zero_points(record: Record) -> None:
    first, second = product(5), product(-9)
    stored = first.canonical.to_json()
    kept = KeptTimes(timed(replace(record, group_key=first.key, group_json=stored), 2))
    assert first.key != second.key
    assert kept.best(second) == kept.best(first) == Schedule.from_json(record.schedule_json)
    assert kept.best(product(0)) is None, "code may do without this zero point"
