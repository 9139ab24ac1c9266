"""Plans of less peak memory: their peaks fall, they cover the network, and sessions hold no more than they say."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from autotune import load_network
from autotune.graph.graph import Graph
from autotune.runtime.execution.drafts import Drafts
from autotune.runtime.execution.memory_plan import memory_plan
from autotune.runtime.execution.native_table import WholeNetworks
from autotune.runtime.in_place.whole_runs import WholeRuns
from autotune.runtime.session.plan_contest import draw_inputs
from autotune.runtime.variants.frugal import Plan, frugal_plans, loads_of
from autotune.runtime.variants.heuristic_schedules import HeuristicSchedules
from autotune.runtime.variants.variants import Groups, names_of
from autotune.targets.opening import target
from autotune.tuner.heuristic_plan import heuristic_choices

CPU = target("cpu:1")


def graph_of(name: str) -> Graph:
    return load_network(name, layout=CPU.spec.layout)


def plans_of(graph: Graph) -> list[Plan]:
    heuristic = heuristic_choices(graph, CPU.spec)
    return frugal_plans(Groups(graph), heuristic, HeuristicSchedules(CPU.spec))


@pytest.mark.parametrize("name", ["mlp", "transformer_block", "bert_layer"])
def test_peaks_fall_and_every_plan_covers_the_network(name: str) -> None:
    graph = graph_of(name)
    plans = plans_of(graph)
    assert len(plans) > 1
    assert {(names_of(c), c.schedule) for c in plans[0]} == {
        (names_of(c), c.schedule) for c in heuristic_choices(graph, CPU.spec)
    }
    for before, after in pairwise(plans):
        assert loads_of(after).peak_bytes < loads_of(before).peak_bytes
    for plan in plans:
        assert sorted(x for one in plan for x in names_of(one)) == sorted(
            op.name for op in graph.ops
        )


@pytest.mark.parametrize("name", ["transformer_block", "bert_layer"])
def test_the_arena_of_a_plan_is_as_small_as_its_peak_says(name: str) -> None:
    graph = graph_of(name)
    assert isinstance(CPU, WholeNetworks)
    drafts = Drafts(graph, CPU, CPU.spec)
    for plan in plans_of(graph):
        table = drafts.draft(plan).table(graph, CPU, CPU.workshop())
        assert memory_plan(table).bound_bytes == loads_of(plan).peak_bytes


def test_the_plan_of_least_peak_computes_the_same() -> None:
    graph = graph_of("transformer_block")
    plans = plans_of(graph)
    runs = WholeRuns(graph, CPU, draw_inputs(graph, {}, 0))
    assert runs.is_right(plans[0]) and runs.is_right(plans[-1])
    first, last = runs.execute(plans[0]), runs.execute(plans[-1])
    for name, value in last.items():
        np.testing.assert_allclose(value, first[name], rtol=1e-4, atol=1e-5)
