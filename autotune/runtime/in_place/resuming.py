"""Where a search begins: with the best plan of earlier ones, if it still runs faster than the heuristic plan."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from autotune.errors import AutotuneError
from autotune.runtime.in_place.screening import RUNS
from autotune.runtime.in_place.whole_runs import Surroundings
from autotune.tuner.choice import Choice

TURNS = 5
"""Turns of both plans."""
FASTER = 0.99
"""Time over the heuristic plan's from which an earlier plan is gone on from."""

Plan = tuple[Choice, ...]


def resumed(runs: Surroundings, heuristic: Plan, plans: Sequence[Plan]) -> tuple[Plan, float]:
    """Return the first of some plans that still runs, computes the same and is faster, with its time over the heuristic
    plan's; else the heuristic plan, and 1."""
    runs.is_right(heuristic)
    for plan in plans:
        if plan == heuristic:
            break
        try:
            ratio = _ratio(runs, heuristic, plan)
            if ratio < FASTER and runs.is_right(plan):
                return plan, ratio
        except AutotuneError:  # by other rules of an earlier version
            continue
    return heuristic, 1.0


def frugal_start(runs: Surroundings, heuristic: Plan, plans: Sequence[Plan]) -> tuple[Plan, float]:
    """Return the last of some plans that runs and computes the same as the heuristic plan, with its time over that
    plan's; else the heuristic plan, and 1."""
    runs.is_right(heuristic)
    for plan in reversed(plans):
        if set(plan) == set(heuristic):
            break
        try:
            if runs.is_right(plan):
                return plan, _ratio(runs, heuristic, plan)
        except AutotuneError:
            continue
    return heuristic, 1.0


def _ratio(runs: Surroundings, heuristic: Plan, plan: Plan) -> float:
    ratios = []
    for _ in range(TURNS):
        base = sum(runs.run(heuristic, RUNS).least.values())
        ratios.append(sum(runs.run(plan, RUNS).least.values()) / base)
    return statistics.median(ratios)
