"""Confirmation: fresh whole runs in which chosen changes are on or off at random, and each one's effect."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from autotune.runtime.in_place.factorial import Effect, balanced_design, effects
from autotune.runtime.in_place.screening import RUNS
from autotune.runtime.in_place.whole_runs import Surroundings, Timed
from autotune.runtime.variants.variants import Change, Groups, names_of
from autotune.tuner.choice import Choice

LEAST_ROUNDS, MOST_ROUNDS = 16, 128
"""Plans that run: half of the changes are on in each."""


def confirm(
    runs: Surroundings,
    groups: Groups,
    plan: Sequence[Choice],
    factors: Sequence[Sequence[Change]],
    rng: np.random.Generator,
    is_over: Callable[[], bool],
    is_late: Callable[[], bool] = lambda: False,
) -> tuple[Effect, ...]:
    """Return what each factor adds to a run of the plan, in seconds; changes of a factor are on together.

    A factor answers for its own groups and for those that run right behind them, which find other data in the
    caches. No two changes overlap. After ``LEAST_ROUNDS`` the time may be over. Once it ``is_late`` before that, nothing
    is known of any factor: too few runs would make chance look certain.
    """
    design = balanced_design(MOST_ROUNDS, len(factors), rng)
    rows: list[Timed] = []
    for on in design:
        if len(rows) >= LEAST_ROUNDS and is_over():
            break
        if len(rows) < LEAST_ROUNDS and is_late():
            return (Effect(0.0, math.inf),) * len(factors)
        changes = [c for factor, is_on in zip(factors, on, strict=True) if is_on for c in factor]
        rows.append(runs.run(groups.changed(plan, changes), RUNS))
    reach = [_reach(plan, factor) for factor in factors]
    seconds = [[_touching(timed, names) for timed in rows] for names in reach]
    own = [{x for change in factor for x in change.names} for factor in factors]
    related = [[not names.isdisjoint(other) for other in own] for names in reach]
    return effects(design[: len(rows)], np.array(seconds), np.array(related))


def _reach(plan: Sequence[Choice], factor: Sequence[Change]) -> set[str]:
    """Return the operators of a factor's sites, and of the group that runs behind each."""
    names: set[str] = set()
    for change in factor:
        names |= set(change.names)
        behind = (i for i in range(max(change.groups) + 1, len(plan)) if plan[i].schedule)
        following = next(behind, None)
        if following is not None:
            names |= set(names_of(plan[following]))
    return names


def _touching(timed: Timed, names: set[str]) -> float:
    least = timed.least
    return sum(seconds for step, seconds in least.items() if not names.isdisjoint(step))
