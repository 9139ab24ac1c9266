"""A tournament keeps fast variants, and does not believe the least of many noisy times."""

from __future__ import annotations

import math

import numpy as np
import pytest

from autotune.runtime.variants.tournament import Tournament


def play(effects: list[float], noise: float, seed: int) -> Tournament[int]:
    """Measure variants with true log ratios ``effects``, as a screening does."""
    rng = np.random.default_rng(seed)
    field = Tournament(range(len(effects)))
    for repeats in (3, 3, 4, 6):
        for variant in field.alive:
            for _ in range(repeats):
                field.add(variant, effects[variant] + noise * rng.standard_normal())
        field.halve()
    return field


def test_the_best_of_equal_variants_is_believed_to_gain_far_less_than_it_measured() -> None:
    measured, believed = [], []
    for seed in range(200):
        field = play([0.0] * 16, 0.05, seed)
        best = field.best
        assert best is not None
        measured.append(min(entry.center for entry in field.entries.values()))
        believed.append(best[1])
    assert np.mean(measured) < -0.015
    assert abs(np.mean(believed)) < 0.5 * abs(np.mean(measured))


def test_a_clearly_faster_variant_wins_and_is_believed() -> None:
    for seed in range(50):
        field = play([0.05] * 15 + [-0.2], 0.05, seed)
        best = field.best
        assert best is not None
        assert best[0] == 15
        assert best[1] == pytest.approx(-0.2, abs=0.08)


def test_nothing_measured_has_no_best() -> None:
    field = Tournament("ab")
    assert field.best is None
    assert field.estimate("a") == 0.0


def test_fewer_ratios_shrink_more() -> None:
    field = Tournament("ab")
    for x in (-0.1, 0.0, -0.1, 0.05, -0.12, 0.02):
        field.add("a", x)
    field.add("b", field.entries["a"].center)
    assert abs(field.estimate("b")) <= abs(field.estimate("a"))
    assert math.isfinite(field.estimate("b"))
