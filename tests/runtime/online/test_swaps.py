"""Swaps under load on this machine: right answers, no failed request, no wait, and memory that goes."""

from __future__ import annotations

import gc
import threading
import time
import weakref
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from autotune.runtime.execution.drafts import Drafts
from autotune.runtime.execution.execution import execute
from autotune.runtime.execution.program_table import CurrentTable
from autotune.runtime.session.session import Session
from autotune.runtime.variants.edits import choices_of
from autotune.runtime.variants.variants import Groups
from autotune.targets.native.running.target import NativeTarget
from autotune.targets.opening import load_spec
from tests.runtime.online.live_case import SPEC, chain, feeds, grouped

GRAPH = chain(2)
PLANS = (grouped(GRAPH), grouped(GRAPH, ("p0", "t0")), grouped(GRAPH, ("p0", "t0"), ("p1", "t1")))


@pytest.mark.parametrize("threads", [1, 2])
def test_a_thousand_swaps_under_four_threads(threads: int) -> None:
    target = NativeTarget(load_spec(f"cpu:{threads}"))
    drafts, groups, workshop = Drafts(GRAPH, target, SPEC), Groups(GRAPH), target.workshop()
    made = [drafts.draft(choices_of(groups, plan)) for plan in PLANS]
    published = CurrentTable(made[0].table(GRAPH, target, workshop))
    cases = [feeds(GRAPH, seed) for seed in range(8)]
    expected = [execute(published.current, target, case)[0] for case in cases]
    is_over = threading.Event()

    def serve(number: int) -> int:
        count = 0
        while not is_over.is_set() or count == 0:
            at = (number + count) % len(cases)
            outputs, trace = execute(published.current, target, cases[at])
            assert len(trace.groups) in (2, 3, 4)
            for name, value in expected[at].items():
                np.testing.assert_allclose(outputs[name], value, rtol=1e-5, atol=1e-6)
            count += 1
            # four threads that never rest keep the interpreter from a fifth, on some kernels for 0.1 s each time
            time.sleep(0)
        return count

    gone: list[weakref.ref[object]] = []
    with ThreadPoolExecutor(4) as pool:
        serving = [pool.submit(serve, number) for number in range(4)]
        for turn in range(1000):
            gone.append(weakref.ref(published.current.executable))
            published.swap(made[turn % 3].table(GRAPH, target, workshop))
        is_over.set()
        counts = [one.result() for one in serving]
    assert published.current.plan_version == 1000
    assert min(counts) > 0
    gc.collect()
    assert [one() for one in gone if one() is not None] == []


def test_requests_do_not_take_the_lock_that_orders_swaps() -> None:
    target = NativeTarget(SPEC)
    drafts = Drafts(GRAPH, target, SPEC)
    table = drafts.draft(choices_of(Groups(GRAPH), PLANS[0])).table(GRAPH, target)
    published = CurrentTable(table)
    with published._writers, ThreadPoolExecutor(1) as pool:
        run = pool.submit(lambda: execute(published.current, target, feeds(GRAPH)))
        assert run.result(timeout=30)


def test_a_linker_forgets_what_no_version_needs() -> None:
    target = NativeTarget(SPEC)
    drafts, groups, workshop = Drafts(GRAPH, target, SPEC), Groups(GRAPH), target.workshop()
    one, two = (drafts.draft(choices_of(groups, plan)) for plan in PLANS[::2])
    first, second = (draft.table(GRAPH, target, workshop) for draft in (one, two))
    case = feeds(GRAPH)
    before = execute(first, target, case)[0]
    workshop.linker.keep(one.programs)
    linked = {row[0].program.name for row in workshop.linker._linked.values()}
    assert linked == {program.program.name for program in one.programs}
    del second
    gc.collect()
    for name, value in execute(first, target, case)[0].items():
        np.testing.assert_array_equal(value, before[name])


def test_a_session_learns_here_while_threads_use_it() -> None:
    graph = chain(3)
    with Session(graph, "cpu:1", online=True) as session, ThreadPoolExecutor(2) as pool:
        cases = [feeds(graph, seed) for seed in range(4)]
        expected = [session.reference_outputs(case) for case in cases]
        for outputs, wanted in pool.map(
            lambda i: (session.run(cases[i % 4]), expected[i % 4]), range(2000)
        ):
            for name, value in wanted.items():
                np.testing.assert_allclose(outputs[name], value, rtol=1e-4, atol=1e-5)
