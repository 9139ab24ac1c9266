"""Sessions of one process are one profile: of trees, of several networks, of closed ones, in bounds."""

from __future__ import annotations

import gc
import random
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from autotune.display import Displayed
from autotune.runtime.profile import registry as registry_module
from autotune.runtime.profile.durations import BOUNDS_SECONDS, NEWEST, DurationHistory
from autotune.runtime.profile.graph_profile import PAST_GROUPS, PastGroups
from autotune.runtime.profile.registry import Registry, registry
from autotune.runtime.profile.session_profile import SessionProfile
from autotune.runtime.session.session import Session
from tests.runtime import runtime_case as case
from tests.runtime.profile.test_graph_profile import FUSED, TABLE, timed
from tests.runtime.session.test_dynamic import LAYERS, saved
from tests.runtime.session.test_session import GRAPH, plan_for

PROFILE = case.SPEC.profile_id


def test_durations_equal_a_plain_recomputation() -> None:
    rng, history = np.random.default_rng(3), DurationHistory()
    took = (10 ** rng.uniform(3, 11, 3000)).astype(np.int64)
    for batch in np.array_split(took, 7):
        history.add(batch, 0, 10**9)
    found = history.durations(10**9)
    assert found.runs == len(took)
    assert found.total_seconds == pytest.approx(took.sum() * 1e-9)
    edges = [0, *(b * 1e9 for b in BOUNDS_SECONDS), np.inf]
    assert list(found.counts) == [
        int(((took > low) & (took <= high)).sum()) for low, high in pairwise(edges)
    ]
    newest = took[-NEWEST:] * 1e-9
    assert found.p50_seconds == pytest.approx(np.percentile(newest, 50))
    assert found.p99_seconds == pytest.approx(np.percentile(newest, 99))
    assert found.longest_seconds == pytest.approx(newest.max())


def test_graphs_of_one_run_are_counted_as_neighbours() -> None:
    history, drawn = SessionProfile(PROFILE, lambda: 0), random.Random(1)
    traces = {name: timed(t, [5] * len(t.group_steps)) for name, t in (("a", TABLE), ("b", FUSED))}
    ends = {
        n: (t.layout.steps[0].operators, t.layout.steps[-1].operators) for n, t in traces.items()
    }
    follows: Counter[object] = Counter()
    for _ in range(40):
        names = drawn.choices("ab", k=drawn.randint(1, 6))
        history.record_parts([traces[name] for name in names], 0, 9)
        follows.update((ends[x][1], ends[y][0]) for x, y in pairwise(names))
    assert {(p.first, p.second): p.runs for p in history.pairs()} == follows
    assert history.durations().runs == 40


def test_equal_groups_of_two_networks_are_one_row_with_both_names(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(registry_module, "_REGISTRY", Registry())
    other = case.network()
    object.__setattr__(other, "name", "twin")
    machine = case.InterpretedTarget()
    feeds = case.inputs(GRAPH)
    with (
        Session(GRAPH, machine, plan=plan_for(GRAPH)) as one,
        Session(other, machine, plan=plan_for(other)) as two,
    ):
        for _ in range(3):
            one.run(feeds)
        two.run(feeds)
        rows = registry().groups(PROFILE)
        mine = [row for row in rows if set(row.networks) >= {"small", "twin"}]
        assert len(mine) == len({step.key for step in one.table.group_steps})
        assert {row.executions for row in mine} == {4}
        status = one.status()
        assert {row.executions for row in status.groups} == {3}
        assert all(set(row.networks) == {"small", "twin"} for row in status.groups)
    after = [row for row in registry().groups(PROFILE) if set(row.networks) >= {"small", "twin"}]
    assert {row.executions for row in after} == {4}, "closed sessions leave their groups"
    assert {row.per_second for row in after} == {0.0}


def test_a_tree_of_control_flow_is_one_profile(tmp_path: Path) -> None:
    with Session(saved(tmp_path, LAYERS), "cpu:1") as session:
        feeds = {
            x.name: np.ones([n if isinstance(n, int) else 3 for n in x.shape], x.dtype)
            for x in session.inputs
        }
        executions: Counter[object] = Counter()
        for _ in range(5):
            trace = session.traced_run(feeds)[1]
            executions.update(run.step.key for run in trace.groups)
        rows = session.profile()
        assert {row.key: row.executions for row in rows} == executions
        status = session.status()
        assert status.durations.runs == 5
        assert status.parts == len(session.parts)
        assert isinstance(status, Displayed) and "runs 5" in repr(status)
    assert {row.key: row.executions for row in session.profile()} == executions


def test_dropped_sessions_leave_the_registry() -> None:
    session = Session(GRAPH, case.InterpretedTarget(), plan=plan_for(GRAPH))
    session.run(case.inputs(GRAPH))
    number = session.history.number
    assert number in {status.session for status in registry().statuses()}
    del session
    gc.collect()
    assert number not in {status.session for status in registry().statuses()}


def test_past_groups_are_bounded_and_the_newest_stay() -> None:
    past, profile = PastGroups(limit=3), SessionProfile(PROFILE, lambda: 0)
    profile.whole.record(timed(TABLE, [5] * len(TABLE.group_steps)), 0, 5)
    rows = profile.rows()
    assert len(rows) > 3
    past.add(rows)
    assert [row.key for row in past.rows()] == [row.key for row in reversed(rows[-3:])]
    past.add(rows[-1:])
    assert past.rows()[0].executions == 2
    assert PAST_GROUPS >= 1000


def test_statuses_are_told_while_sessions_open_run_and_close() -> None:
    machine, feeds = case.InterpretedTarget(), case.inputs(GRAPH)

    def work() -> None:
        for _ in range(5):
            with Session(GRAPH, machine, plan=plan_for(GRAPH)) as session:
                session.run(feeds)
                assert session.status().durations.runs == 1

    with ThreadPoolExecutor(3) as pool:
        works = [pool.submit(work) for _ in range(3)]
        while not all(one.done() for one in works):
            registry().statuses()
    for one in works:
        one.result()


def test_a_closed_registry_entry_is_closed_once() -> None:
    own, history = Registry(), SessionProfile(PROFILE, lambda: 0)
    own._writer.wake = lambda: None
    own.open(history, lambda: None)
    history.whole.record(timed(TABLE, [5] * len(TABLE.group_steps)), 0, 5)
    own.close(history)
    own.close(history)
    assert {row.executions for row in own.groups(PROFILE)} == {1}


def test_usage_is_the_share_of_runs_of_all_sessions_on_a_machine() -> None:
    own = Registry()
    own._writer.wake = lambda: None
    one, two, other = (SessionProfile(x, lambda: 10**9) for x in (PROFILE, PROFILE, "another"))
    for history in (one, two, other):
        own.open(history, lambda: None)
    assert own.usage(one) == 1.0, "nobody has run"
    trace = timed(TABLE, [5] * len(TABLE.group_steps))
    for history, runs in ((one, 3), (two, 1), (other, 96)):
        for _ in range(runs):
            history.whole.record(trace, 0, 10**9)
    assert own.usage(one) == pytest.approx(0.75)
    assert own.usage(two) == pytest.approx(0.25)
