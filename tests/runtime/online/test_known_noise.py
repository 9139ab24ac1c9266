"""Decisions by the size of a difference: false swaps within the risk, and few pairs where a gain is clear."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from scipy import stats

from autotune.runtime.online.known_noise import EARLY_LOOKS, Noise, exceeds, noise_of
from autotune.runtime.online.pace import COUNTED
from autotune.runtime.online.paired_test import PairedTest, Verdict
from autotune.tuner.contest import LOOKS, MARGIN, RISK

NOISES = (0.003, 0.01, 0.03)
Runs = npt.NDArray[np.int64]


def drawn(rng: np.random.Generator, count: int, steps: int, noise: float) -> Runs:
    """Nanoseconds [count, steps] of a millisecond on a machine whose steps have each a noise of their own."""
    factor = np.exp(noise * rng.standard_normal((count, steps)))
    return np.rint(factor * 1e6 / steps).astype(np.int64)


def tried(
    rng: np.random.Generator,
    gain: float,
    noise: float,
    *,
    proposed: float | None = None,
    later: float | None = None,
    steps: int = 1,
    risk: float = RISK,
) -> PairedTest:
    """A trial of a version of one step that saves ``gain``: with another noise if ``proposed``, on a machine with another one
    once the trial has begun if ``later``."""
    known = drawn(rng, COUNTED.window_runs, steps, noise)
    current = drawn(rng, LOOKS[-1], steps, later or noise)
    own = drawn(rng, LOOKS[-1], 1, proposed or later or noise)
    ratios = np.log(own.sum(axis=1) * (1.0 - gain) / current.sum(axis=1))
    test = PairedTest(risk, by_size=True)
    for pair, ratio in enumerate(ratios.tolist(), 1):
        rows = np.vstack([known, current[:pair]])
        noisy = noise_of(rows, range(steps), len(known) - 1) if pair <= EARLY_LOOKS[-1] else None
        test.add(ratio, noisy)
        if test.verdict is not Verdict.OPEN:
            break
    return test


def share_adopted(trials: int, gain: float, noise: float, seed: int = 0, **how: float) -> float:
    rng = np.random.default_rng(seed)
    tests = (tried(rng, gain, noise, **how) for _ in range(trials))
    return sum(test.verdict is Verdict.BETTER for test in tests) / trials


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("gain", [0.0, MARGIN])
def test_equal_versions_are_swapped_no_more_often_than_the_risk(noise: float, gain: float) -> None:
    assert share_adopted(2000, gain, noise) <= RISK


@pytest.mark.parametrize("how", [{"steps": 3}, {"proposed": 0.02}, {"later": 0.03}])
def test_another_noise_than_the_known_one_keeps_the_risk(how: dict[str, float]) -> None:
    assert share_adopted(2000, MARGIN, 0.01, **how) <= RISK


@pytest.mark.parametrize(
    "noise, gain, most",
    [(0.003, 0.03, 2), (0.01, 0.1, 2), (0.01, 0.05, 4), (0.01, 0.03, 12), (0.03, 0.1, 8)],
)
def test_a_clear_gain_takes_few_pairs(noise: float, gain: float, most: int) -> None:
    rng = np.random.default_rng(1)
    tests = [tried(rng, gain, noise) for _ in range(200)]
    assert sum(test.verdict is Verdict.BETTER for test in tests) >= 190
    assert np.median([len(test.ratios) for test in tests]) <= most


def test_equal_pairs_decide_whatever_was_known_and_signs_alone_do_not() -> None:
    stale = Noise(0.1, 7)
    for ratio, verdict in ((-0.1, Verdict.BETTER), (0.0, Verdict.NO_BETTER), (0.3, Verdict.WORSE)):
        test, here = PairedTest(by_size=True), PairedTest()
        for _ in range(2):
            assert test.verdict is Verdict.OPEN
            test.add(ratio, stale)
            here.add(ratio)
        assert test.verdict is verdict
        assert here.verdict is Verdict.OPEN


def test_pairs_that_scatter_more_than_the_noise_explains_decide_nothing() -> None:
    known = Noise(1e-6, 15)
    assert exceeds([0.3, 0.3 + 1e-3], known, RISK)
    assert not exceeds([0.3, 0.5], known, RISK)


def test_bounds_are_those_of_students_t() -> None:
    known = Noise(0.5e-4, 7)  # a pair has a standard deviation of 1 %
    bound = stats.t.ppf(1 - RISK / len(EARLY_LOOKS), 7) * 0.01 / np.sqrt(4)
    near = np.array([-0.01, 0.01, -0.005, 0.005])
    assert exceeds((near + 1.001 * bound).tolist(), known, RISK)
    assert not exceeds((near + 0.999 * bound).tolist(), known, RISK)


def test_the_noise_of_steps_is_that_of_the_noisiest_form_they_may_take() -> None:
    rng = np.random.default_rng(0)
    runs = drawn(rng, 4000, 4, 0.01)
    found = noise_of(runs, range(4), 7)
    assert found is not None and found.freedom == 7
    assert found.variance == pytest.approx(1e-4, rel=0.05)  # one step's, not the sum's quarter
    common = np.rint(runs[:, :1] * np.ones(4)).astype(np.int64)
    together = noise_of(common, range(4), 7)
    assert together is not None and together.variance == pytest.approx(1e-4, rel=0.05)
    assert noise_of(runs[:3], range(4), 7) is None
