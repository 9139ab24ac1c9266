"""Counts, means and spreads of a profile are those of all recorded runs, computed plainly."""

from __future__ import annotations

import threading
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotune.runtime.execution.execution import RunTrace, TimedGroups, execute
from autotune.runtime.execution.program_cache import ProgramCache
from autotune.runtime.execution.program_table import (
    CurrentTable,
    ProgramTable,
    TableLayout,
    compile_table,
)
from autotune.runtime.profile import graph_profile
from autotune.runtime.profile.fading import HALF_LIFE_RUNS
from autotune.runtime.profile.graph_profile import GraphProfile
from autotune.runtime.profile.table_history import (
    MOST_UNTIMED,
    PENDING_RUNS,
    PENDING_TIMED,
    SHARE,
    TAKE_IN_SECONDS,
    untimed_runs,
)
from tests.runtime import runtime_case as case

GRAPH = case.network()
CACHE = ProgramCache()
TABLE = compile_table(GRAPH, case.choices(GRAPH), case.SPEC, CACHE)
FUSED = compile_table(GRAPH, case.choices(GRAPH, ("product", "squash")), case.SPEC, CACHE)
SECOND = 10**9
LONG_NS = 10**7
"""Of runs that take so long, the groups of each are timed."""


def counted(table: ProgramTable = TABLE, bandwidth: float = 8.0) -> RunTrace:
    target = case.InterpretedTarget()
    target.bandwidth = bandwidth
    return execute(table, target, case.inputs(GRAPH))[1]


def timed(table: ProgramTable, nanoseconds: list[int], clock_hz: float = 2e9) -> RunTrace:
    groups = TimedGroups(table, clock_hz, np.array(nanoseconds, np.int64))
    return RunTrace(groups, 0, 0, table.layout)


def plain_moments(values: list[float]) -> tuple[float, float]:
    """Mean and deviation of values of which the newest weighs 1."""
    weights = [0.5 ** (age / HALF_LIFE_RUNS) for age in range(len(values))][::-1]
    mean = float(np.average(values, weights=weights))
    return mean, float(np.sqrt(np.average((np.array(values) - mean) ** 2, weights=weights)))


RUNS = st.lists(
    st.tuples(st.sampled_from((TABLE, FUSED)), st.integers(1, 10**6)), min_size=1, max_size=60
)


@settings(deadline=None)
@given(RUNS, st.data())
def test_rows_equal_a_plain_recomputation_over_all_traces(
    runs: list[tuple[ProgramTable, int]], data: st.DataObject
) -> None:
    """Readers come between runs, as they add up what is pending."""
    profile, told = GraphProfile(), []
    for at, (table, scale) in enumerate(runs):
        nanoseconds = [scale + 7 * i for i in range(len(table.group_steps))]
        told.append(timed(table, nanoseconds))
        profile.record(told[-1], at * SECOND, at * SECOND + LONG_NS + scale)
        if data.draw(st.booleans()):
            profile.rows(at * SECOND)
    executions: Counter[object] = Counter()
    cycles: dict[object, list[float]] = {}
    for trace in told:
        for run in trace.groups:
            executions[run.step.key] += 1
            cycles.setdefault(run.step.key, []).append(run.execution.cycles)
    rows = profile.rows(len(runs) * SECOND)
    assert {row.key: row.executions for row in rows} == executions
    for row in rows:
        rounded = len(cycles[row.key]) / 2
        assert abs(row.total_cycles - sum(cycles[row.key])) <= rounded + 1
        assert row.newest_cycles == cycles[row.key][-1]
        if all(table is runs[0][0] for table, _ in runs):
            mean, deviation = plain_moments(cycles[row.key])
            assert row.mean_cycles == pytest.approx(mean, rel=1e-9, abs=0.5)
            assert row.deviation_cycles == pytest.approx(deviation, rel=1e-6, abs=1e-6 * mean)


@settings(deadline=None)
@given(RUNS)
def test_pairs_equal_a_plain_recount(runs: list[tuple[ProgramTable, int]]) -> None:
    profile = GraphProfile()
    follows: Counter[object] = Counter()
    together: Counter[object] = Counter()
    for table, scale in runs:
        profile.record(timed(table, [scale] * len(table.group_steps)), 0, scale)
        names = [step.operators for step in table.group_steps]
        follows.update(pairwise(names))
        together.update((a, b) for i, a in enumerate(names) for b in names[i + 1 :])
    pairs = profile.pairs()
    assert {(p.first, p.second): p.runs for p in pairs if p.runs} == follows
    assert all(p.together == together[p.first, p.second] for p in pairs)
    assert [p.runs for p in pairs] == sorted((p.runs for p in pairs), reverse=True)


