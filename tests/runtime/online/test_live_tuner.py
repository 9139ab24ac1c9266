"""Tuning on live requests: what is better is swapped in, what is not is dropped, nothing flips to and fro."""

from __future__ import annotations

import gc
import weakref
from collections import Counter
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from autotune.errors import AutotuneError
from autotune.runtime.execution.event import EventKind
from autotune.runtime.online import splitting
from autotune.runtime.online.bursts import GAP, RARE_GAP, BurstShape, Haste
from autotune.runtime.online.live_tuner import EVENTS_KEPT
from autotune.runtime.online.open_trial import OpenTrial
from autotune.runtime.online.pace import HERE
from autotune.runtime.online.paired_test import Verdict
from autotune.runtime.online.trial_budget import BUDGET
from autotune.runtime.variants.edits import Edit
from autotune.runtime.variants.variants import Names
from tests.runtime.online.live_case import Bench, Clock, DrawnMachine, chain, grouped, merge

GRAPH = chain()
P0T0, P1T1 = merge(GRAPH, "p0", "t0"), merge(GRAPH, "p1", "t1")
P2T2 = merge(GRAPH, "p2", "t2")


def alone(names: Names) -> float:
    """A millisecond an operator, whoever it runs with."""
    return 10.0 * len(names)


def merged(factor: float) -> DrawnMachine:
    """A machine on which merged groups take so much of their operators' time."""
    return DrawnMachine(GRAPH, lambda names: alone(names) * (factor if len(names) > 1 else 1.0))


def test_a_better_merge_is_tried_on_live_requests_and_swapped_in() -> None:
    b = Bench(merged(0.7), [P0T0])
    b.run(1000)
    assert b.kinds() == [EventKind.PROPOSED, EventKind.MEASURED, EventKind.SWAPPED]
    assert ("p0", "t0") in b.groups
    assert b.published.current.plan_version == 1


def test_a_worse_merge_is_dropped_at_once_and_the_plan_stays() -> None:
    b = Bench(merged(1.5), [P0T0])
    b.run(1000)
    assert b.kinds() == [EventKind.PROPOSED, EventKind.MEASURED, EventKind.REFUSED]
    assert b.published.current.plan_version == 0
    assert b.tuner.events[1].figures["pairs"] <= 8


def test_a_merge_that_makes_no_difference_is_refused() -> None:
    b = Bench(merged(1.0), [P0T0])
    b.run(3000)
    assert EventKind.SWAPPED not in b.kinds()
    assert b.kinds().count(EventKind.PROPOSED) == 1


def test_of_two_edits_on_trial_only_the_better_one_is_adopted() -> None:
    def clock(names: Names) -> float:
        return alone(names) * {("p0", "t0"): 0.6, ("p1", "t1"): 1.3}.get(names, 1.0)

    b = Bench(DrawnMachine(GRAPH, clock), [P0T0, P1T1])
    b.run(2000)
    assert ("p0", "t0") in b.groups
    assert {("p1",), ("t1",)} <= b.groups
    assert b.proposer.seen[-1].wishes is None
    assert any(seen.wishes == (P0T0,) for seen in b.proposer.seen)


def test_of_edits_in_several_versions_the_promising_ones_alone_go_on_trial() -> None:
    def clock(names: Names) -> float:
        return alone(names) * {("p0", "t0"): 0.8, ("p1", "t1"): 1.1}.get(names, 1.0)

    b = Bench(DrawnMachine(GRAPH, clock, 0.01, 0.0), [P0T0, P1T1, P2T2])
    b.proposer.apart = True
    b.run(2500)
    screened, chosen, tried = b.kinds()[:3]
    assert (screened, chosen, tried) == (
        EventKind.PROPOSED,
        EventKind.MEASURED,
        EventKind.PROPOSED,
    )
    wishes = [{edit.key for edit in seen.wishes} for seen in b.proposer.seen if seen.wishes]
    assert P0T0.key in wishes[0] and all(P1T1.key not in wished for wished in wishes)
    assert ("p0", "t0") in b.groups
    assert {("p1",), ("t1",), ("p2",), ("t2",)} <= b.groups
    assert b.tuner.budget.spent_share <= 1.5 * BUDGET


