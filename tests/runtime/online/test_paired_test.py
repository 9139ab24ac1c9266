"""The sequential test of live trials: false swaps stay within the stated risk, whatever the noise; real gains are found."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest

from autotune.runtime.online.bursts import BurstShape
from autotune.runtime.online.compared_runs import Scope
from autotune.runtime.online.live_trial import LiveTrial
from autotune.runtime.online.paired_test import HOPELESS_LOOK, PairedTest, Verdict
from autotune.runtime.online.trial_budget import TrialBudget
from autotune.tuner.contest import LOOKS, RISK

TRIALS = 4000
ONE = BurstShape(1, 1)
Floats = npt.NDArray[np.float64]
Noise = Callable[[np.random.Generator, tuple[int, ...]], Floats]
"""Times of two requests in a row, [..., 2]."""


def normal(rng: np.random.Generator, shape: tuple[int, ...]) -> Floats:
    """Noise of 5 %."""
    return np.exp(0.05 * rng.standard_normal(shape))


def outliers(rng: np.random.Generator, shape: tuple[int, ...]) -> Floats:
    """One request in twenty takes three times as long."""
    return normal(rng, shape) * np.where(rng.random(shape) < 0.05, 3.0, 1.0)


def long_tail(rng: np.random.Generator, shape: tuple[int, ...]) -> Floats:
    """An exponential wait."""
    return 1.0 + 0.3 * rng.exponential(size=shape)


def two_modes(rng: np.random.Generator, shape: tuple[int, ...]) -> Floats:
    """Three requests in ten find cold caches."""
    return np.exp(0.01 * rng.standard_normal(shape)) * np.where(rng.random(shape) < 0.3, 1.3, 1.0)


def two_callers(rng: np.random.Generator, shape: tuple[int, ...]) -> Floats:
    """Every other request is slower."""
    odd = (rng.integers(0, 2, shape[:-1])[..., None] + np.arange(2)) % 2
    return np.exp(0.02 * rng.standard_normal(shape)) * np.where(odd, 1.2, 1.0)


def slow_spells(rng: np.random.Generator, shape: tuple[int, ...]) -> Floats:
    """The machine is slower for a while; a spell may begin or end between the two."""
    spell = np.where(rng.random((*shape[:-1], 1)) < 0.3, 1.5, 1.0)
    ends = (rng.random(shape) < 0.1).any(axis=-1, keepdims=True) & (rng.random(shape) < 0.5)
    return np.exp(0.02 * rng.standard_normal(shape)) * np.where(ends, 1.0, spell)


NOISES = (normal, outliers, long_tail, two_modes, two_callers, slow_spells)


def share_adopted(noise: Noise, gain: float, trials: int = TRIALS, risk: float = RISK) -> float:
    """Return the share of trials that find a version better which saves ``gain``."""
    times = noise(np.random.default_rng(0), (trials, LOOKS[-1], 2))
    ratios = np.log(times[..., 0] * (1.0 - gain)) - np.log(times[..., 1])
    return sum(decided(row, risk) is Verdict.BETTER for row in ratios.tolist()) / trials


def decided(ratios: list[float], risk: float = RISK) -> Verdict:
    test = PairedTest(risk)
    for ratio in ratios:
        test.add(ratio)
        if test.verdict is not Verdict.OPEN:
            break
    return test.verdict


@pytest.mark.parametrize("noise", NOISES)
def test_equal_versions_are_swapped_no_more_often_than_the_risk(noise: Noise) -> None:
    assert share_adopted(noise, 0.0) <= RISK


@pytest.mark.parametrize("noise", NOISES)
def test_slower_versions_are_practically_never_swapped_in(noise: Noise) -> None:
    assert share_adopted(noise, -0.02) <= RISK / 2


@pytest.mark.parametrize("noise", [normal, outliers, two_modes, slow_spells])
def test_versions_faster_by_a_twentieth_are_found(noise: Noise) -> None:
    assert share_adopted(noise, 0.05, 500) >= 0.9
    assert share_adopted(noise, 0.05, 500, RISK / 12) >= 0.8


def test_a_version_that_hardly_ever_wins_ends_before_the_first_look() -> None:
    test = PairedTest()
    for ratio in [-0.05, -0.05] + [0.03] * 6:
        assert test.verdict is Verdict.OPEN
        test.add(ratio)
    assert test.verdict is Verdict.NO_BETTER
    assert len(test.ratios) == HOPELESS_LOOK < LOOKS[0]


def test_a_version_slower_by_a_third_ends_after_a_few_requests() -> None:
    test = PairedTest()
    for _ in range(4):
        test.add(0.3)
    assert test.verdict is Verdict.WORSE


def trial(*changes: str, shape: BurstShape = ONE) -> LiveTrial[str]:
    scopes = [(change, Scope((0,), (0,))) for change in changes]
    return LiveTrial(scopes, shape, np.random.default_rng(0), TrialBudget())


def serve(tried: LiveTrial[str], burst: int, *times: int) -> None:
    """Note a run before, those of a burst, and two behind."""
    before, *own, cold, behind = times
    for took, at in ((before, None), *((x, burst) for x in own), (cold, None), (behind, None)):
        tried.note(np.array([took]), at)


def test_a_burst_is_compared_with_the_runs_behind_it() -> None:
    tried = trial("change")
    for at in range(1, 5):
        serve(tried, at, 100 * at, 9999 * at, 400 * at, 9999 * at, 200 * at)
    tried.evaluate()
    np.testing.assert_allclose(np.exp(tried.tests[0][2].ratios), [2.0] * 4)


def test_a_burst_is_one_pair_of_medians_whose_cold_runs_count_nothing() -> None:
    tried = trial("change", shape=BurstShape(2, 3))
    for took in (50, 60, 70):
        tried.note(np.array([took]), None)
    for took in (9999, 9999, 190, 200, 777):
        tried.note(np.array([took]), 0)
    for took in (9999, 9999, 90, 100, 110):
        tried.note(np.array([took]), None)
    tried.evaluate()
    np.testing.assert_allclose(np.exp(tried.tests[0][2].ratios), [2.0])


def test_both_sides_of_a_burst_that_lost_runs_count_equally_many() -> None:
    for lost, ratios in ((0, [3.0]), (1, [2.0]), (2, [2.0]), (3, [])):
        tried = trial("change", shape=BurstShape(1, 3))
        times = (100, 100, 100), (9999, 200, 300, 300), (100, 100, 100, 100)
        for took, burst in zip(times, (None, 0, None), strict=True):
            for one in took[: len(took) - lost] if burst == 0 else took:
                tried.note(np.array([one]), burst)
        tried.evaluate()
        np.testing.assert_allclose(np.exp(tried.tests[0][2].ratios), ratios)


def test_the_risk_of_a_trial_is_shared_by_its_changes() -> None:
    tried = trial(*map(str, range(12)))
    for burst in range(LOOKS[0]):
        serve(tried, burst, 100, 90, 90, 100, 100)
    tried.evaluate()
    alone, shared = PairedTest(), PairedTest(RISK / 12)
    for ratio in [-0.1] * 14 + [0.1] * 2:
        alone.add(ratio)
        shared.add(ratio)
    assert alone.verdict is Verdict.BETTER
    assert shared.verdict is Verdict.OPEN
    assert all(test.verdict is Verdict.BETTER for _, _, test in tried.tests)


def test_a_trial_that_nothing_decides_ends() -> None:
    tried = trial("change")
    for burst in itertools.count():
        took = (
            90 if burst % 8 < 5 else 110
        )  # faster more often than not, and never beyond the noise
        serve(tried, burst, 100, took, took, 100, 100)
        if tried.evaluate():
            break
    assert tried.bursts == LOOKS[-1]
    assert tried.tests[0][2].verdict is Verdict.NO_BETTER