def test_pairs_say_whether_data_passes() -> None:
    profile = GraphProfile()
    profile.record(counted(), 0, 1)
    pairs = {(p.first, p.second): p for p in profile.pairs()}
    assert pairs[("product",), ("squash",)].through
    assert not pairs[("residual",), ("weigh",)].through, "a view lies between them"


def test_more_runs_than_a_batch_are_all_counted() -> None:
    profile, runs = GraphProfile(), 2 * PENDING_RUNS + 5
    rng = np.random.default_rng(0)
    cycles = []
    for _ in range(runs):
        nanoseconds = rng.integers(10**8, 10**8 + 1000, len(TABLE.group_steps)).tolist()
        cycles.append(nanoseconds[0])
        profile.record(timed(TABLE, nanoseconds, 1e9), 0, LONG_NS)
    assert all(len(one.took_ns) < PENDING_RUNS for one in profile._tables.values())
    row = profile.rows(1)[0]
    assert row.executions == runs and row.total_cycles == sum(cycles)
    mean, deviation = plain_moments(cycles)
    assert row.mean_cycles == pytest.approx(mean, rel=1e-12)
    assert row.deviation_cycles == pytest.approx(deviation, rel=1e-6), (
        "sums of squares would cancel"
    )


def test_of_short_runs_some_are_timed_and_all_are_counted() -> None:
    took: list[int] = []
    profile = GraphProfile(lambda durations, *_: took.extend(durations.tolist()))
    rng = np.random.default_rng(0)
    batch = PENDING_TIMED * (MOST_UNTIMED + 1)
    runs, totals = PENDING_RUNS + 10 * batch, 0
    nanoseconds = rng.integers(20_000, 40_000, (runs, len(TABLE.group_steps)))
    groups = timed(TABLE, nanoseconds[0].tolist(), 1e9).groups
    assert isinstance(groups, TimedGroups)
    history = profile._opened(groups, 0)
    timed_runs, most = 0, 0
    for row in nanoseconds.tolist():
        before = len(history.pending)
        profile.record(timed(TABLE, row, 1e9), 0, sum(row))
        timed_runs += len(history.pending) > before
        most = max(most, len(history.took_ns))
        totals += row[0]
    first_batch = PENDING_RUNS - 1  # the last of a batch adds up and leaves nothing
    assert timed_runs == first_batch + 10 * PENDING_TIMED
    assert most == batch - 1, "short runs are added up in larger batches"
    first = profile.rows(1)[0]
    assert first.executions == runs and took == nanoseconds.sum(axis=1).tolist()
    assert first.total_cycles == pytest.approx(totals, rel=0.03)
    assert first.mean_cycles == pytest.approx(30_000, rel=0.03)


@given(st.floats(1e-9, 10.0))
def test_the_times_of_groups_cost_a_thousandth_of_a_run(seconds: float) -> None:
    untimed = untimed_runs(seconds)
    assert untimed & (untimed + 1) == 0, "runs are told apart by their low bits"
    assert untimed == MOST_UNTIMED or TAKE_IN_SECONDS / (untimed + 1) <= SHARE * seconds * (
        1 + 1e-9
    )
    assert untimed == 0 or TAKE_IN_SECONDS / (untimed + 1) > SHARE * seconds / 2


def test_old_costs_fade_with_newer_runs_also_across_tables() -> None:
    profile = GraphProfile()
    for _ in range(100):
        profile.record(timed(TABLE, [10**6] * len(TABLE.group_steps), 1e9), 0, 1)
    for _ in range(20 * HALF_LIFE_RUNS):
        profile.record(timed(FUSED, [1000] * len(FUSED.group_steps), 1e9), 0, 1)
    shared = {step.key for step in TABLE.group_steps} & {step.key for step in FUSED.group_steps}
    assert shared
    for row in profile.rows(1):
        if row.key in shared:
            assert row.mean_cycles == pytest.approx(1000, rel=0.01)
            assert row.executions == 100 + 20 * HALF_LIFE_RUNS