def test_a_screening_without_promise_tries_nothing_and_counts_as_fruitless() -> None:
    b = Bench(replace(merged(1.05), noise=0.01, outliers=0.0), [P0T0, P1T1, P2T2])
    b.proposer.apart = True
    b.run(3000)
    assert b.kinds() == [EventKind.PROPOSED, EventKind.MEASURED]
    assert b.published.current.plan_version == 0


def test_a_merge_that_computes_other_numbers_is_never_served() -> None:
    b = Bench(merged(0.5), [P0T0])
    b.proposer.refuses = [P0T0]
    b.run(500)
    assert b.kinds() == [EventKind.REFUSED]
    assert b.published.current.plan_version == 0


@pytest.mark.parametrize(("has_rested", "gap"), [(False, GAP), (True, RARE_GAP)])
def test_a_trial_takes_one_request_in_nine_and_after_a_rest_one_in_a_hundred_at_most(
    has_rested: bool, gap: int
) -> None:
    b = Bench(merged(0.9), [P0T0])
    b.tuner._rests.has_rested = has_rested
    served = []
    for _ in range(200 * gap):
        opened = b.tuner._open
        _, trace = b.serving.run(b.feeds)
        served.append(opened is not None and len(trace.groups) < len(GRAPH.ops))
        if b.published.current.plan_version:
            break
        b.tuner.step()
    places = [i for i, one in enumerate(served) if one]
    shape = BurstShape.of(8e-3)
    bursts = [i for i, place in enumerate(places) if i == 0 or place > places[i - 1] + 1]
    assert len(bursts) > 10
    assert all(two - one == shape.runs for one, two in pairwise(bursts))
    gaps = [two - one for one, two in pairwise(places) if two > one + 1]
    assert min(gaps) > gap * shape.runs


def test_an_adopted_merge_that_no_longer_delivers_is_split() -> None:
    factor = 0.7
    machine = DrawnMachine(GRAPH, lambda names: alone(names) * (factor if len(names) > 1 else 1))
    b = Bench(machine, [P0T0])
    b.run(1000)
    assert ("p0", "t0") in b.groups
    factor = 1.6
    b.run(1500)
    assert EventKind.SPLIT in b.kinds()
    assert {("p0",), ("t0",)} <= b.groups


def trial_of_another(
    edits: tuple[Edit, Edit], clock: Clock, is_rare: bool
) -> tuple[Bench, OpenTrial]:
    """A bench whose first edit is in force, and the trial of its second one, which has just begun."""
    b = Bench(DrawnMachine(GRAPH, clock), edits[:1])
    b.run(1000)
    assert b.published.current.plan_version == 1
    b.proposer.edits = edits
    b.tuner._rests.forget()
    b.tuner._rests.has_rested = is_rare
    while not b.tuner.is_trying:
        b.run(16)
    opened = b.tuner._open
    assert isinstance(opened, OpenTrial) and opened.is_rare == is_rare
    return b, opened


@pytest.mark.parametrize("is_rare", [True, False])
def test_undoing_what_may_have_ceased_to_pay_waits_for_no_other_trial(is_rare: bool) -> None:
    factor = 0.7

    def clock(names: Names) -> float:
        return alone(names) * (factor if names == ("p0", "t0") else 1.0)

    b, other = trial_of_another((P0T0, P1T1), clock, is_rare)
    factor = 1.6
    while b.tuner._open is other:
        b.run(16)
    assert other.trial.tests[0][2].verdict is Verdict.OPEN
    undoing = b.tuner._open
    assert isinstance(undoing, OpenTrial) and undoing.undone is not None
    assert undoing.haste is Haste.SOON
    b.run(1000)
    assert EventKind.SPLIT in b.kinds()
    assert {("p0",), ("t0",)} <= b.groups


