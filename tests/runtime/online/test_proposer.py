"""The proposer: proposes by the profile, checks numbers on copies of inputs and edge values, in its own process too."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from autotune.errors import AutotuneError, ScheduleError
from autotune.graph.evaluation import evaluate
from autotune.operators.interval import Interval
from autotune.operators.tensor import Array
from autotune.runtime.execution.native_table import Draft
from autotune.runtime.online import idle_share, proposer_process, thread_priority
from autotune.runtime.online import proposer as proposer_module
from autotune.runtime.online.draft_transfer import DraftReceiver, DraftSender
from autotune.runtime.online.input_samples import KEPT, InputSamples, with_edges
from autotune.runtime.online.proposer import LocalProposer, Occasion
from autotune.runtime.online.proposer_process import ProposerProcess
from autotune.runtime.online.thread_priority import LOWEST, can_leave_idle
from autotune.runtime.variants.edits import EditKind, Grouping, edited, groupings_of
from autotune.targets.native.running.target import NativeTarget
from autotune.tuner.heuristic_plan import heuristic_choices
from tests.runtime.online.live_case import SPEC, chain, feeds, grouped, merge

GRAPH = chain(2)
TARGET = NativeTarget(SPEC)


def occasion(plan: Sequence[Grouping], **changes: object) -> Occasion:
    seconds = {names: 1e-5 for names, _ in plan}
    names = [names for names, _ in plan]
    pairs = dict.fromkeys(pairwise(names), 1.0)
    settled = frozenset({EditKind.BY_RULE.value})
    made = Occasion(tuple(plan), seconds, pairs, settled, [feeds(GRAPH)])
    return replace(made, **changes)


def local() -> LocalProposer:
    return LocalProposer(GRAPH, TARGET, SPEC, {})


def outputs(draft: Draft, fed: dict[str, Array]) -> dict[str, Array]:
    table = draft.table(GRAPH, TARGET)
    assert table.executable is not None
    return table.executable.run(fed)


def test_frequent_neighbours_that_pass_data_are_proposed_as_merges() -> None:
    versions = local().propose(occasion(grouped(GRAPH)))
    assert len(versions) > 1
    assert EditKind.MERGE in {edit.kind for version in versions for edit in version.edits}


def test_a_version_touches_no_group_twice_and_no_edit_is_in_two_versions() -> None:
    versions = local().propose(occasion(grouped(GRAPH)))
    for version in versions:
        assert sum(len(e.names) for e in version.edits) == len(
            frozenset().union(*(e.names for e in version.edits))
        )
    keys = [edit.key for version in versions for edit in version.edits]
    assert len(keys) == len(set(keys))


def test_an_unfused_plan_is_fused_by_rule_in_one_edit_and_computes_the_same() -> None:
    plan = grouped(GRAPH)
    (version,) = local().propose(occasion(plan, settled=frozenset()))
    (edit,) = version.edits
    assert edit.kind is EditKind.BY_RULE
    by_rule = groupings_of(heuristic_choices(GRAPH, SPEC))
    assert {names for names, _ in edited(plan, (edit,))} == {names for names, _ in by_rule}
    fed = feeds(GRAPH, 3)
    for name, value in evaluate(GRAPH, fed).items():
        np.testing.assert_allclose(outputs(version.draft, fed)[name], value, rtol=1e-4, atol=1e-5)


def test_a_plan_that_fuses_by_rule_gets_other_edits() -> None:
    plan = groupings_of(heuristic_choices(GRAPH, SPEC))
    versions = local().propose(occasion(plan, settled=frozenset()))
    kinds = {edit.kind for version in versions for edit in version.edits}
    assert kinds and EditKind.BY_RULE not in kinds


def test_where_no_rule_makes_a_plan_other_edits_are_proposed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def none(*_: object) -> None:
        raise ScheduleError("no schedule")

    monkeypatch.setattr(proposer_module, "heuristic_choices", none)
    versions = local().propose(occasion(grouped(GRAPH), settled=frozenset()))
    kinds = {edit.kind for version in versions for edit in version.edits}
    assert EditKind.MERGE in kinds and EditKind.BY_RULE not in kinds


def test_rare_pairs_are_not_merged() -> None:
    versions = local().propose(occasion(grouped(GRAPH), frequencies={}))
    assert EditKind.MERGE not in {edit.kind for version in versions for edit in version.edits}


def test_settled_edits_are_not_proposed_again() -> None:
    proposer, settled = local(), set[str]()
    for _ in range(50):
        versions = proposer.propose(occasion(grouped(GRAPH), settled=frozenset(settled)))
        if not versions:
            return
        keys = {edit.key for one in versions for edit in (*one.edits, *one.refused)}
        assert keys and settled.isdisjoint(keys)
        settled |= keys
    pytest.fail("proposals never end")


def test_a_screening_packs_no_more_constants_than_the_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    product = next(iter(GRAPH.constants.values()))
    monkeypatch.setattr(proposer_module, "MOST_BYTES", 2 * product.nbytes)
    versions = local().propose(occasion(grouped(GRAPH)))
    edits = [edit for version in versions for edit in version.edits]
    packed = sum(
        product.nbytes * sum(name.startswith("p") for name in edit.names) for edit in edits
    )
    assert 0 < packed <= 2 * product.nbytes


def test_an_edit_above_the_limit_is_proposed_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    product = next(iter(GRAPH.constants.values()))
    monkeypatch.setattr(proposer_module, "MOST_BYTES", product.nbytes - 1)
    versions = local().propose(occasion(grouped(GRAPH)))
    edits = [edit for version in versions for edit in version.edits]
    assert sum(any(name.startswith("p") for name in edit.names) for edit in edits) == 1


def test_a_version_computes_what_the_reference_computes() -> None:
    (version,) = local().propose(occasion(grouped(GRAPH), wishes=(merge(GRAPH, "p0", "t0"),)))
    fed = feeds(GRAPH, 3)
    for name, value in evaluate(GRAPH, fed).items():
        np.testing.assert_allclose(outputs(version.draft, fed)[name], value, rtol=1e-4, atol=1e-5)


def test_edits_that_compute_other_numbers_are_refused_and_the_others_stay(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    good, bad = merge(GRAPH, "p0", "t0"), merge(GRAPH, "p1", "t1")
    honest = proposer_module._Check.agrees

    def agrees(self: proposer_module._Check, draft: Draft) -> bool:
        groups = {step.group.ops[0].name for step in draft.steps if len(step.group.ops) > 1}
        return "p1" not in groups and honest(self, draft)

    monkeypatch.setattr(proposer_module._Check, "agrees", agrees)
    (version,) = local().propose(occasion(grouped(GRAPH), wishes=(good, bad)))
    assert version.edits == (good,)
    assert version.refused == (bad,)


def test_samples_are_copies_and_bounded() -> None:
    samples, fed = InputSamples(), feeds(GRAPH)
    first = fed["x"].copy()
    for _ in range(20):
        samples.offer(fed)
        fed["x"] += 1
    kept = samples.recorded()
    assert len(kept) == KEPT
    assert not any(np.shares_memory(one["x"], fed["x"]) for one in kept)
    assert not np.array_equal(kept[0]["x"], first)  # the newest stay


def test_edge_values_stay_within_ranges() -> None:
    cases = with_edges(GRAPH, {"x": Interval(0.25, 2.0)}, [feeds(GRAPH)])
    assert len(cases) == 5
    for case in cases[1:]:
        assert case["x"].min() >= 0.25
        assert case["x"].max() <= 2.0
    free = with_edges(GRAPH, {}, [feeds(GRAPH)])
    assert {float(case["x"].flat[0]) == 0 for case in free[1:]} == {True, False}


def test_what_travelled_once_stays_behind() -> None:
    proposer, sender, receiver = local(), DraftSender(), DraftReceiver()
    plan = grouped(GRAPH)
    (first,) = proposer.propose(occasion(plan, wishes=()))
    (second,) = proposer.propose(occasion(plan, wishes=(merge(GRAPH, "p0", "t0"),)))
    assert first is not None
    assert second is not None
    one, two = sender.send(first.draft), sender.send(second.draft)
    assert len(two.objects) < len(one.objects)
    received = [receiver.receive(one), receiver.receive(two)]
    fed = feeds(GRAPH, 4)
    for draft, made in zip((first.draft, second.draft), received, strict=True):
        for name, value in outputs(draft, fed).items():
            np.testing.assert_array_equal(outputs(made, fed)[name], value)


def test_another_process_proposes_the_same_and_may_be_ended_at_any_time() -> None:
    process = ProposerProcess(GRAPH, SPEC, {})
    wish = merge(GRAPH, "p0", "t0")
    (version,) = process.propose(occasion(grouped(GRAPH), wishes=(wish,)))
    assert version.edits == (wish,)
    fed = feeds(GRAPH, 5)
    for name, value in evaluate(GRAPH, fed).items():
        np.testing.assert_allclose(outputs(version.draft, fed)[name], value, rtol=1e-4, atol=1e-5)
    worker = process._worker
    assert worker is not None
    worker.process.kill()
    with pytest.raises(AutotuneError, match="proposing process ended"):
        process.propose(occasion(grouped(GRAPH), wishes=(wish,)))
    process.give_up()
    with pytest.raises(AutotuneError, match="closed"):
        process.propose(occasion(grouped(GRAPH), wishes=(wish,)))


@pytest.mark.skipif(not hasattr(signal, "SIGSTOP"), reason="no process can be stopped here")
@pytest.mark.skipif(sys.platform != "linux", reason="priorities of Linux")
@pytest.mark.skipif(not can_leave_idle(), reason="this user may not leave the idle class")
def test_the_process_runs_on_idle_cores_alone_until_it_is_starved(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    process = ProposerProcess(GRAPH, SPEC, {})
    try:
        process.propose(occasion(grouped(GRAPH), wishes=()))
        assert process._worker is not None
        number = process._worker.process.pid
        assert os.sched_getscheduler(number) == os.SCHED_IDLE
        assert os.getpriority(os.PRIO_PROCESS, number) == LOWEST
        with monkeypatch.context() as soon:
            soon.setattr(proposer_process, "WATCH_SECONDS", 0.02)
            soon.setattr(idle_share, "STARVED_SECONDS", 0.1)
            os.kill(number, signal.SIGSTOP)
            with ThreadPoolExecutor(1) as other:
                answer = other.submit(process.propose, occasion(grouped(GRAPH), wishes=()))
                end = time.monotonic() + 30
                try:
                    while os.sched_getscheduler(number) != os.SCHED_OTHER:
                        assert time.monotonic() < end, "a process that gets nothing is hurried"
                        time.sleep(0.01)
                finally:
                    os.kill(number, signal.SIGCONT)
                assert answer.result()
        assert os.sched_getscheduler(number) == os.SCHED_IDLE
    finally:
        process.close()


@pytest.mark.skipif(sys.platform != "linux", reason="priorities of Linux")
@pytest.mark.parametrize("may_leave", [False, True])
def test_a_worker_yields_from_its_first_import_on(
    monkeypatch: pytest.MonkeyPatch, may_leave: bool
) -> None:
    monkeypatch.setattr(thread_priority, "can_leave_idle", lambda: may_leave)
    started: list[tuple[int, int]] = []

    def look(worker: ProposerProcess, line: object) -> None:
        process = worker._worker
        assert process is not None
        pid = process.process.pid
        started.append((os.sched_getscheduler(pid), os.getpriority(os.PRIO_PROCESS, pid)))
        raise OSError("seen")

    monkeypatch.setattr(ProposerProcess, "_open", look)
    with pytest.raises(AutotuneError, match="seen"):
        ProposerProcess(GRAPH, SPEC, {}).propose(occasion(grouped(GRAPH), wishes=()))
    policy = os.SCHED_IDLE if may_leave else os.SCHED_OTHER
    assert started == [(policy, thread_priority.LOWEST)]


@pytest.mark.skipif(sys.platform != "linux", reason="priorities of Linux")
def test_who_may_not_leave_the_idle_class_stays_out_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(thread_priority, "can_leave_idle", lambda: False)
    other = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        for is_idle in (False, True):
            thread_priority.set_idle(other.pid, is_idle)
            assert os.sched_getscheduler(other.pid) == os.SCHED_OTHER
    finally:
        other.kill()
        other.communicate()


def test_a_process_that_hangs_is_ended_and_another_takes_its_place(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    process = ProposerProcess(GRAPH, SPEC, {})
    assert process.propose(occasion(grouped(GRAPH), wishes=()))
    worker = process._worker
    assert worker is not None
    worker.process.send_signal(signal.SIGSTOP)
    with monkeypatch.context() as soon:
        soon.setattr(proposer_process, "LIMIT_SECONDS", 0.05)
        with pytest.raises(
            AutotuneError, match=r"proposing process ended: no answer after 0\.05 s"
        ):
            process.propose(occasion(grouped(GRAPH), wishes=()))
    assert worker.process.returncode is not None
    assert process.propose(occasion(grouped(GRAPH), wishes=()))
    process.give_up()


def test_half_an_answer_is_not_read_on(monkeypatch: pytest.MonkeyPatch) -> None:
    process = ProposerProcess(GRAPH, SPEC, {})

    def short_of_memory(*_: object) -> object:
        raise MemoryError

    with monkeypatch.context() as short:
        short.setattr(DraftReceiver, "receive", short_of_memory)
        with pytest.raises(MemoryError):
            process.propose(occasion(grouped(GRAPH), wishes=()))
    assert process._worker is None
    assert process.propose(occasion(grouped(GRAPH), wishes=()))
    process.give_up()


def test_a_plan_as_names_is_the_plan() -> None:
    (version,) = local().propose(occasion(grouped(GRAPH), wishes=()))
    table = version.draft.table(GRAPH, TARGET)
    assert groupings_of(table.choices) == grouped(GRAPH)
