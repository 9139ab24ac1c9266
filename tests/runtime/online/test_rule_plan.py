"""Fusion by rule as one edit: what it replaces, when it is worth a trial, and how it is judged on live requests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from autotune.errors import AutotuneError
from autotune.runtime.execution.event import EventKind
from autotune.runtime.online.bursts import Haste
from autotune.runtime.online.open_trial import OpenTrial
from autotune.runtime.online.rule_plan import LEAST_GAIN, rule_edit
from autotune.runtime.variants.edits import Edit, EditKind, Grouping, choices_of
from autotune.runtime.variants.variants import Groups, Names, names_of
from autotune.tuner.choice import Choice
from tests.runtime.online.live_case import Bench, DrawnMachine, chain, grouped

GRAPH = chain()
FUSED: tuple[Names, ...] = (("p0", "t0"), ("p1", "t1"), ("p2", "t2"))
PLAN, BY_RULE = grouped(GRAPH), grouped(GRAPH, *FUSED)


def edit_for(
    plan: Sequence[Grouping],
    by_rule: Sequence[Grouping],
    factor: float = 0.5,
    sizes: dict[str, int] | None = None,
    longest: str = "",
) -> Edit | None:
    """The edit, where a fused group costs ``factor`` times what its operators cost alone. ``sizes`` are bytes by operator.

    All groups take a millisecond, but that of the operator that takes ``longest``.
    """

    def cost(choice: Choice) -> float:
        count = len(names_of(choice))
        return count * (factor if count > 1 else 1.0)

    def bytes_of(edit: Edit) -> int:
        return sum((sizes or {}).get(name, 0) for name in edit.names)

    groups = Groups(GRAPH)
    plans = choices_of(groups, plan), choices_of(groups, by_rule)
    seconds = {names: 2e-3 if longest in names else 1e-3 for names, _ in plan}
    return rule_edit(*plans, seconds, cost, bytes_of, 100)


def groups_of(groupings: Sequence[Grouping]) -> set[Names]:
    return {names for names, _ in groupings}


def test_it_replaces_all_groups_that_the_rule_fuses_otherwise_and_no_others() -> None:
    edit = edit_for(PLAN, BY_RULE)
    assert edit is not None and edit.kind is EditKind.BY_RULE and edit.is_everywhere
    assert groups_of(edit.removed) == {(name,) for names in FUSED for name in names}
    assert groups_of(edit.added) == set(FUSED)
    assert edit.gain_seconds == pytest.approx(0.5 * 6e-3)


def test_what_a_plan_fuses_more_than_the_rule_stays() -> None:
    assert edit_for(BY_RULE, PLAN, factor=2.0) is None


@pytest.mark.parametrize(("fused", "is_everywhere"), [(1, False), (2, False), (3, True)])
def test_it_is_judged_by_whole_runs_if_most_of_a_run_changes(
    fused: int, is_everywhere: bool
) -> None:
    edit = edit_for(PLAN, grouped(GRAPH, *FUSED[:fused]))
    assert edit is not None and edit.is_everywhere is is_everywhere


@pytest.mark.parametrize(("above", "is_made"), [(1.01, True), (0.99, False)])
def test_it_has_to_save_a_share_of_the_run_by_the_estimate(above: float, is_made: bool) -> None:
    share = above * LEAST_GAIN * len(PLAN) / 6  # six of the operators are fused
    assert (edit_for(PLAN, BY_RULE, 1.0 - share) is not None) is is_made


def test_groups_that_differ_by_their_schedule_alone_stay() -> None:
    names, schedule = PLAN[0]
    assert schedule is not None
    (nest,) = schedule.nests
    other = replace(schedule, nests=(replace(nest, cores=nest.cores + 1),))
    assert edit_for(((names, other), *PLAN[1:]), PLAN, factor=0.1) is None
    edit = edit_for(((("t3",), other), *PLAN[:-1]), BY_RULE)
    assert edit is not None and ("t3",) not in groups_of(edit.removed)


def test_constants_beyond_the_limit_stay_as_they_are_and_longer_places_come_first() -> None:
    sizes = {"p0": 60, "p1": 60, "p2": 40}
    for longest in ("p0", "p1"):
        edit = edit_for(PLAN, BY_RULE, sizes=sizes, longest=longest)
        assert edit is not None
        assert {"p0", "p1", "p2"} & edit.names == {longest, "p2"}


def test_one_place_above_the_limit_goes_alone() -> None:
    edit = edit_for(PLAN, BY_RULE, sizes=dict.fromkeys(("p0", "p1", "p2"), 101), longest="p1")
    assert edit is not None and groups_of(edit.added) == {FUSED[1]}


def test_it_has_one_key_whatever_it_replaces() -> None:
    edits = edit_for(PLAN, BY_RULE), edit_for(PLAN, grouped(GRAPH, FUSED[0]), 0.1)
    assert {edit.key for edit in edits if edit is not None} == {EditKind.BY_RULE.value}
    assert None not in edits


def clock(factor: float) -> DrawnMachine:
    return DrawnMachine(GRAPH, lambda x: 10.0 * len(x) * (factor if len(x) > 1 else 1.0))


def test_one_trial_brings_a_session_to_the_plan_that_is_better() -> None:
    edit = edit_for(PLAN, BY_RULE)
    assert edit is not None
    bench = Bench(clock(0.8), [edit])
    bench.run(1000)
    assert bench.kinds() == [EventKind.PROPOSED, EventKind.MEASURED, EventKind.SWAPPED]
    assert set(FUSED) <= bench.groups


def test_its_bursts_come_soon_unless_tuning_has_rested() -> None:
    edit = edit_for(PLAN, BY_RULE)
    assert edit is not None
    hastes = []
    for has_rested in (False, True):
        bench = Bench(clock(1.0), [edit])
        bench.tuner._rests.has_rested = has_rested
        bench.run(160)  # two windows: the plan in use is linked anew first
        opened = bench.tuner._open
        assert isinstance(opened, OpenTrial)
        hastes.append(opened.haste)
    assert hastes == [Haste.SOON, Haste.RARE]


def test_a_session_keeps_a_plan_that_is_better_than_the_rule() -> None:
    edit = edit_for(PLAN, BY_RULE)
    assert edit is not None
    bench = Bench(clock(1.2), [edit])
    bench.run(2000)
    assert bench.kinds() == [EventKind.PROPOSED, EventKind.MEASURED, EventKind.REFUSED]
    assert bench.groups == groups_of(PLAN)


def test_it_is_asked_for_once_even_where_asking_fails_and_after_drift() -> None:
    edit = edit_for(PLAN, BY_RULE)
    assert edit is not None
    refused, failed = Bench(clock(1.2), [edit]), Bench(clock(0.8), [edit])
    while not failed.proposer.seen:  # the plan in use is linked anew first
        failed.run(16)
    failed.proposer.fails = 1
    with pytest.raises(AutotuneError, match="the proposing process ended"):
        failed.run(200)
    refused.run(1000)
    for bench in (refused, failed):
        bench.tuner.drift()
        bench.run(1000)
        assert EventKind.SWAPPED not in bench.kinds()
    assert refused.kinds().count(EventKind.PROPOSED) == 1
    assert failed.kinds().count(EventKind.PROPOSED) == 0


def test_places_that_had_to_wait_are_fused_behind_the_first_ones_and_nothing_leads_back() -> None:
    first = edit_for(PLAN, grouped(GRAPH, *FUSED[:2]))
    second = edit_for(grouped(GRAPH, *FUSED[:2]), BY_RULE)
    assert first is not None and second is not None
    bench = Bench(clock(0.8), [first])
    while bench.published.current.plan_version == 0:
        bench.run(16)
    bench.proposer.edits = [second]
    bench.run(1000)
    assert bench.kinds().count(EventKind.SWAPPED) == 2
    assert set(FUSED) <= bench.groups
    assert bench.tuner._ledger.adopted == () and EventKind.SPLIT not in bench.kinds()
