"""Which machines deserve a closer look: those spread over the front, and those whose plans look worst."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from autotune.graph.graph import Graph
from autotune.tuner.bound.bound import has_bound, network_bound
from autotune.tuner.machines.explored import Explored, Priced
from autotune.tuner.machines.figures import geometric_mean
from autotune.tuner.machines.front import non_dominated

TOLERANCE = 0.05
"""Share by which predictions may err: machines so much dearer than the front are near it."""


def front_of(machines: Sequence[Explored]) -> list[Explored]:
    """Return the machines that none of the others beats, fastest first."""
    costs = [one.costs for one in machines]
    known = [one for one in costs if one is not None]
    assert len(known) == len(machines), "a machine has no costs"
    return [machines[i] for i in sorted(non_dominated(known), key=lambda i: known[i][0])]


def near_front(priced: Sequence[Priced], most: int) -> list[Priced]:
    """Return at most ``most`` machines of the predicted front, spread over it; then those near it."""
    costs = [one.costs for one in priced if one.costs is not None]
    assert len(costs) == len(priced), "a machine has no costs"
    first = list(non_dominated(costs))
    near = [i for i in non_dominated(costs, TOLERANCE) if i not in set(first)]
    logs = np.log(costs)
    return [
        priced[i] for i in (*_spread(logs, first, [], most), *_spread(logs, near, first, most))
    ][:most]


def spread_front(counted: Sequence[Explored], most: int) -> list[Explored]:
    """Return at most ``most`` machines of the counted front, spread over it."""
    front = front_of(counted)
    if not front:
        return []
    logs = np.log([one.costs for one in front if one.costs is not None])
    return [front[i] for i in _spread(logs, list(range(len(front))), [], most)]


def farthest_above_bound(machines: Sequence[Explored], graphs: Sequence[Graph]) -> list[Explored]:
    """Return the machine that was not searched and whose plans are farthest above their lower bounds, in the
    geometric mean over the networks; nothing where no such machine has bounds."""
    open_ones = [one for one in machines if not one.searched and has_bound(one.design.spec)]
    return sorted(open_ones, key=lambda one: _above_bound(one, graphs))[-1:]


def _above_bound(machine: Explored, graphs: Sequence[Graph]) -> float:
    figures, spec = machine.point.figures, machine.design.spec
    assert figures is not None, "a machine has no figures"
    pairs = zip(figures, graphs, strict=True)
    return geometric_mean(
        1.0 + network_bound(graph, spec).above(one.cycles) for one, graph in pairs
    )


def _spread(
    logs: npt.NDArray[np.float64], candidates: list[int], taken: Sequence[int], most: int
) -> list[int]:
    """Return ``most`` of the candidates, each the farthest from those before it; the fastest begins."""
    chosen: list[int] = []
    left = sorted(candidates, key=lambda i: float(logs[i, 0]))
    while left and len(chosen) < most:
        others = [*taken, *chosen]
        far = left[0]
        if others:
            far = max(left, key=lambda i: float(np.abs(logs[others] - logs[i]).max(axis=1).min()))
        left.remove(far)
        chosen.append(far)
    return chosen
