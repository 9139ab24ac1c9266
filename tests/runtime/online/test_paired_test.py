"""The sequential test of live trials: false swaps stay within the stated risk, whatever the noise; real gains are found."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest

from autotune.runtime.online.live_trial import MOST_SERVED, LiveTrial, Scope
from autotune.runtime.online.paired_test import PairedTest, Verdict
from autotune.tuner.contest import LOOKS, RISK

TRIALS = 4000
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


def test_a_version_slower_by_a_third_ends_after_a_few_requests() -> None:
    test = PairedTest()
    for _ in range(4):
        test.add(0.3)
    assert test.verdict is Verdict.WORSE


def test_a_request_is_paired_with_the_one_before_and_the_one_behind_in_turns() -> None:
    trial = LiveTrial([("change", Scope((0,), (0,)))], np.random.default_rng(0))
    for at in range(1, 7):
        for base, is_proposed in ((100, False), (400, True), (200, False), (150, False)):
            trial.note(np.array([base * at]), is_proposed, True)
    trial.evaluate()
    found = np.exp(trial.tests[0][2].ratios)
    np.testing.assert_allclose(found, [4.0, 2.0, 4.0, 2.0])


def test_the_risk_of_a_trial_is_shared_by_its_changes() -> None:
    scope = Scope((0,), (0,))
    trial = LiveTrial([(str(i), scope) for i in range(12)], np.random.default_rng(0))
    for _ in range(LOOKS[0] + 2):
        for took, is_proposed in ((100, False), (90, True), (100, False)):
            trial.note(np.array([took]), is_proposed, True)
    trial.evaluate()
    alone, shared = PairedTest(), PairedTest(RISK / 12)
    for ratio in [-0.1] * 14 + [0.1] * 2:
        alone.add(ratio)
        shared.add(ratio)
    assert alone.verdict is Verdict.BETTER
    assert shared.verdict is Verdict.OPEN
    assert all(test.verdict is Verdict.BETTER for _, _, test in trial.tests)


def test_a_trial_that_nothing_decides_ends() -> None:
    trial = LiveTrial([("change", Scope((0,), (0,)))], np.random.default_rng(0))
    for _ in range(MOST_SERVED):
        for is_proposed in (False, True, False):
            trial.note(np.array([100]), is_proposed, is_alone=False)
        if trial.evaluate():
            break
    assert trial.served == MOST_SERVED
    assert trial.tests[0][2].verdict is Verdict.OPEN
