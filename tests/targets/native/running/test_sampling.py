"""How often a time is repeated, and what the repeats are summed up to."""

from __future__ import annotations

import numpy as np
import pytest

from autotune.targets.native.running.sampling import (
    BATCH_LIMIT,
    BATCH_NANOSECONDS,
    CALM,
    LEAST_VISITS,
    MOST_NANOSECONDS,
    MOST_VISITS,
    REST_SECONDS,
    RESTLESS_PPM,
    SETTLED_VISITS,
    VISIT_NANOSECONDS,
    VISIT_REPEATS,
    Reading,
    Sample,
    Sampling,
    Visit,
    batch_of,
    quantile,
    sampled,
)


def constant(nanoseconds: int, batch: int = 1) -> Sample:
    return sampled(lambda: np.full(batch, nanoseconds, np.int64), lambda _: None)


def sample_of(*leasts: int, crowding: float = 1.0, distance: float = 1.0) -> Sample:
    return Sample(tuple(Visit(np.array([least]), 1.0, crowding, distance) for least in leasts))


@pytest.mark.parametrize(
    ("nanoseconds", "repeats"),
    [
        (1_000, SETTLED_VISITS * VISIT_NANOSECONDS // 1_000),
        (VISIT_NANOSECONDS, SETTLED_VISITS * VISIT_REPEATS),
        (MOST_NANOSECONDS // 3 + 1, 4),
        (10 * MOST_NANOSECONDS, LEAST_VISITS),
    ],
)
def test_short_times_are_repeated_until_they_are_enough_and_long_ones_less(
    nanoseconds: int, repeats: int
) -> None:
    sample = constant(nanoseconds)
    assert sum(visit.nanoseconds.size for visit in sample.visits) == repeats


@pytest.mark.parametrize("milliseconds", [1, 12, 13, 17, 25, 30, 34, 50, 99, 100, 300, 5000])
def test_a_constant_clock_is_never_noisy_and_a_wild_one_always(milliseconds: int) -> None:
    assert constant(milliseconds * 10**6).counters["noisy"] == 0
    wild = (milliseconds * 10**6 << k for k in range(30))
    found = sampled(lambda: np.array([next(wild)], np.int64), lambda _: None)
    assert found.counters["noisy"] == 1


def test_a_clock_that_stands_still_ends_all_the_same() -> None:
    sample = constant(0, batch=VISIT_NANOSECONDS // 100)
    assert (sample.nanoseconds, sample.least, sample.spread_ppm) == (1, 1, 0)


def test_batches_are_short_and_bounded() -> None:
    fifth = BATCH_NANOSECONDS // 5
    found = [batch_of(x) for x in (0, 1, fifth, BATCH_NANOSECONDS + 1)]
    assert found == [BATCH_LIMIT, BATCH_LIMIT, 5, 1]


def test_a_visit_is_as_fast_as_its_fastest_repeat() -> None:
    times = iter([7e6, 1e6, 1e6, 7e6] * SETTLED_VISITS)
    found = sampled(lambda: np.array([next(times)], np.int64), lambda _: None)
    assert [visit.least for visit in found.visits] == [1_000_000] * SETTLED_VISITS


def test_the_time_is_the_lower_quartile_of_visits() -> None:
    assert sample_of(*range(100, 109)).nanoseconds == 102
    assert sample_of(50, *[100] * 8).nanoseconds == 100, "one lucky visit changes nothing"


def test_visits_in_a_slow_spell_do_not_count() -> None:
    calm, slow = sample_of(100, 101, 102), sample_of(*[180] * 9, crowding=1.8)
    both = Sample((*slow.visits, *calm.visits))
    assert both.calm == calm.visits
    assert both.nanoseconds == calm.nanoseconds
    assert not both.settled, "three visits are too few"


def test_visits_while_cores_are_far_from_each_other_do_not_count() -> None:
    near, far = sample_of(100, 101, 102), sample_of(*[190] * 9, distance=4.5)
    both = Sample((*far.visits, *near.visits))
    assert both.calm == near.visits
    assert both.counters["distance_ppm"] == 1_000_000
    assert not far.settled


@pytest.mark.parametrize("calm", range(LEAST_VISITS + 1))
def test_a_time_of_too_few_calm_visits_is_not_trusted_though_they_agree(calm: int) -> None:
    distances = [1.0] * calm + [4.5] * 9
    visits = tuple(Visit(np.array([100]), 1.0, 1.0, distance) for distance in distances)
    assert Sample(visits).error_ppm == (0 if calm == LEAST_VISITS else RESTLESS_PPM)


def test_without_calm_visits_the_calmest_count() -> None:
    visits = [Visit(np.array([round(100 * s)]), 1.0, s) for s in (2.0, 1.5, 1.6, 3.0, 1.4)]
    assert min(visit.crowding for visit in visits) > CALM
    sample = Sample(tuple(visits))
    assert [visit.crowding for visit in sample.calm] == [1.4, 1.5, 1.6]
    assert sample.counters["crowding_ppm"] == 1_500_000


def test_a_visit_is_as_crowded_as_its_worse_end_and_has_the_mean_clock() -> None:
    ends = ((1.0, 1.0, 4.0), (1.1, 2.0, 1.0), (0.9, 3.0, 1.0), (0.9, 1.0, 1.5))
    readings = iter([Reading(*end) for end in ends])
    sampling = Sampling(lambda: np.full(2, 10**6), read=lambda: next(readings))
    sampling.visit()
    sampling.visit()
    found = [(v.clock, v.crowding, v.distance) for v in sampling._visits]
    assert found == [(1.05, 2.0, 4.0), (0.9, 3.0, 1.5)]


def test_times_are_those_at_the_usual_clock() -> None:
    visits = [Visit(np.array([round(1000 / clock)]), clock) for clock in (0.8, 1.0, 1.25)]
    assert [visit.least for visit in visits] == [1000] * 3
    assert Sample(tuple(visits)).error_ppm == 0


def test_every_visit_begins_anew() -> None:
    begun: list[int] = []
    sampling = Sampling(lambda: np.full(2, 10**6), lambda: begun.append(1))
    while sampling.visit() is None:
        pass
    assert len(begun) == SETTLED_VISITS


def test_visits_go_on_until_the_quartile_is_sure() -> None:
    times = iter(np.repeat([10**6, 2 * 10**6] * 5 + [10**6] * 60, VISIT_REPEATS))
    sampling = Sampling(lambda: np.array([next(times)], np.int64))
    found = [sampling.visit() for _ in range(3 * SETTLED_VISITS)]
    assert found[: SETTLED_VISITS + 1] == [None] * (SETTLED_VISITS + 1)
    sure = next(sample for sample in found if sample is not None)
    assert sure.settled and sure.nanoseconds == 10**6


@pytest.mark.parametrize("count", [1, 2, 3, 10, 24])
@pytest.mark.parametrize("share", [0.0, 0.25, 0.75, 1.0])
def test_quantiles_are_those_of_numpy(count: int, share: float) -> None:
    values = np.random.default_rng(count).integers(1, 100, count).tolist()
    assert quantile(values, share) == pytest.approx(float(np.quantile(values, share)))


def test_one_rests_between_visits() -> None:
    rests: list[float] = []
    sampled(lambda: np.full(1, 3_000_000, np.int64), rests.append)
    assert rests == [REST_SECONDS] * (SETTLED_VISITS - 1)


def test_times_that_never_agree_end_when_they_were_often_or_took_long_enough() -> None:
    short = (5 * 10**5 + 2 * 10**4 * k for k in range(200))
    often = sampled(lambda: np.full(1, next(short), np.int64), lambda _: None)
    assert len(often.visits) == MOST_VISITS
    long = (10**6 << k for k in range(30))
    wild = sampled(lambda: np.array([next(long)], np.int64), lambda _: None)
    assert sum(visit.nanoseconds.sum() for visit in wild.visits) >= MOST_NANOSECONDS
    assert often.counters["noisy"] == wild.counters["noisy"] == 1


def test_the_counters_are_quartile_minimum_and_errors() -> None:
    found = sample_of(120, 100, 110, 130, 140).counters
    assert found == {
        "nanoseconds": 110,
        "nanoseconds_min": 100,
        "spread_ppm": 181_818,
        "error_ppm": round(1e6 * 1.36 / 1.349 * 20 / 5**0.5 / 110),
        "clock_ppm": 1_000_000,
        "crowding_ppm": 1_000_000,
        "distance_ppm": 1_000_000,
        "visits": 5,
        "repeats": 5,
        "hot": 1,
        "noisy": 1,
    }


@pytest.mark.parametrize(
    ("visits", "noisy"),
    [
        ((100,), 1),
        ((100, 100), 1),
        ((100, 102, 104), 0),
        ((100, 102, 110), 1),
        ((100, 102, 104, 106), 0),
        ((100, 102, 104, 190), 1),
        ((100, 102, 104, 106, 108, 190), 0),
    ],
)
def test_a_sample_is_noisy_when_its_quartile_is_unsure(visits: tuple[int, ...], noisy: int) -> None:
    assert sample_of(*visits).counters["noisy"] == noisy
