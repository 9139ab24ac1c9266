"""Circles between the groups of a choice of columns, and the cuts that forbid them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import networkx as nx

from autotune.tuner.exact.programme import Cut
from autotune.tuner.exact.wiring import Wiring, places


def circles(wiring: Wiring, groups: Sequence[int]) -> tuple[Cut, ...]:
    """Return cuts that forbid the circles of groups; none if the groups can run in some order."""
    home = {at: g for g, members in enumerate(groups) for at in places(members)}
    links = nx.DiGraph()
    for at, g in home.items():
        for reader in places(wiring.readers[at]):
            if home[reader] != g:
                links.add_edge(g, home[reader], entry=reader)
    return tuple(dict.fromkeys(_cut(wiring, entries) for entries in _entries(links)))


def _entries(links: nx.DiGraph) -> Iterator[list[int]]:
    """Yield the entries of the shortest circle through every group that is on one, in order."""
    for tangle in nx.strongly_connected_components(links):
        if len(tangle) == 1:
            continue
        part = links.subgraph(tangle)
        for group in sorted(tangle):
            ways = nx.single_source_shortest_path(part, group)
            last = min(part.predecessors(group), key=lambda g: (len(ways[g]), g))
            circle = [*ways[last], group]
            yield [links.edges[pair]["entry"] for pair in pairwise(circle)]


def _cut(wiring: Wiring, entries: list[int]) -> Cut:
    """Return the cut of a circle. An entry that leads to the next one whatever the groups are is
    left out."""
    needed = [e for e, then in _turns(entries) if not wiring.above[then] >> e & 1]
    assert len(needed) > 1, "a group is not convex"
    return Cut(tuple((e, wiring.above[then]) for e, then in _turns(needed)))


def _turns(entries: list[int]) -> Iterator[tuple[int, int]]:
    """Yield each entry with the next one, around the circle."""
    return zip(entries, entries[1:] + entries[:1], strict=True)
