"""Placements: never worse than one device, never below the bounds, best where all were tried."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotune.errors import InputError
from autotune.targets.link_spec import LinkSpec
from autotune.tuner.placement.balance import GAP, balanced
from autotune.tuner.placement.bounds import bounds
from autotune.tuner.placement.costed_graph import CostedGraph, Placement, Read, Task, joined
from autotune.tuner.placement.heft import heft, upward_ranks
from autotune.tuner.placement.local_search import annealed
from autotune.tuner.placement.objective import Serving
from autotune.tuner.placement.placing import busiest_seconds, period_seconds, place, starts
from autotune.tuner.placement.simulation import Simulation
from tests.tuner.placement.drawn_costs import costed_graphs, placed_graphs

ROUNDING = 1 + 1e-9


@given(placed_graphs())
def test_no_placement_undercuts_the_bounds(drawn: tuple[CostedGraph, Placement]) -> None:
    graph, placement = drawn
    least = bounds(graph)
    assert least.path_seconds <= least.reach_seconds * ROUNDING
    seconds = Simulation(graph, upward_ranks(graph)).seconds(placement)
    assert least.seconds <= seconds * ROUNDING + 1e-15
    assert least.load_seconds <= period_seconds(graph, placement, 3) * ROUNDING + 1e-15


@given(costed_graphs(), st.sampled_from(Serving))
@settings(max_examples=40)
def test_a_placement_is_never_worse_than_one_device(graph: CostedGraph, serving: Serving) -> None:
    found = place(graph, serving, evaluations=60)
    own = found.makespan_seconds, found.period_seconds
    which = 0 if serving is Serving.LATENCY else 1
    assert all(own[which] <= single[which] * ROUNDING for single in found.singles.values())
    assert all(d in task.places for d, task in zip(found.placement, graph.tasks, strict=True))


@given(costed_graphs(most_tasks=4))
@settings(max_examples=40)
def test_of_a_small_graph_the_best_placement_is_found(graph: CostedGraph) -> None:
    run = Simulation(graph, upward_ranks(graph))
    best = min(map(run.seconds, product(*(task.places for task in graph.tasks))))
    found = place(graph)
    assert found.is_best
    assert found.makespan_seconds == best


@given(placed_graphs())
@settings(max_examples=40)
def test_no_placement_is_busier_by_less_than_the_balance(
    drawn: tuple[CostedGraph, Placement],
) -> None:
    graph, placement = drawn
    found = balanced(graph)
    least = busiest_seconds(graph, placement)
    assert found.bound_seconds <= least * (1 + 1e-6) + 1e-12
    assert found.bound_seconds <= period_seconds(graph, placement, 4) * (1 + 1e-6) + 1e-12
    assert found.placement is not None
    own = busiest_seconds(graph, found.placement)
    assert own <= found.bound_seconds * (1 + 2 * GAP) + 1e-9


@given(costed_graphs(), st.integers(0, 3))
@settings(max_examples=30)
def test_annealing_repeats_with_its_seed_and_keeps_the_best_start(
    graph: CostedGraph, seed: int
) -> None:
    ranks = upward_ranks(graph)
    run = Simulation(graph, ranks)
    begin = starts(graph, ranks)
    first, second = (
        annealed(graph, run.seconds, begin, np.random.default_rng(seed), 50) for _ in range(2)
    )
    assert first == second
    assert first.seconds <= min(map(run.seconds, begin))


@given(costed_graphs())
@settings(max_examples=30)
def test_requests_side_by_side_may_go_to_different_devices(graph: CostedGraph) -> None:
    pair = joined([graph, graph])
    placement = heft(pair, upward_ranks(pair))
    assert all(d in task.places for d, task in zip(placement, pair.tasks, strict=True))


@given(costed_graphs(most_tasks=4))
@settings(max_examples=20)
def test_requests_that_arrive_together_are_placed_as_one(graph: CostedGraph) -> None:
    pair = joined([graph, graph])
    found = place(pair, evaluations=60)
    assert found.makespan_seconds >= found.bounds.seconds / ROUNDING
    assert all(found.makespan_seconds <= one * ROUNDING for one, _ in found.singles.values())
    together = pair.as_one_request()
    run = Simulation(together, upward_ranks(together))
    assert run.seconds(found.placement) == pytest.approx(found.makespan_seconds)


def test_the_request_with_most_to_do_goes_first_whenever_it_came() -> None:
    free = LinkSpec(1e12, 0.0)
    links = ((None, free), (free, None))
    short = CostedGraph(("a", "b"), links, (Task("short", (2.0, None), ()),))
    begin, end = Task("begin", (1.0, None), ()), Task("end", (None, 5.0), (Read(0, "x", 8),))
    long = CostedGraph(("a", "b"), links, (begin, end))
    for requests in ([short, long], [long, short]):
        found = place(joined(requests))
        assert found.makespan_seconds == pytest.approx(6.0, abs=1e-6), "in turns it takes 8"


def test_an_unknown_way_of_serving_is_refused() -> None:
    with pytest.raises(InputError, match="serving 'speed' is not one of: latency, throughput"):
        Serving.parse("speed")
