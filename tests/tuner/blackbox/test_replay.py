"""Black-box search of recorded spaces: every configuration once, failures counted, priors only help."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from autotune.errors import InputError
from autotune.targets.recorded_space import RecordedSpace
from autotune.tuner.blackbox.design import initial_design
from autotune.tuner.blackbox.optimiser import FIRST, FIRST_TOLD, Optimiser
from autotune.tuner.blackbox.prior import Prior
from autotune.tuner.blackbox.replay import FROM_PRIOR, search_recorded
from autotune.tuner.blackbox.space import Space

FOLDER = Path(__file__).parents[2] / "targets" / "recorded"
SPACE = RecordedSpace.read(FOLDER / "convolution_A100.json.gz")
TRIED = 50


def gap(space: RecordedSpace, priors: list[RecordedSpace], seeds: range = range(2)) -> float:
    """Mean over seeds and over 10 to 50 evaluations of the best so far above the optimum."""
    worst = float(np.nanmax(space.times))
    curves = []
    for seed in seeds:
        values = search_recorded(space, TRIED, seed, priors).values
        curves.append(np.minimum.accumulate([worst if v is None else v for v in values])[9:])
    return float(np.mean(curves) / np.nanmin(space.times) - 1)


@pytest.fixture(scope="module")
def cold() -> float:
    return gap(SPACE, [], range(6))


def test_it_beats_the_exact_expectation_of_random_draws(cold: float) -> None:
    chance = SPACE.best_of_random(TRIED)[9:].mean() / np.nanmin(SPACE.times) - 1
    assert cold < 0.8 * chance


def test_every_configuration_is_tried_once_and_failures_are_none() -> None:
    few = np.arange(0, len(SPACE), 4)
    values = tuple(SPACE.values[row] for row in few)
    space = replace(SPACE, values=values, times=SPACE.times[few])
    tried = search_recorded(space, len(few), 1).values
    assert tried.count(None) == int((~space.is_valid).sum()) > 0
    valid = [value for value in tried if value is not None]
    assert sorted(valid) == sorted(space.times[space.is_valid].tolist())


def test_a_seed_reproduces_a_search_and_a_shorter_one_is_its_beginning() -> None:
    longer = search_recorded(SPACE, 40, 7)
    assert longer == search_recorded(SPACE, 40, 7)
    assert longer.values[:25] == search_recorded(SPACE, 25, 7).values
    assert longer.values != search_recorded(SPACE, 40, 8).values


def test_both_formats_are_searched_alike() -> None:
    t4 = RecordedSpace.read(FOLDER / "convolution_A100_T4.json.gz")
    assert search_recorded(SPACE, 30, 3) == search_recorded(t4, 30, 3)


def test_the_best_is_the_least_of_the_values_and_its_configuration_has_it() -> None:
    result = search_recorded(SPACE, 30, 0)
    assert result.best == min(value for value in result.values if value is not None)
    assert result.configuration is not None
    row = SPACE.values.index(tuple(result.configuration.values()))
    assert SPACE.times[row] == result.best


def test_a_prior_that_agrees_finds_the_optimum_at_once(cold: float) -> None:
    rng = np.random.default_rng(0)
    alike = replace(SPACE, times=SPACE.times * np.exp(0.1 * rng.standard_normal(len(SPACE))))
    assert gap(SPACE, [alike]) < 0.5 * cold


LIES = ("shuffled", "inverted", "constant", "another kernel")


def lie(sort: str) -> RecordedSpace:
    times = {
        "shuffled": np.random.default_rng(1).permutation(SPACE.times),
        "inverted": 1 / SPACE.times,
        "constant": np.ones(len(SPACE)),
    }
    if sort in times:
        return replace(SPACE, times=times[sort])
    return replace(SPACE, parameters=tuple(f"p{i}" for i in range(10)))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("sort", LIES)
@threadpool_limits.wrap(1)
def test_a_prior_that_lies_costs_its_first_configurations_and_nothing_else(
    sort: str, seed: int
) -> None:
    prior = Prior.of(SPACE, [lie(sort)])
    space = Space.of(SPACE.parameters, SPACE.values, prior.scores)
    lied_to = Optimiser(space, seed, prior.portfolio(FROM_PRIOR), prior.failures)
    cold = Optimiser(Space.of(SPACE.parameters, SPACE.values), seed)
    count = FIRST_TOLD if lied_to.first else FIRST
    design = initial_design(space, count, np.random.default_rng(seed))
    spent = len({*lied_to.first, *design})
    for count in range(spent + 8):
        row = lied_to.ask()
        if count >= spent:
            assert row == cold.ask()
        value = float(SPACE.times[row]) if SPACE.is_valid[row] else None
        lied_to.tell(row, value)
        cold.tell(row, value)
    assert set(cold.rows[:spent]) == {*lied_to.first, *design}


@pytest.mark.parametrize("evaluations", (0, len(SPACE) + 1))
def test_numbers_that_the_space_does_not_have_are_refused(evaluations: int) -> None:
    with pytest.raises(InputError, match=f"choose 1 to {len(SPACE)}"):
        search_recorded(SPACE, evaluations, 0)


def test_spaces_of_nothing_but_failures_texts_or_constants_are_searched() -> None:
    rng = np.random.default_rng(2)
    count = 30
    values = tuple(("ab"[i % 2], i // 2, "x") for i in range(count))
    times = rng.uniform(1, 2, count)
    times[5:] = np.nan
    space = RecordedSpace("s", ("a", "b", "c"), values, times, 1.0, ("",) * count)
    assert len(search_recorded(space, count, 0).values) == count
    one = RecordedSpace("s", ("a",), ((1,),), np.ones(1), 1.0, ("",))
    assert search_recorded(one, 1, 0).values == (1.0,)
    equal = replace(space, times=np.ones(count))
    assert search_recorded(equal, count, 0).values == (1.0,) * count
