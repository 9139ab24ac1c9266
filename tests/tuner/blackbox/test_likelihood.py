"""The surrogate's mathematics: gradients equal differences, and one observation more equals a new fit."""

from __future__ import annotations

import numpy as np

from autotune.tuner.blackbox.kernel import Covariance, Hyperparameters
from autotune.tuner.blackbox.likelihood import Likelihood, Sample
from autotune.tuner.blackbox.posterior import Posterior
from autotune.tuner.blackbox.space import Space

RNG = np.random.default_rng(0)
VALUES = [(x, 2**y, mode) for x in range(1, 9) for y in range(4) for mode in ("a", "b", "c")]
SPACE = Space.of(("x", "y", "mode"), VALUES, RNG.standard_normal((2, len(VALUES))))
ROWS = RNG.permutation(SPACE.size)[:25]
TARGETS = RNG.standard_normal(25)


def test_the_gradient_equals_differences() -> None:
    likelihood = Likelihood(SPACE)
    sample = Sample.of(SPACE, ROWS, TARGETS)
    vector = likelihood.centre + 0.1 * likelihood.spread * RNG.standard_normal(
        len(likelihood.centre)
    )
    _, gradient = likelihood.negative(vector, sample)
    for place in range(len(vector)):
        step = np.zeros(len(vector))
        step[place] = 1e-5 * likelihood.spread[place]
        high, low = (likelihood.negative(vector + s, sample)[0] for s in (step, -step))
        slope = (high - low) / (2 * step[place])
        np.testing.assert_allclose(gradient[place], slope, rtol=1e-4, atol=1e-4)


def covariance() -> Covariance:
    likelihood = Likelihood(SPACE)
    return Covariance(SPACE, Hyperparameters.of(likelihood.centre, len(SPACE.factors)))


def test_observing_one_by_one_equals_observing_all_at_once() -> None:
    everything = np.arange(SPACE.size)
    at_once = Posterior(covariance(), ROWS, everything)
    in_turn = Posterior(covariance(), ROWS[:5], everything)
    for row in ROWS[5:]:
        in_turn.observe(int(row))
    expected, found = at_once.predict(TARGETS), in_turn.predict(TARGETS)
    np.testing.assert_allclose(found.mean, expected.mean, atol=1e-3)
    np.testing.assert_allclose(found.deviation, expected.deviation, atol=1e-3)


def test_a_configuration_is_its_own_best_likeness() -> None:
    everything = np.arange(SPACE.size)
    likeness = covariance().between(everything, everything)
    np.testing.assert_allclose(likeness.diagonal(), 1, rtol=1e-5)
    assert (likeness <= 1 + 1e-5).all() and (likeness > 0).all()


def test_powers_of_two_are_told_from_other_numbers() -> None:
    values = [(16 * i,) for i in range(1, 9)]
    names = [d.name for d in Space.of(("block",), values).derived]
    assert names == ["block: factors of two", "block: power of two"]
    assert not Space.of(("block",), [(2**i,) for i in range(8)]).derived