def test_rates_follow_the_clock() -> None:
    profile = GraphProfile()
    for at in range(600):
        profile.record(timed(TABLE, [5] * len(TABLE.group_steps)), at * SECOND, at * SECOND + 5)
    row = profile.rows(600 * SECOND)[0]
    assert row.per_second == pytest.approx(1.0, rel=0.02)
    assert profile.rows(660 * SECOND)[0].per_second == pytest.approx(0.5, rel=0.02)
    assert profile.rows(3600 * SECOND)[0].per_second < 1e-9, "a group that stopped is rare"


def test_counters_and_traffic_are_averaged_where_the_machine_counts() -> None:
    profile = GraphProfile()
    traces = [counted(bandwidth=b) for b in (1.0, 2.0, 4.0)]
    for trace in traces:
        profile.record(trace, 0, 1)
    row, costs = profile.rows(1)[0], [trace.groups[0].execution for trace in traces]
    for got, values in (
        (row.mean_cycles, [c.cycles for c in costs]),
        (row.mean_energy_fj, [c.energy_fj for c in costs]),
        (row.mean_dram_bytes, [c.dram_bytes for c in costs]),
        (row.counters["cycles_compute"], [c.counters["cycles_compute"] for c in costs]),
    ):
        assert got == pytest.approx(plain_moments(values)[0])


def test_what_no_machine_counted_is_unknown_and_not_nothing() -> None:
    profile = GraphProfile()
    profile.record(timed(TABLE, [5] * len(TABLE.group_steps)), 0, 5)
    row = profile.rows(1)[0].document()
    assert row["mean_energy_fj"] is None and row["mean_dram_bytes"] is None
    profile = GraphProfile()
    profile.record(counted(bandwidth=1.0), 0, 1)
    assert profile.rows(1)[0].document()["mean_energy_fj"] > 0


def test_the_newest_prediction_is_shown_with_its_error() -> None:
    profile = GraphProfile()
    exact = {
        step.key: 2.0 * case.InterpretedTarget().time(step.program).cycles
        for step in TABLE.group_steps
    }
    profile.record(counted(), 0, 1)
    assert profile.rows(1)[0].error is None
    profile.record(counted(TABLE.with_predictions(exact, 1)), 1, 2)
    assert profile.rows(2)[0].error == 1.0


def test_altered_groups_are_rows_of_their_own() -> None:
    profile = GraphProfile()
    altered = compile_table(GRAPH, case.choices(GRAPH), case.SPEC, CACHE)
    object.__setattr__(altered, "altered", frozenset({0}))
    profile.record(timed(TABLE, [10] * len(TABLE.group_steps)), 0, 1)
    profile.record(timed(altered, [20] * len(TABLE.group_steps)), 1, 2)
    first = [row for row in profile.rows(2) if row.operators == ("product",)]
    assert sorted((row.is_altered, row.executions, row.mean_cycles) for row in first) == [
        (False, 1, 20.0),
        (True, 1, 40.0),
    ]


def test_ever_new_tables_leave_bounded_rows_and_no_count_is_lost() -> None:
    profile, current = GraphProfile(), CurrentTable(TABLE)
    for i in range(50):
        table = current.swap((TABLE, FUSED)[i % 2])
        profile.record(timed(table, [100] * len(table.group_steps)), i, i + 1)
    rows = {row.operators: row for row in profile.rows(50)}
    assert len(profile._tables) == graph_profile.TABLES_KEPT
    assert rows["weigh",].executions == 50
    assert rows["product", "squash"].executions == 25
    assert rows["product", "squash"].origin.value == "merged"


def test_threads_lose_no_run() -> None:
    profile, runs = GraphProfile(), 2 * PENDING_RUNS
    trace = timed(TABLE, [100] * len(TABLE.group_steps))

    def work() -> None:
        for _ in range(runs):
            profile.record(trace, 0, 1)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for _ in range(20):
        profile.rows(1)
    for thread in threads:
        thread.join()
    assert {row.executions for row in profile.rows(1)} == {4 * runs}


def test_a_network_of_views_is_counted_though_it_has_no_groups() -> None:
    took: list[int] = []
    profile = GraphProfile(lambda durations, *_: took.extend(durations.tolist()))
    layout = TableLayout("views", (), frozenset(), ())
    groups = timed(TABLE, [5] * len(TABLE.group_steps)).groups
    assert isinstance(groups, TimedGroups)
    groups.layout, groups.nanoseconds = layout, np.array([], np.int64)
    for _ in range(PENDING_RUNS + 1):
        profile.record(RunTrace(groups, 0, 0, layout), 0, 7)
    assert profile.rows(8) == ()
    assert took == [7] * (PENDING_RUNS + 1)