def test_what_gave_way_to_an_undoing_is_tried_behind_it() -> None:
    """Also where it was found by a search, which nobody asks again."""
    factor = 0.7

    def clock(names: Names) -> float:
        return alone(names) * (factor if names == ("p0", "t0") else 0.7 if len(names) > 1 else 1.0)

    b = Bench(DrawnMachine(GRAPH, clock), [P0T0])
    b.run(1000)
    b.tuner._rests.forget()
    b.tuner.consider(grouped(GRAPH, ("p0", "t0"), ("p1", "t1")))
    while not b.tuner.is_trying:
        b.run(16)
    found = b.tuner._open
    factor = 0.82  # it takes longer, but still pays
    while b.tuner._open is found:
        b.run(16)
    assert b.published.current.plan_version == 1, "it gave way"
    b.run(1500)
    assert EventKind.KEPT in b.kinds()
    assert {("p0", "t0"), ("p1", "t1")} <= b.groups


def test_an_aged_edit_ends_no_usual_trial_and_urgency_is_asked_for_now_and_then(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def clock(names: Names) -> float:
        return alone(names) * (0.7 if names == ("p0", "t0") else 1.0)

    b, other = trial_of_another((P0T0, P1T1), clock, is_rare=False)
    for name in ("AGED_RUNS", "AGED_SECONDS"):
        monkeypatch.setattr(splitting, name, 0)
    asked, due = 0, b.tuner._ledger.due

    def ask(*arguments: Any) -> Any:
        nonlocal asked
        asked += 1
        found = due(*arguments)
        assert found is not None, "it has aged"
        return found

    monkeypatch.setattr(b.tuner._ledger, "due", ask)
    steps = 0
    while b.tuner._open is other:
        b.run(16)
        steps += 1
    assert other.trial.tests[0][2].verdict is not Verdict.OPEN, "it was waited for"
    assert 1 < asked < 0.7 * steps


def test_an_aged_undoing_gives_way_to_that_of_what_shifted(monkeypatch: pytest.MonkeyPatch) -> None:
    factor = 0.7

    def clock(names: Names) -> float:
        return alone(names) * (factor if names == ("p1", "t1") else 0.7 if len(names) > 1 else 1.0)

    b = Bench(DrawnMachine(GRAPH, clock), [P0T0, P1T1])
    b.run(2000)
    assert {("p0", "t0"), ("p1", "t1")} <= b.groups
    first = b.tuner._ledger.adopted[0]
    b.tuner._begin(
        b.tuner._version(
            b.tuner._plan(), b.tuner._serving.seconds() or {}, (first.edit.undone(0.0),)
        ),
        b.tuner._serving.seconds() or {},
        first,
    )
    aged = b.tuner._open
    factor = 2.5
    while b.tuner._open is aged:
        b.run(16)
    shifted = b.tuner._open
    assert isinstance(shifted, OpenTrial) and shifted.undone is not None
    assert ("p1", "t1") in [names for names, _ in shifted.undone.groups]


def test_a_drift_ends_a_rare_trial_and_what_is_tried_then_is_tried_soon() -> None:
    def clock(names: Names) -> float:
        return alone(names) * (1 - 0.3 * (len(names) > 1))

    b, before = trial_of_another((P0T0, P1T1), clock, is_rare=True)
    b.run(16)
    assert b.tuner._open is before
    b.tuner.drift()
    b.run(16)
    after = b.tuner._open
    assert isinstance(after, OpenTrial)
    assert after is not before and not after.is_rare


def test_a_workload_that_goes_back_and_forth_reverses_at_most_once_for_each_change() -> None:
    favours_merges = True

    def clock(names: Names) -> float:
        if names[0] not in ("p0", "t0"):
            return alone(names)
        if len(names) > 1:
            return 14.0 if favours_merges else 26.0
        return 13.0 if favours_merges else 8.0

    b = Bench(DrawnMachine(GRAPH, clock, noise=0.1), [P0T0])
    b.run(1000)
    changes, before = 8, b.published.current.plan_version
    reversals = []
    for turn in range(changes):
        favours_merges = bool(turn % 2)
        b.run(6000 if favours_merges else 1500)  # a second look has time, undoing has not
        version = b.published.current.plan_version
        reversals.append(version - before)
        before = version
        assert (("p0", "t0") in b.groups) == favours_merges
    assert reversals == [1] * changes


def test_a_change_that_no_run_shows_is_found_by_rare_trials() -> None:
    factor = 1.2
    machine = DrawnMachine(GRAPH, lambda names: alone(names) * (factor if len(names) > 1 else 1))
    b = Bench(machine, [P0T0])
    b.run(1000)
    assert b.kinds()[-1] is EventKind.REFUSED
    factor = 0.7
    b.run(14_000)
    assert ("p0", "t0") in b.groups


def test_a_steady_workload_never_reverses() -> None:
    b = Bench(merged(0.95), [P0T0, P1T1])
    b.run(7000)
    kinds = Counter(b.kinds())
    assert kinds[EventKind.SPLIT] == 0
    assert kinds[EventKind.SWAPPED] <= 2
    assert kinds[EventKind.PROPOSED] <= 6


def test_a_machine_that_is_slower_as_a_whole_reverses_nothing() -> None:
    load = 1.0
    machine = DrawnMachine(
        GRAPH, lambda names: load * alone(names) * (0.7 if len(names) > 1 else 1)
    )
    b = Bench(machine, [P0T0])
    b.run(1500)
    told = len(b.tuner.events)
    for slower in (2.0, 1.0, 3.0, 1.0):
        load = slower
        b.run(1000)
    assert len(b.tuner.events) == told


def test_the_memory_of_a_version_goes_with_its_last_request() -> None:
    b = Bench(merged(0.7), [P0T0])
    first = weakref.ref(b.published.current.executable)
    b.run(1000)
    assert b.published.current.plan_version == 1
    gc.collect()
    assert first() is None


def test_a_proposer_that_fails_is_told_and_tried_again() -> None:
    b = Bench(merged(0.7), [P0T0])
    b.proposer.fails = 1
    with pytest.raises(AutotuneError, match="process ended"):
        b.run(200)
    b.run(1000)
    assert ("p0", "t0") in b.groups


def test_events_are_bounded() -> None:
    b = Bench(merged(1.0), [])
    for _ in range(EVENTS_KEPT + 10):
        b.tuner.tell(EventKind.KEPT, "again")
    assert len(b.tuner.events) == EVENTS_KEPT


def test_nothing_is_proposed_before_there_is_a_profile() -> None:
    b = Bench(merged(0.7), [P0T0])
    b.run(HERE.window_runs - 1)
    assert not b.proposer.seen


def test_rare_networks_give_back_the_memory_of_merges() -> None:
    b = Bench(merged(0.7), [P0T0])
    b.run(1000)
    (adopted,) = b.tuner._ledger.adopted
    b.tuner._ledger.enter(replace(adopted, extra_bytes=1 << 20))
    b.usage = 0.001
    b.run(200)
    assert b.kinds()[-1] is EventKind.SPLIT
    assert "rare" in b.tuner.events[-1].text
    assert b.groups == {names for names, _ in grouped(GRAPH)}


def test_tuning_rests_ever_longer_while_a_busy_machine_changes_and_nothing_is_better() -> None:
    rng, level = np.random.default_rng(0), dict.fromkeys(("p0", "t0", "p1", "t1"), 1.0)

    def clock(names: Names) -> float:
        return alone(names) * level.get(names[0], 1.0) * (1.3 if len(names) > 1 else 1.0)

    b = Bench(DrawnMachine(GRAPH, clock), [P0T0, P1T1])
    trials = []
    for _ in range(24):
        for name in level:
            level[name] = float(rng.choice([1.0, 1.5]))
        b.run(400)
        trials.append(b.kinds().count(EventKind.PROPOSED))
    assert trials[-1] <= 9
    assert EventKind.SWAPPED not in b.kinds()
