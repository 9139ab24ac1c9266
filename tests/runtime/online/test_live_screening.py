"""A screening chooses the best edit of every place by few bursts, and gives harmful versions one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import numpy as np

from autotune.runtime.online.bursts import BurstShape
from autotune.runtime.online.compared_runs import Scope
from autotune.runtime.online.live_screening import LiveScreening
from autotune.runtime.online.pace import HERE
from autotune.runtime.online.trial_budget import TrialBudget
from autotune.runtime.variants.edits import Edit, EditKind
from autotune.schedule.schedule import NestSchedule, Schedule

SHAPE = BurstShape(1, 3)
PLACES, VERSIONS = 4, 5


def schedule(number: int) -> Schedule:
    return Schedule((NestSchedule((number,), (0,), ()),))


def edit(place: int, number: int) -> Edit:
    names = (f"op{place}",)
    return Edit(EditKind.RESCHEDULE, ((names, schedule(100)),), ((names, schedule(1 + number)),), 0)


def screened(factor: Callable[[int, int], float], requests: int = 20_000) -> LiveScreening:
    """A screening of one step a place, of which each takes ``factor`` of its time by an edit."""
    versions = [
        [(edit(place, number), Scope((place,), (place,))) for place in range(PLACES)]
        for number in range(VERSIONS)
    ]
    rng = np.random.default_rng(0)
    budget = TrialBudget()
    trial = LiveScreening(versions, SHAPE, rng, budget)
    for request in range(requests):
        turn = trial.take(request)
        took = 1e5 * np.exp(0.02 * rng.standard_normal(PLACES))
        if turn is not None:
            took *= [factor(place, turn[1]) for place in range(PLACES)]
        trial.note(took.astype(np.int64), None if turn is None else turn[0])
        budget.serve(request, 1e-4 * PLACES)
        if request % 64 == 0 and trial.evaluate():
            break
    return trial


def test_of_each_place_the_best_edit_is_chosen() -> None:
    trial = screened(lambda place, number: 0.9 if number == (place + 1) % VERSIONS else 1.02)
    found = dict(trial.promising())
    assert set(found) == {edit(place, (place + 1) % VERSIONS) for place in range(PLACES)}
    assert all(-0.13 < estimate < -0.05 for estimate in found.values())
    assert len(trial.estimates()) == PLACES * VERSIONS


def test_nothing_is_promised_where_nothing_differs() -> None:
    chosen = [screened(lambda place, number: 1.0).promising() for _ in range(3)]
    assert all(estimate > -0.02 for row in chosen for _, estimate in row), "no more than noise"


def test_a_harmful_version_takes_one_burst_and_the_others_all_of_theirs() -> None:
    trial = screened(lambda place, number: 1.3 if number == 2 else 1.0)
    counts = Counter(
        edit.added[0][1]
        for field in trial.fields.values()
        for edit, entry in field.entries.items()
        for _ in entry.ratios
    )
    assert counts[schedule(3)] == PLACES
    assert all(counts[schedule(1 + number)] == HERE.rounds * PLACES for number in (0, 1, 3, 4))


def test_a_screening_ends_though_its_last_bursts_are_lost() -> None:
    versions = [[(edit(0, 0), Scope((0,), (0,)))]]
    trial = LiveScreening(versions, SHAPE, np.random.default_rng(0), TrialBudget())
    for request in range(5000):
        trial.take(request)
        if request % 64 == 0 and trial.evaluate():
            break
    assert trial.evaluate() and not trial.promising()
