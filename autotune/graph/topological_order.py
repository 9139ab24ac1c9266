"""Topological order of networks, ONNX files and plans.

NetworkX offers one too, but its import takes longer than loading a network.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterable, Sequence

from autotune.errors import ModelError


class CycleError(Exception):
    """Items that need each other in a cycle.

    Each of ``positions`` is needed by the next, the last by the first. The lowest comes first.
    """

    def __init__(self, positions: tuple[int, ...]) -> None:
        super().__init__(positions)
        self.positions = positions


def topological_order(needs: Sequence[Collection[int]]) -> list[int]:
    """Return positions 0 … n − 1 with every item behind its needs (Kahn 1962 with a heap).

    The lowest position comes first wherever several are free. Raises ``CycleError``.
    """
    waits = [set(needed) for needed in needs]
    users: list[list[int]] = [[] for _ in needs]
    for i, needed in enumerate(waits):
        for j in needed:
            users[j].append(i)
    free = [i for i, needed in enumerate(waits) if not needed]
    order = []
    while free:
        i = heapq.heappop(free)
        order.append(i)
        for user in users[i]:
            waits[user].discard(i)
            if not waits[user]:
                heapq.heappush(free, user)
    if len(order) < len(needs):
        raise CycleError(_cycle(waits))
    return order


def order_by_tensors(reads: Sequence[Iterable[str]], makes: Sequence[Iterable[str]]) -> list[int]:
    """Return positions of nodes with producers first, by the names that each reads and makes.

    File order holds wherever several are free. An empty name stands for no tensor. Raises
    ``ModelError`` for a cycle.
    """
    producer = {x: i for i, made in enumerate(makes) for x in made if x}
    try:
        return topological_order([{producer[x] for x in read if x in producer} for read in reads])
    except CycleError as error:
        cycle = " -> ".join(next(x for x in makes[i] if x) for i in error.positions)
        raise ModelError(
            f"the graph has a cycle through tensors {cycle}; export it again"
        ) from None


def _cycle(waits: Sequence[Collection[int]]) -> tuple[int, ...]:
    """Return a cycle among waiting items: follow needs until an item repeats."""
    at = next(i for i, needed in enumerate(waits) if needed)
    place: dict[int, int] = {}
    while at not in place:
        place[at] = len(place)
        at = min(waits[at])
    cycle = list(place)[place[at] :][::-1]
    first = cycle.index(min(cycle))
    return (*cycle[first:], *cycle[:first])
