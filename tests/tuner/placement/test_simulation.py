"""Timelines: nothing overlaps on a device or a link, and nothing is read before it arrives."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given

from autotune.targets.link_spec import LinkSpec
from autotune.tuner.placement.costed_graph import (
    CostedGraph,
    Memory,
    Placement,
    Read,
    Task,
    joined,
    repeated,
)
from autotune.tuner.placement.heft import upward_ranks
from autotune.tuner.placement.placing import busiest_seconds
from autotune.tuner.placement.simulation import Simulation
from autotune.tuner.placement.timeline import Timeline
from tests.tuner.placement.drawn_costs import placed_graphs

Placed = tuple[CostedGraph, Placement]
LINK = LinkSpec(1e6, 0.5)


def check(graph: CostedGraph, placement: Placement, timeline: Timeline) -> None:
    """Assert that a timeline keeps every rule of a schedule."""
    for number, (task, slot) in enumerate(zip(graph.tasks, timeline.slots, strict=True)):
        assert (slot.task, slot.device) == (number, placement[number])
        least = slot.begin_seconds + task.cost(slot.device)
        assert slot.end_seconds == least or (
            graph.memories and slot.end_seconds >= least * (1 - 1e-9)
        )
    arrived = {(x.producer, x.tensor, x.destination): x for x in timeline.transfers}
    assert len(arrived) == len(timeline.transfers), "a tensor goes to a device once"
    for task, slot in zip(graph.tasks, timeline.slots, strict=True):
        for read in task.reads:
            made = timeline.slots[read.producer]
            assert made.end_seconds <= slot.begin_seconds
            if made.device != slot.device:
                way = arrived[read.producer, read.tensor, slot.device]
                assert made.end_seconds <= way.begin_seconds
                assert way.end_seconds <= slot.begin_seconds
                seconds = graph.transfer_seconds(way.source, way.destination, read.size_bytes)
                assert way.end_seconds == way.begin_seconds + seconds
    spans: dict[object, list[tuple[float, float]]] = {}
    for slot in timeline.slots:
        spans.setdefault(slot.device, []).append((slot.begin_seconds, slot.end_seconds))
    for one in timeline.transfers:
        way_key = one.source, one.destination
        spans.setdefault(way_key, []).append((one.begin_seconds, one.end_seconds))
    for busy in spans.values():
        assert all(first[1] <= second[0] for first, second in pairwise(sorted(busy)))


@given(placed_graphs())
def test_schedules_of_any_placement_are_valid(drawn: Placed) -> None:
    graph, placement = drawn
    check(graph, placement, Simulation(graph, upward_ranks(graph)).timeline(placement))


@given(placed_graphs())
def test_schedules_of_several_requests_are_valid(drawn: Placed) -> None:
    graph, placement = drawn
    stream = repeated(graph, 3)
    assert [task.request for task in stream.tasks[:: len(graph.tasks)]] == [0, 1, 2]
    run = Simulation(stream, upward_ranks(graph) * 3)
    check(stream, placement * 3, run.timeline(placement * 3))
    mixed = joined([stream, graph])
    assert mixed.tasks[-1].request == 3
    check(mixed, placement * 4, Simulation(mixed, upward_ranks(mixed)).timeline(placement * 4))


@given(placed_graphs(shares=True))
def test_devices_that_share_memory_keep_all_rules_and_its_bandwidth(drawn: Placed) -> None:
    graph, placement = drawn
    timeline = Simulation(graph, upward_ranks(graph)).timeline(placement)
    check(graph, placement, timeline)
    (memory,) = graph.memories
    moved = sum(graph.tasks[n].demand(d) * graph.tasks[n].cost(d) for n, d in enumerate(placement))
    least = moved / memory.bandwidth_bytes_per_second
    assert least <= timeline.makespan_seconds * (1 + 1e-9) + 1e-15
    assert least <= busiest_seconds(graph, placement) * (1 + 1e-9) + 1e-15


@pytest.mark.parametrize(
    ("bytes_", "seconds"),
    [
        ((10, 10), 2.0),  # both want all of the channel: half the speed each
        ((10, 0), 1.0),  # compute-bound beside memory-bound: neither waits
        ((8, 4), 1.25),  # 6 of 8 beside 4, so a quarter is left after a second
    ],
)
def test_memory_bound_groups_slow_each_other_and_compute_bound_ones_do_not(
    bytes_: tuple[int, int], seconds: float
) -> None:
    tasks = tuple(
        Task(f"t{n}", tuple(1.0 if d == n else None for d in range(2)), (), dram_bytes=(size, size))
        for n, size in enumerate(bytes_)
    )
    links = ((None, LINK), (LINK, None))
    graph = CostedGraph(("a", "b"), links, tasks, (Memory(frozenset((0, 1)), 10.0),))
    run = Simulation(graph, [1.0, 1.0]).timeline((0, 1))
    assert run.makespan_seconds == pytest.approx(seconds)


def chain() -> CostedGraph:
    """Inputs on the second device, then two tasks that take 3 s, or 1 s on the first device."""
    links = ((None, LINK), (LINK, None))
    return CostedGraph(
        ("fast", "slow"),
        links,
        (
            Task("inputs", (None, 0.0), ()),
            Task("a", (1.0, 3.0), (Read(0, "x", 500_000),)),
            Task("b", (1.0, 3.0), (Read(1, "y", 1_500_000),)),
        ),
    )


@pytest.mark.parametrize(
    ("placement", "seconds"),
    [((1, 1, 1), 6.0), ((1, 0, 0), 1.0 + 2.0), ((1, 0, 1), 1.0 + 1.0 + 2.0 + 3.0)],
)
def test_times_are_those_of_tasks_and_links(placement: Placement, seconds: float) -> None:
    graph = chain()
    assert Simulation(graph, upward_ranks(graph)).seconds(placement) == pytest.approx(seconds)


def test_a_stream_overlaps_transfers_with_work() -> None:
    graph = repeated(chain(), 4)
    run = Simulation(graph, upward_ranks(graph)).timeline((1, 0, 0) * 4)
    assert run.makespan_seconds == pytest.approx(1.0 + 4 * 2.0)
    assert run.busy_seconds(0) == pytest.approx(8.0)
    assert run.transferred_bytes == 4 * 500_000
