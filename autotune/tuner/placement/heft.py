"""HEFT: tasks by rank, each to the device that ends it first (Topcuoglu, Hariri and Wu, IEEE TPDS 13(3), 2002)."""

from __future__ import annotations

from bisect import insort

from autotune.tuner.placement.costed_graph import CostedGraph, Placement

Interval = tuple[float, float]


def upward_ranks(graph: CostedGraph) -> list[float]:
    """Return the mean seconds from the begin of each task to the end of its request [n]: equation 8 of the paper."""
    ranks = [0.0] * len(graph.tasks)
    for number in reversed(range(len(graph.tasks))):
        task = graph.tasks[number]
        costs = [task.cost(d) for d in task.places]
        after = 0.0
        for _, size, users in graph.readers[number]:
            way = _mean_transfer_seconds(graph, size)
            after = max(after, way + max(ranks[user] for user in users))
        ranks[number] = sum(costs) / len(costs) + after
    return ranks


def heft(graph: CostedGraph, ranks: list[float]) -> Placement:
    """Return the device of each task, earliest end first; idle gaps are filled. Links have no queue here."""
    order = sorted(range(len(graph.tasks)), key=lambda n: (graph.tasks[n].request, -ranks[n], n))
    busy: list[list[Interval]] = [[] for _ in graph.devices]
    place = [0] * len(graph.tasks)
    ends = [0.0] * len(graph.tasks)
    for number in order:
        task = graph.tasks[number]
        found: list[tuple[float, float, int]] = []
        for device in task.places:
            ready = max(
                (
                    ends[r.producer]
                    + graph.transfer_seconds(place[r.producer], device, r.size_bytes)
                    for r in task.reads
                ),
                default=0.0,
            )
            begin = _first_gap(busy[device], ready, task.cost(device))
            found.append((begin + task.cost(device), begin, device))
        end, begin, device = min(found)
        place[number], ends[number] = device, end
        insort(busy[device], (begin, end))
    return tuple(place)


def _mean_transfer_seconds(graph: CostedGraph, size_bytes: int) -> float:
    count = len(graph.devices)
    if count < 2:
        return 0.0
    ways = (
        graph.transfer_seconds(a, b, size_bytes)
        for a in range(count)
        for b in range(count)
        if a != b
    )
    return sum(ways) / (count * (count - 1))


def _first_gap(busy: list[Interval], ready: float, seconds: float) -> float:
    """Return the earliest begin from ``ready`` on at which a device is free for so long."""
    begin = ready
    for start, end in busy:
        if begin + seconds <= start:
            return begin
        begin = max(begin, end)
    return begin
