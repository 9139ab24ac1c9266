"""Local search: moves tasks between devices while a simulated run becomes shorter."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import product
from math import prod

import numpy as np

from autotune.tuner.placement.costed_graph import CostedGraph, Placement

Cost = Callable[[Placement], float]
"""Seconds of a placement; less is better."""

MOST_ENUMERATED = 4_096
"""Placements that are all tried where a graph has no more."""
EVALUATIONS = 1_500
"""Placements that a search looks at unless told."""
LONGEST = 32
"""Most tasks of a stretch that moves at once."""
HOT, COLD = 0.01, 0.0002
"""Temperatures at the begin and the end: the share of the cost that a move may lose, roughly."""


@dataclass(frozen=True, slots=True)
class Found:
    """A placement with its cost in seconds. ``is_best`` if every placement of the graph was tried."""

    placement: Placement
    seconds: float
    is_best: bool


def placements(graph: CostedGraph) -> int:
    """Return the number of placements of a graph."""
    return prod(len(task.places) for task in graph.tasks)


def enumerated(graph: CostedGraph, cost: Cost) -> Found:
    """Try all placements; the best of equal ones is the first."""
    best = min(product(*(task.places for task in graph.tasks)), key=cost)
    return Found(best, cost(best), True)


def annealed(
    graph: CostedGraph,
    cost: Cost,
    starts: Iterable[Placement],
    rng: np.random.Generator,
    evaluations: int = EVALUATIONS,
) -> Found:
    """Move from the best start by drawn moves until ``evaluations`` placements were looked at; return the best of them.

    Simulated annealing: a move that is worse by a share d is taken with probability exp(−d / T), and T falls from ``HOT``
    to ``COLD``. A move takes a task, a stretch of tasks, or a task with all that it reads and all that read it.
    """
    known: dict[Placement, float] = {}

    def seconds(placement: Placement) -> float:
        if placement not in known:
            known[placement] = cost(placement)
        return known[placement]

    here = best = min(dict.fromkeys(starts), key=seconds)
    for _ in range(4 * evaluations if graph.free_tasks else 0):
        if len(known) >= evaluations:
            break
        placement = _neighbour(graph, here, rng)
        temperature = HOT * (COLD / HOT) ** (len(known) / evaluations)
        worse = seconds(placement) / seconds(here) - 1.0 if seconds(here) else 1.0
        if worse <= 0 or rng.random() < np.exp(-worse / temperature):
            here = placement
        if seconds(here) < seconds(best):
            best = here
    return Found(best, seconds(best), False)


def _neighbour(graph: CostedGraph, placement: Placement, rng: np.random.Generator) -> Placement:
    """Draw a move: some tasks to one device, as far as they can run there."""
    free = graph.free_tasks
    first = int(rng.integers(len(free)))
    match int(rng.integers(3)):
        case 0:
            moved = [free[first]]
        case 1:
            length = 1 + int(rng.integers(1, max(2, min(LONGEST, len(free)))))
            moved = list(free[first : first + length])
        case _:
            moved = _neighbourhood(graph, free[first])
    device = int(rng.integers(len(graph.devices)))
    place = list(placement)
    for number in moved:
        if device in graph.tasks[number].places:
            place[number] = device
    return tuple(place)


def _neighbourhood(graph: CostedGraph, number: int) -> list[int]:
    """Return a task with its producers and readers."""
    users = (user for _, _, readers in graph.readers[number] for user in readers)
    return [number, *(read.producer for read in graph.tasks[number].reads), *users]
