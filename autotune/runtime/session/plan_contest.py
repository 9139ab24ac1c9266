"""The last step of a search on a machine that is timed: whole runs of its plan and of the heuristic one."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from autotune.errors import AutotuneError
from autotune.graph.evaluation import evaluate
from autotune.graph.graph import Graph
from autotune.operators.interval import Interval
from autotune.operators.tensor import Array
from autotune.runtime.builder.limits import NO_LIMITS, BuildLimits
from autotune.runtime.execution.execution import execute
from autotune.runtime.execution.program_table import ProgramTable
from autotune.runtime.execution.random_inputs import draw_graph_inputs
from autotune.runtime.online.agreement import agree
from autotune.runtime.session.initial_table import initial_table
from autotune.runtime.session.opening import OpenedGraph
from autotune.targets.protocol import Target
from autotune.tuner.contest import SECONDS, Contest, hold_contest
from autotune.tuner.graph_plan import GraphPlan
from autotune.tuner.progress import Progress, silent
from autotune.tuner.result import GraphSearch

WARM_UP = 3
"""Runs of each plan before the contest: the first ones fill caches and memory."""


def keep_faster_plan(
    search: GraphSearch,
    graph: Graph,
    target: Target,
    ranges: Mapping[str, Interval],
    seed: int,
    progress: Progress | None = None,
    build: BuildLimits = NO_LIMITS,
    seconds: float = SECONDS,
) -> GraphSearch:
    """Return the search with its plan, or with the heuristic plan unless the search's is shown to be faster.

    Both run in turns on inputs drawn by ``seed`` within ``ranges``. A plan whose outputs differ from the
    heuristic plan's and from the reference's loses. Without a heuristic plan the search is returned as it is.
    Plans are built within ``build``; the next look after ``seconds``, building included, ends the contest.
    """
    heuristic = search.heuristic
    if heuristic is None or heuristic.scheduled == search.found.scheduled:
        return search
    heard = silent if progress is None else progress
    heard("compare", 0, 1)
    kept = with_heuristic_plan(search)
    contest = _hold(search.plan, kept.plan, graph, target, ranges, seed, build, seconds)
    heard("compare", 1, 1)
    if contest is not None and contest.is_won:
        return replace(search, contest=contest)
    return replace(kept, contest=contest)


def with_heuristic_plan(search: GraphSearch) -> GraphSearch:
    """Return the search with its heuristic plan as the found one; as it is where it has none."""
    heuristic = search.heuristic
    if heuristic is None:
        return search
    groups = tuple(group.planned() for group in heuristic.groups)
    plan = GraphPlan(search.plan.graph, search.plan.fingerprint, groups)
    return replace(search, plan=plan, found=heuristic)


def _hold(
    found: GraphPlan,
    heuristic: GraphPlan,
    graph: Graph,
    target: Target,
    ranges: Mapping[str, Interval],
    seed: int,
    build: BuildLimits,
    seconds: float,
) -> Contest | None:
    """Hold the contest; None where the found plan cannot run, or its outputs are wrong."""
    begin, inputs = time.monotonic(), draw_inputs(graph, ranges, seed)
    try:
        tables = [
            initial_table(OpenedGraph(graph, plan, ranges), target, None, False, build).table
            for plan in (heuristic, found)
        ]
        expected, outputs = (execute(table, target, inputs)[0] for table in tables)
    except AutotuneError:
        return None
    if not agree(outputs, expected) and not agree(outputs, evaluate(graph, inputs)):
        return None
    runs = [_Run(table, target, inputs) for table in tables]
    for run in runs * WARM_UP:
        run()
    return hold_contest(*runs, seconds=seconds - (time.monotonic() - begin))


def draw_inputs(graph: Graph, ranges: Mapping[str, Interval], seed: int) -> dict[str, Array]:
    """Return inputs of a graph within their ranges, drawn by ``seed``: C-contiguous float32 by name."""
    drawn = draw_graph_inputs(graph, np.random.default_rng(seed))
    arrays = {x: np.ascontiguousarray(value, np.float32) for x, value in drawn.items()}
    return arrays | {x: np.clip(arrays[x], r.low, r.high) for x, r in ranges.items()}


class _Run:
    """Runs a table on the same inputs; each call returns seconds."""

    def __init__(self, table: ProgramTable, target: Target, inputs: Mapping[str, Array]) -> None:
        self._table, self._target, self._inputs = table, target, inputs

    def __call__(self) -> float:
        begin = time.perf_counter()
        execute(self._table, self._target, self._inputs)
        return time.perf_counter() - begin
