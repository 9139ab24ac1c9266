"""Running order: what is needed comes first; networks, ONNX files and plans are put in it.

NetworkX could do it, but takes longer to import than a network to load.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Sequence


class Circle(Exception):
    """Items that need each other: ``positions``, each needed by the next, the last by the first;
    the lowest comes first."""

    def __init__(self, positions: tuple[int, ...]) -> None:
        super().__init__(positions)
        self.positions = positions


def running_order(needs: Sequence[Collection[int]]) -> list[int]:
    """Positions 0 … n − 1 such that each comes behind those that it needs, and the lowest wherever
    that is free (Kahn 1962 with a heap). Raises ``Circle``."""
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
        raise Circle(_circle(waits))
    return order


def _circle(waits: Sequence[Collection[int]]) -> tuple[int, ...]:
    """Every item that still waits waits for another such: follow them until one comes again."""
    at = next(i for i, needed in enumerate(waits) if needed)
    place: dict[int, int] = {}
    while at not in place:
        place[at] = len(place)
        at = min(waits[at])
    circle = list(place)[place[at] :][::-1]
    first = circle.index(min(circle))
    return (*circle[first:], *circle[:first])
