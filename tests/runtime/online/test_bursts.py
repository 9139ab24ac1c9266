"""Bursts take a small share of the requests, warm, and no more than the budget of trials pays for."""

from __future__ import annotations

from itertools import groupby

import numpy as np
import pytest

from autotune.runtime.online.bursts import GAP, RARE_GAP, SPREAD, Bursts, BurstShape, Haste
from autotune.runtime.online.compared_runs import ComparedRuns
from autotune.runtime.online.trial_budget import BUDGET, CREDIT_RUNS, TrialBudget

SHAPE = BurstShape(2, 3)
RUN_SECONDS = 1e-3


def bursts(budget: TrialBudget | None = None) -> Bursts:
    return Bursts(SHAPE, np.random.default_rng(0), budget or TrialBudget())


@pytest.mark.parametrize("seconds", [1e-5, 2e-4, 1e-3, 5e-3, 0.2])
def test_longer_runs_make_shorter_bursts_with_a_cold_run_at_least(seconds: float) -> None:
    shape, longer = BurstShape.of(seconds), BurstShape.of(2 * seconds)
    assert shape.cold >= 1 and shape.counted % 2 == 1
    assert longer.runs <= shape.runs


def test_short_requests_are_seldom_on_trial_and_no_trial_of_long_ones_lasts_for_ever() -> None:
    gaps = [BurstShape.of(seconds).gap for seconds in (1e-4, 1e-3, 5e-3, 4e-2)]
    assert gaps[0] > 10 * GAP and gaps[-1] == GAP
    assert gaps == sorted(gaps, reverse=True)
    assert {BurstShape.of(seconds, Haste.RARE).gap for seconds in (1e-4, 4e-2)} == {RARE_GAP}
    soon = [BurstShape.of(seconds, Haste.SOON).gap for seconds in (1e-4, 1e-3, 5e-3, 4e-2)]
    assert GAP < soon[0] < gaps[0] / 3 and soon[-1] == GAP


def test_bursts_are_whole_and_take_one_request_in_nine_at_most() -> None:
    planned = bursts()
    taken = [planned.take(request) for request in range(20_000)]
    runs = [(number, len(list(rows))) for number, rows in groupby(taken)]
    of_bursts = [(number, count) for number, count in runs if number is not None]
    assert [number for number, _ in of_bursts] == list(range(len(of_bursts)))
    assert {count for _, count in of_bursts} <= {SHAPE.runs, 20_000 - len(taken)}
    gaps = [count for number, count in runs[1:-1] if number is None]
    assert min(gaps) >= GAP * SHAPE.runs
    assert max(gaps) <= (1 + SPREAD) * GAP * SHAPE.runs + 2
    assert len(set(gaps)) > 5, "no rhythm"


def test_the_window_holds_what_is_compared_with_a_burst() -> None:
    planned = bursts()
    planned.take(0)
    first, end = planned.window
    taken = [request for request in range(first, end) if planned.take(request) is not None]
    assert len(taken) == SHAPE.runs
    assert taken[0] - first == SHAPE.counted
    assert planned.window[0] > end, "the next burst is planned within the window"


def test_no_burst_begins_before_the_last_ones_are_paid() -> None:
    budget = TrialBudget()
    planned = bursts(budget)
    budget.serve(0, RUN_SECONDS)
    budget.spend(RUN_SECONDS, RUN_SECONDS)
    assert all(planned.take(request) is None for request in range(1000))
    budget.serve(round(1 / BUDGET) + 1, RUN_SECONDS)
    assert any(planned.take(request) is not None for request in range(1000, 1200))


def test_slow_versions_cost_no_more_than_the_budget() -> None:
    budget = TrialBudget()
    planned, runs = bursts(budget), ComparedRuns(SHAPE, budget)
    costs = []
    rng = np.random.default_rng(1)
    for request in range(50_000):
        burst = planned.take(request)
        took = (1.0 if burst is None else 1.5) * np.exp(0.02 * rng.standard_normal())
        costs.append(took - 1.0 if burst is not None else 0.0)
        runs.note(np.array([round(1e6 * took)]), burst)
        if request % 50 == 0:
            list(runs.comparisons())
            budget.serve(request, RUN_SECONDS)
    window, burst_cost = 5000, 0.5 * SHAPE.runs
    total = np.convolve(costs, np.ones(window), "valid")
    assert total.max() <= BUDGET * window + CREDIT_RUNS + 2 * burst_cost
    assert 0.5 * BUDGET <= np.mean(costs) <= 1.1 * BUDGET
    assert budget.spent_share == pytest.approx(np.mean(costs), rel=0.2)


def test_a_version_that_is_faster_earns_its_bursts() -> None:
    budget = TrialBudget()
    budget.serve(0, RUN_SECONDS)
    for _ in range(10):
        budget.spend(-0.1 * RUN_SECONDS, RUN_SECONDS)
    assert budget.is_open and budget.spent_seconds < 0


def test_callers_that_skip_numbers_are_held_to_the_budget_too() -> None:
    """Two threads take even numbers in lockstep: the first request of a burst may be any."""
    budget = TrialBudget()
    budget.serve(0, RUN_SECONDS)
    budget.spend(RUN_SECONDS, RUN_SECONDS)
    for first in range(4):
        planned = bursts(budget)
        numbers = [planned.take(2 * (tick // 2) + first % 2) for tick in range(6000)]
        assert set(numbers) == {None}


def test_without_a_gap_a_burst_comes_at_once_and_the_next_ones_behind_what_is_compared() -> None:
    planned = Bursts(BurstShape(0, 1, gap=0), np.random.default_rng(0), TrialBudget())
    taken = [request for request in range(7, 2007) if planned.take(request) is not None]
    assert taken[0] == 7
    assert set(np.diff(taken).tolist()) == {2, 3}
