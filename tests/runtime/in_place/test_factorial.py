"""A factorial design finds the effect of each change, of those on neighbours too."""

from __future__ import annotations

import numpy as np
import pytest

from autotune.runtime.in_place.factorial import balanced_design, effects


def test_every_change_is_on_in_half_of_the_runs() -> None:
    design = balanced_design(24, 7, np.random.default_rng(0))
    assert design.shape == (24, 7)
    assert (design.sum(axis=0) == 12).all()


def test_effects_are_found_beside_those_of_a_neighbour_and_outliers() -> None:
    rng = np.random.default_rng(1)
    design = balanced_design(48, 3, rng)
    true = np.array([-0.2, 0.3, 0.0])
    seconds = 5.0 + design @ true + 0.02 * rng.standard_normal((3, 48))
    seconds[:, 5] *= 3.0
    found = effects(design, seconds, np.ones((3, 3), np.bool_))
    for effect, value in zip(found, true, strict=True):
        assert effect.seconds == pytest.approx(value, abs=0.03)
        assert effect.error < 0.02
    assert [effect.is_gain(2.0) for effect in found] == [True, False, False]


def test_changes_without_an_effect_are_seldom_gains() -> None:
    rng = np.random.default_rng(2)
    gains = 0
    for _ in range(100):
        design = balanced_design(32, 4, rng)
        seconds = 1.0 + 0.05 * rng.standard_normal((4, 32))
        gains += sum(e.is_gain(1.5) for e in effects(design, seconds, np.eye(4, dtype=np.bool_)))
    assert gains <= 0.12 * 400
