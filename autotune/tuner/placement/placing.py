"""Places a costed graph: starts by rule, improved by search, beside single devices and lower bounds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from autotune.tuner.placement.balance import Balance, balanced
from autotune.tuner.placement.bounds import Bounds, bounds, earliest_ends
from autotune.tuner.placement.costed_graph import CostedGraph, Placement, repeated
from autotune.tuner.placement.heft import heft, upward_ranks
from autotune.tuner.placement.local_search import (
    EVALUATIONS,
    MOST_ENUMERATED,
    Cost,
    annealed,
    enumerated,
    placements,
)
from autotune.tuner.placement.objective import Serving
from autotune.tuner.placement.simulation import Simulation

STREAM = 64
"""Requests of a stream whose throughput is simulated."""


@dataclass(frozen=True)
class Placed:
    """A placement with its figures in seconds.

    ``makespan_seconds`` is that of one request alone, ``period_seconds`` the mean time between the ends of requests in a
    saturated stream. ``singles`` has both of every device that can run the network alone. ``bounds`` are
    those of one request; no stream has less than ``stream_bound_seconds`` between requests. ``is_best`` if all placements were tried.
    """

    placement: Placement
    makespan_seconds: float
    period_seconds: float
    singles: Mapping[str, tuple[float, float]]
    bounds: Bounds
    stream_bound_seconds: float
    is_best: bool


def place(
    graph: CostedGraph,
    serving: Serving = Serving.LATENCY,
    seed: int = 0,
    evaluations: int = EVALUATIONS,
) -> Placed:
    """Place a graph for latency or throughput. Never worse than the best single device under the model.

    For latency all requests of a graph are to end soon, whichever came first.
    """
    is_stream = serving is Serving.THROUGHPUT
    has_many = not graph.is_one_request
    graph = graph if is_stream else graph.as_one_request()
    ranks = upward_ranks(graph)
    one = Simulation(graph, ranks)
    cost = busiest(graph, one) if is_stream else one.seconds
    balance = balanced(graph) if is_stream or has_many else Balance(None, 0.0)
    if placements(graph) <= MOST_ENUMERATED:
        found = enumerated(graph, cost)
    else:
        begin = starts(graph, ranks) + [p for p in [balance.placement] if p is not None]
        found = annealed(graph, cost, begin, np.random.default_rng(seed), evaluations)
    figures = {
        placement: (one.seconds(placement), period_seconds(graph, placement))
        for placement in (found.placement, *_singles(graph).values())
    }
    which = 1 if is_stream else 0
    least = bounds(graph)
    best = min(
        figures, key=lambda placement: figures[placement][which]
    )  # a stream also fills and drains
    return Placed(
        best,
        *figures[best],
        {name: figures[placement] for name, placement in _singles(graph).items()},
        least,
        max(least.load_seconds, balance.bound_seconds),
        found.is_best and best == found.placement,
    )


def _singles(graph: CostedGraph) -> dict[str, Placement]:
    """Return the placement on each device that can run everything that has a choice."""
    found = {name: graph.on_device(device) for device, name in enumerate(graph.devices)}
    return {name: placement for name, placement in found.items() if placement is not None}


def starts(graph: CostedGraph, ranks: list[float]) -> list[Placement]:
    """Return the placements that a search begins with: HEFT's, that of the earliest ends, and each device alone."""
    return [heft(graph, ranks), by_earliest_ends(graph), *_singles(graph).values()]


def by_earliest_ends(graph: CostedGraph) -> Placement:
    """Return the placement that the bound of unavoidable transfers follows, from the last tasks back.

    It is best where every tensor has one reader and only one task runs at a time.
    """
    ends = earliest_ends(graph)
    place: list[int | None] = [None] * len(graph.tasks)
    for number in reversed(range(len(graph.tasks))):
        chosen = place[number]
        if chosen is None:
            chosen = place[number] = min(ends[number], key=ends[number].__getitem__)
        for read in graph.tasks[number].reads:
            if place[read.producer] is None:
                made, here = ends[read.producer], chosen
                place[read.producer] = min(
                    made,
                    key=lambda d: made[d] + graph.transfer_seconds(d, here, read.size_bytes),
                )
    return tuple(p for p in place if p is not None)


def busiest(graph: CostedGraph, one: Simulation) -> Cost:
    """Return the cost of a placement in a stream: what a request takes of the busiest device or link.

    Filling and draining the pipeline adds one request's time, shared by ``STREAM`` requests.
    """
    return lambda placement: busiest_seconds(graph, placement) + one.seconds(placement) / STREAM


def busiest_seconds(graph: CostedGraph, placement: Placement) -> float:
    """Return the time that a request takes of its busiest device, link or shared memory: between requests of an
    endless stream."""
    work: dict[tuple[int, int], float] = {}
    for number, device in enumerate(placement):
        key = device, device
        work[key] = work.get(key, 0.0) + graph.tasks[number].cost(device)
        for _, size, users in graph.readers[number]:
            for destination in {placement[user] for user in users} - {device}:
                way = device, destination
                work[way] = work.get(way, 0.0) + graph.transfer_seconds(*way, size)
    channels = (
        sum(
            graph.tasks[n].dram_bytes[d]
            for n, d in enumerate(placement)
            if d in memory.devices and graph.tasks[n].dram_bytes
        )
        / memory.bandwidth_bytes_per_second
        for memory in graph.memories
    )
    return max((*work.values(), *channels))


def period_seconds(graph: CostedGraph, placement: Placement, count: int = STREAM) -> float:
    """Return the makespan of ``count`` requests that arrive together, over their number.

    Filling and draining of the pipeline count: a longer stream has a shorter period.
    """
    stream = repeated(graph, count)
    run = Simulation(stream, upward_ranks(graph) * count)
    return run.seconds(placement * count) / count
