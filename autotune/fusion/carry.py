"""Carries the groups of a plan to another graph whose operators have the same names, such as one in another precision."""

from __future__ import annotations

from collections.abc import Sequence

from autotune.fusion.edges import edges
from autotune.fusion.partition import Fits, Names, Partition
from autotune.graph.graph import Graph


def carry_groups(groups: Sequence[Names], graph: Graph, fits: Fits) -> Partition:
    """Return the partition of ``graph`` that fuses what ``groups`` fuse, as far as it ``fits``.

    Operators are the same by name. One that is new joins the group of what it reads, else of what reads it.
    """
    known = {name: number for number, names in enumerate(groups) for name in names}
    home = {op.name: known[op.name] for op in graph.ops if op.name in known}
    ends = edges(graph)
    for first, second in ends:
        if second not in home and first in home:
            home[second] = home[first]
    for first, second in reversed(ends):
        if first not in home and second in home:
            home[first] = home[second]
    fused = [(a, b) for a, b in ends if a in home and home[a] == home.get(b)]
    return Partition.from_edges(graph, fused, fits)
