"""The profile counts what ran in its window, and which group followed on which."""

from __future__ import annotations

from dataclasses import replace

from autotune.runtime.execution.execution import RunTrace, execute
from autotune.runtime.execution.profiler import Profiler
from autotune.runtime.execution.program_cache import ProgramCache
from autotune.runtime.execution.program_table import compile_table
from tests.runtime import runtime_case as case

GRAPH = case.network()
TABLE = compile_table(GRAPH, case.choices(GRAPH), case.SPEC, ProgramCache())
FUSED = compile_table(GRAPH, case.choices(GRAPH, ("product", "squash")), case.SPEC, ProgramCache())


def trace(table: object = TABLE, bandwidth: float = 8.0) -> RunTrace:
    target = case.InterpretedTarget()
    target.bandwidth = bandwidth
    return execute(table, target, case.inputs(GRAPH))[1]


def test_groups_are_counted_and_averaged_over_the_window() -> None:
    profiler = Profiler(window_runs=2)
    runs = [trace(bandwidth=b) for b in (1.0, 2.0, 4.0)]
    for one in runs:
        profiler.record(one)
    first = profiler.groups()[0]
    assert (first.operators, first.runs) == (("product",), 2)
    assert first.mean_cycles == sum(one.groups[0].execution.cycles for one in runs[1:]) / 2
    assert [row.operators for row in profiler.groups()] == [
        step.operators for step in TABLE.group_steps
    ]


def test_pairs_say_who_follows_whom_and_whether_data_passes() -> None:
    profiler = Profiler()
    for table in (TABLE, TABLE, FUSED):
        profiler.record(trace(table))
    pairs = {(p.first, p.second): p for p in profiler.pairs()}
    assert pairs[("product",), ("squash",)].runs == 2
    assert pairs[("product", "squash"), ("residual",)].runs == 1
    assert pairs[("product",), ("squash",)].through
    assert not pairs[("residual",), ("weigh",)].through
    assert profiler.pairs()[0].runs == 3


def test_the_newest_prediction_is_shown_with_its_error() -> None:
    profiler = Profiler()
    exact = {
        step.key: 2.0 * case.InterpretedTarget().time(step.program).cycles
        for step in TABLE.group_steps
    }
    profiler.record(trace())
    assert profiler.groups()[0].error is None
    profiler.record(trace(TABLE.with_predictions(exact, 1)))
    assert profiler.groups()[0].error == 1.0
    assert replace(profiler.groups()[0], mean_cycles=0).error is None
