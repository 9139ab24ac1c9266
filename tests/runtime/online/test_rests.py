"""Rests of tuning: ever longer without a gain; changes of the machine that bring nothing bring fewer trials."""

from __future__ import annotations

from autotune.runtime.online.rests import REST, REST_RUNS, VAIN_CHANGES, Rests

RUN_SECONDS = 1.0


def trials_until_rest(rests: Rests, run: int) -> int:
    """Return how many trials without a gain there are before tuning rests."""
    trials = 0
    while not rests.is_due:
        rests.count(run, RUN_SECONDS)
        trials += 1
    return trials


def test_changes_without_a_gain_soon_bring_one_trial_each() -> None:
    rests, trials = Rests(), []
    for change in range(VAIN_CHANGES + 3):
        rests.reopen()
        assert rests.until == 0
        trials.append(trials_until_rest(rests, change))
    assert trials == [REST] * VAIN_CHANGES + [1] * 3


def test_changes_for_which_nothing_was_tried_take_no_trials() -> None:
    rests = Rests()
    for _ in range(VAIN_CHANGES + 3):
        rests.reopen()
    assert trials_until_rest(rests, 0) == REST


def test_trials_before_the_first_change_and_gains_make_no_change_vain() -> None:
    rests, trials = Rests(), []
    trials_until_rest(rests, 0)
    for _ in range(VAIN_CHANGES + 3):
        rests.reopen()
        trials.append(trials_until_rest(rests, 0))
        rests.forget()
        trials_until_rest(rests, 0)
    assert trials == [REST] * (VAIN_CHANGES + 3)


def test_one_more_trial_takes_none_that_are_left() -> None:
    rests = Rests()
    rests.try_once()
    assert trials_until_rest(rests, 0) == REST


def test_trials_are_rare_after_a_rest_until_there_is_a_gain_or_a_change() -> None:
    rests = Rests()
    assert not rests.has_rested
    rests.stop()
    assert rests.has_rested
    rests.forget()
    assert not rests.has_rested
    rare = []
    for _ in range(VAIN_CHANGES + 2):
        trials_until_rest(rests, 0)
        assert rests.has_rested
        rests.reopen()
        rare.append(rests.has_rested)
    assert rare == [False] * VAIN_CHANGES + [True] * 2


def test_a_gain_brings_all_trials_back() -> None:
    rests = Rests()
    for _ in range(VAIN_CHANGES + 1):
        rests.reopen()
        trials_until_rest(rests, 0)
    rests.forget()
    trials_until_rest(rests, 0)
    rests.reopen()
    assert trials_until_rest(rests, 0) == REST


def test_rests_go_on_growing_while_changes_bring_nothing() -> None:
    rests, lengths = Rests(), []
    for _ in range(VAIN_CHANGES + 4):
        rests.reopen()
        trials_until_rest(rests, 0)
        lengths.append(rests.until)
    assert lengths[:VAIN_CHANGES] == [REST_RUNS] * VAIN_CHANGES
    assert lengths[VAIN_CHANGES:] == [REST_RUNS << n for n in range(1, 5)]
