"""Lower bounds: times that no placement of a costed graph undercuts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from autotune.tuner.placement.costed_graph import CostedGraph


@dataclass(frozen=True, slots=True)
class Bounds:
    """Seconds that no placement undercuts. ``path`` and ``load`` are the bounds with free transfers.

    ``path_seconds``: the longest path, each task on its fastest device. ``load_seconds``: all work,
    shared out over the devices in any fractions. ``reach_seconds``: the longest path with the transfers
    that its tasks cannot avoid, wherever they run.
    """

    path_seconds: float
    load_seconds: float
    reach_seconds: float

    @property
    def free_seconds(self) -> float:
        """The larger bound with free transfers."""
        return max(self.path_seconds, self.load_seconds)

    @property
    def seconds(self) -> float:
        """The largest bound."""
        return max(self.reach_seconds, self.load_seconds)


def bounds(graph: CostedGraph) -> Bounds:
    """Return the lower bounds of a graph's makespan."""
    return Bounds(_path_seconds(graph), load_seconds(graph), _reach_seconds(graph))


def _path_seconds(graph: CostedGraph) -> float:
    ends: list[float] = []
    for task in graph.tasks:
        ready = max((ends[r.producer] for r in task.reads), default=0.0)
        ends.append(ready + min(task.cost(d) for d in task.places))
    return max(ends)


def _reach_seconds(graph: CostedGraph) -> float:
    return max(min(ends.values()) for ends in earliest_ends(graph))


def earliest_ends(graph: CostedGraph) -> list[dict[int, float]]:
    """Return the earliest end of each task on each of its devices, as if nothing else ran.

    Every reader may choose another device for one producer: exact on chains and trees, a bound elsewhere.
    """
    found: list[dict[int, float]] = []
    for task in graph.tasks:
        ends: dict[int, float] = {}
        for device in task.places:
            ready = 0.0
            for read in task.reads:
                made = found[read.producer]
                ready = max(
                    ready,
                    min(
                        end + graph.transfer_seconds(source, device, read.size_bytes)
                        for source, end in made.items()
                    ),
                )
            ends[device] = ready + task.cost(device)
        found.append(ends)
    return found


def load_seconds(graph: CostedGraph) -> float:
    """Return the least time in which all devices together do all the work, tasks being divisible.

    A linear programme over the share of every kind of task on every device.
    """
    from scipy.optimize import linprog
    from scipy.sparse import coo_matrix

    kinds: dict[tuple[float | None, ...], int] = {}
    for task in graph.tasks:
        if any(task.seconds[d] for d in task.places):
            kinds[task.seconds] = kinds.get(task.seconds, 0) + 1
    columns = [
        (row, device, cost * count)
        for row, (seconds, count) in enumerate(kinds.items())
        for device, cost in enumerate(seconds)
        if cost is not None
    ]
    if not columns:
        return 0.0
    scale = max(cost for _, _, cost in columns)
    count, total = len(graph.devices), len(columns)
    entries = [(device, n, cost / scale) for n, (_, device, cost) in enumerate(columns)]
    entries += [(device, total, -1.0) for device in range(count)]
    rows, places, values = zip(*entries, strict=True)
    work = coo_matrix((values, (rows, places)), shape=(count, total + 1))
    whole = coo_matrix(
        (np.ones(total), ([row for row, _, _ in columns], range(total))),
        shape=(len(kinds), total + 1),
    )
    goal = np.zeros(total + 1)
    goal[-1] = 1.0
    found = linprog(goal, work, np.zeros(count), whole, np.ones(len(kinds)), method="highs")
    assert found.success, found.message
    return float(found.fun) * scale
