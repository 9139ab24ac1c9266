"""A contest keeps the plan in use unless the other is shown to be faster, whatever the noise."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from scipy.stats import binom

from autotune.tuner.contest import LOOKS, MARGIN, RISK, hold_contest, needed_wins

LENGTH = 0.01


class NoisyMachine:
    """Runs that take their true time, a tenth of noise, outliers, and slow spells that last."""

    def __init__(self, seed: int) -> None:
        self._rng = np.random.default_rng(seed)
        self._spell, self.seconds = 1.0, 0.0

    def plan(self, factor: float) -> Callable[[], float]:
        return lambda: self._run(factor)

    def _run(self, factor: float) -> float:
        if self._rng.random() < 0.05:
            self._spell = float(self._rng.choice([1.0, 1.3, 2.0]))
        noise = np.exp(0.1 * abs(self._rng.standard_normal()))
        outlier = self._rng.choice([1.0, 3.0], p=[0.97, 0.03])
        seconds = LENGTH * factor * self._spell * float(noise * outlier)
        self.seconds += seconds
        return seconds


def test_of_a_thousand_searches_hardly_any_ends_with_a_slower_plan() -> None:
    factors = np.random.default_rng(0).uniform(0.9, 1.15, 1000)
    lost = won = fast = 0
    for seed, factor in enumerate(factors):
        machine = NoisyMachine(seed)
        result = hold_contest(machine.plan(1.0), machine.plan(factor), lambda m=machine: m.seconds)
        lost += result.is_won and factor > 1.0
        fast += factor < 0.95
        won += result.is_won and factor < 0.95
    assert lost <= RISK * 1000
    assert won >= 0.9 * fast


def test_equal_plans_keep_the_one_in_use() -> None:
    wins = 0
    for seed in range(1000):
        machine = NoisyMachine(seed)
        contest = hold_contest(machine.plan(1.0), machine.plan(1.0), lambda m=machine: m.seconds)
        wins += contest.is_won
    assert wins <= RISK * 1000


@pytest.mark.parametrize("rounds", LOOKS)
def test_a_look_takes_the_fewest_wins_that_its_part_of_the_risk_allows(rounds: int) -> None:
    wins = needed_wins(rounds)
    assert binom.sf(wins - 1, rounds, 0.5) <= RISK / len(LOOKS) < binom.sf(wins - 2, rounds, 0.5)


def test_a_near_tie_goes_to_the_plan_in_use() -> None:
    contest = hold_contest(lambda: 1.0, lambda: 1.0 / (1.0 + MARGIN / 2))
    assert not contest.is_won
    assert contest.wins == 0
    assert contest.rounds == LOOKS[0]


def test_a_clear_win_ends_at_the_first_look() -> None:
    contest = hold_contest(lambda: 1.0, lambda: 0.8)
    assert (contest.is_won, contest.rounds, contest.wins) == (True, LOOKS[0], LOOKS[0])
    assert contest.gain == pytest.approx(1.25)


def test_time_bounds_a_contest() -> None:
    now = iter(range(0, 10_000, 1))
    rng = np.random.default_rng(1)
    contest = hold_contest(
        lambda: 1.0, lambda: float(rng.choice([0.8, 1.1], p=[0.6, 0.4])), lambda: 100.0 * next(now)
    )
    assert contest.rounds <= LOOKS[1]
