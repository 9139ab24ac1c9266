"""How often a time is repeated, and what the repeats are summed up to."""

from __future__ import annotations

import numpy as np
import pytest

from autotune.targets.native.sampling import (
    BATCH_LIMIT,
    ENOUGH_NANOSECONDS,
    LEAST_REPEATS,
    MOST_NANOSECONDS,
    Sample,
    batch_of,
    sampled,
)


def constant(nanoseconds: int, batch: int = 1) -> Sample:
    return sampled(lambda: np.full(batch, nanoseconds, np.int64), no_rest)


def no_rest(seconds: float) -> None:
    raise AssertionError(f"rests {seconds} s without need")


@pytest.mark.parametrize(
    ("nanoseconds", "repeats"),
    [
        (1_000, ENOUGH_NANOSECONDS // 1_000),
        (ENOUGH_NANOSECONDS, LEAST_REPEATS),
        (MOST_NANOSECONDS // 2, 2),
        (MOST_NANOSECONDS // 4, 4),
        (10 * MOST_NANOSECONDS, 1),
    ],
)
def test_short_times_are_repeated_until_they_are_enough_and_long_ones_less(
    nanoseconds: int, repeats: int
) -> None:
    assert constant(nanoseconds).nanoseconds.size == repeats


def test_a_clock_that_stands_still_ends_all_the_same() -> None:
    sample = constant(0, batch=ENOUGH_NANOSECONDS // 100)
    assert (sample.median, sample.least, sample.spread_ppm) == (1, 1, 0)


def test_batches_are_short_and_bounded() -> None:
    assert [batch_of(x) for x in (0, 1, 100_000, 500_001)] == [BATCH_LIMIT, BATCH_LIMIT, 5, 1]


def test_times_that_differ_are_repeated_after_a_rest_until_three_agree() -> None:
    times = iter([9e6, 1e6, 5e6, 3e6, 8e6, 7e6, 1.02e6, 4e6, 1.01e6, 6e6])
    rests: list[float] = []
    found = sampled(lambda: np.array([next(times)], np.int64), rests.append)
    assert found.nanoseconds.size == 9
    assert len(rests) == 4
    assert found.least == 1_000_000


def test_times_that_never_agree_end_when_they_took_long_enough() -> None:
    times = (10**6 << k for k in range(30))
    wild = sampled(lambda: np.array([next(times)], np.int64), lambda _: None)
    assert wild.nanoseconds.sum() >= MOST_NANOSECONDS
    assert wild.counters["noisy"] == 1


def test_the_counters_are_median_minimum_and_quartile() -> None:
    found = Sample(np.array([100, 200, 110, 105, 120])).counters
    assert found == {
        "nanoseconds": 110,
        "nanoseconds_min": 100,
        "spread_ppm": 200_000,
        "repeats": 5,
        "noisy": 1,
    }
    assert Sample(np.array([100, 101, 102, 103, 900])).counters["noisy"] == 0
    assert Sample(np.array([100, 100])).counters["noisy"] == 1
