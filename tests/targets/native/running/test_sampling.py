"""How often a time is repeated, and what the repeats are summed up to."""

from __future__ import annotations

import numpy as np
import pytest

from autotune.targets.native.running.sampling import (
    BATCH_LIMIT,
    MOST_NANOSECONDS,
    MOST_VISITS,
    REST_SECONDS,
    SETTLED_VISITS,
    VISIT_NANOSECONDS,
    VISIT_REPEATS,
    Sample,
    Sampling,
    batch_of,
    sampled,
)


def constant(nanoseconds: int, batch: int = 1) -> Sample:
    return sampled(lambda: np.full(batch, nanoseconds, np.int64), lambda _: None)


@pytest.mark.parametrize(
    ("nanoseconds", "repeats"),
    [
        (1_000, SETTLED_VISITS * VISIT_NANOSECONDS // 1_000),
        (VISIT_NANOSECONDS, SETTLED_VISITS * VISIT_REPEATS),
        (MOST_NANOSECONDS // 3 + 1, 3),
        (MOST_NANOSECONDS // 2, 2 + 1),
        (10 * MOST_NANOSECONDS, 1 + 1),
    ],
)
def test_short_times_are_repeated_until_they_are_enough_and_long_ones_less(
    nanoseconds: int, repeats: int
) -> None:
    assert constant(nanoseconds).nanoseconds.size == repeats


@pytest.mark.parametrize("milliseconds", [1, 12, 13, 17, 25, 30, 34, 50, 99, 100, 300, 5000])
def test_a_constant_clock_is_never_noisy_and_a_wild_one_always(milliseconds: int) -> None:
    assert constant(milliseconds * 10**6).counters["noisy"] == 0
    wild = (milliseconds * 10**6 << k for k in range(30))
    found = sampled(lambda: np.array([next(wild)], np.int64), lambda _: None)
    assert found.counters["noisy"] == 1


def test_a_clock_that_stands_still_ends_all_the_same() -> None:
    sample = constant(0, batch=VISIT_NANOSECONDS // 100)
    assert (sample.median, sample.least, sample.spread_ppm) == (1, 1, 0)


def test_batches_are_short_and_bounded() -> None:
    assert [batch_of(x) for x in (0, 1, 100_000, 500_001)] == [BATCH_LIMIT, BATCH_LIMIT, 5, 1]


def visits_of(*nanoseconds: float) -> Sampling:
    """A sampling whose visits take two repeats each of so long, at least 1 ms."""
    times = iter(np.repeat(np.array(nanoseconds, np.int64), VISIT_REPEATS))
    return Sampling(lambda: np.array([next(times)], np.int64))


def test_visits_go_on_until_the_fastest_four_agree() -> None:
    sampling = visits_of(9e6, 1e6, 5e6, 1.04e6, 8e6, 1.01e6, 1.06e6, 1.03e6, 1e6)
    found = [sampling.visit() for _ in range(8)]
    assert found[:7] == [None] * 7
    assert found[7] is not None
    assert found[7].least == 1_000_000
    assert found[7].settled
    assert found[7].nanoseconds.size == 8 * VISIT_REPEATS


def test_a_visit_is_as_fast_as_its_fastest_repeat() -> None:
    times = iter([5e6, 1e6, 1e6, 7e6, 1e6, 1e6, 2e6, 1e6])
    found = sampled(lambda: np.array([next(times)], np.int64), lambda _: None)
    assert found.visits == (1_000_000,) * 4


def test_repeats_without_pause_that_agree_are_not_enough() -> None:
    """As when another program has a core for the time of a visit."""
    sampling = visits_of(2e6, 1e6, 1e6, 1e6, 1e6)
    assert [sampling.visit() is None for _ in range(5)] == [True, True, True, True, False]


def test_one_rests_between_visits() -> None:
    rests: list[float] = []
    sampled(lambda: np.full(1, 3_000_000, np.int64), rests.append)
    assert rests == [REST_SECONDS] * (SETTLED_VISITS - 1)


def test_times_that_never_agree_end_when_they_were_often_or_took_long_enough() -> None:
    short = (10**6 + 2 * 10**5 * k for k in range(200))
    often = sampled(lambda: np.full(1, next(short), np.int64), lambda _: None)
    assert len(often.visits) == MOST_VISITS
    long = (10**6 << k for k in range(30))
    wild = sampled(lambda: np.array([next(long)], np.int64), lambda _: None)
    assert wild.nanoseconds.sum() >= MOST_NANOSECONDS
    assert often.counters["noisy"] == wild.counters["noisy"] == 1


def test_the_counters_are_median_minimum_and_quartile() -> None:
    found = Sample(np.array([100, 200, 110, 105, 120]), (110, 100, 120, 200)).counters
    assert found == {
        "nanoseconds": 110,
        "nanoseconds_min": 100,
        "spread_ppm": 200_000,
        "repeats": 5,
        "noisy": 1,
    }


@pytest.mark.parametrize(
    ("visits", "settled", "noisy"),
    [
        ((100, 101, 104, 103), True, 0),
        ((100, 200, 104, 105, 900, 103), True, 0),
        ((100, 101, 104, 106), False, 0),
        ((100, 101, 104, 129), False, 0),
        ((100, 101, 104, 131), False, 1),
        ((100, 200, 106), False, 1),
        ((100, 129, 106), False, 0),
        ((100, 129), False, 0),
        ((100, 131), False, 1),
        ((100,), False, 1),
    ],
)
def test_a_sample_is_noisy_when_its_visits_are_far_from_agreeing(
    visits: tuple[int, ...], settled: bool, noisy: int
) -> None:
    sample = Sample(np.array(visits), visits)
    assert (sample.settled, sample.counters["noisy"]) == (settled, noisy)
