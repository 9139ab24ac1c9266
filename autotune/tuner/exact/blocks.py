"""The cheapest partition of a graph into columns: block by block, until groups form no circle."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import networkx as nx

from autotune.tuner.exact.circles import circles
from autotune.tuner.exact.programme import Answer, Cut, solve
from autotune.tuner.exact.wiring import Wiring, places

ROUNDS = 100
"""Rounds of cuts before the search for a partition without circles ends with a bound alone."""


@dataclass(frozen=True, slots=True)
class Solution:
    """The chosen groups, and a cost that no partition into the columns is below. ``groups`` is
    None where only the bound was found."""

    groups: tuple[int, ...] | None
    bound: float


def cheapest(wiring: Wiring, columns: Mapping[int, float]) -> Solution:
    """Return the cheapest partition of the graph into columns, every operator in one.

    Every operator has a column of its own, so that there is a partition.
    """
    blocks = _Blocks(columns)
    cuts: dict[Cut, None] = {}
    bound = 0.0
    for _ in range(ROUNDS):
        answers = [blocks.solve(block, tuple(cuts)) for block in blocks.split(cuts)]
        found = [answer for answer in answers if answer is not None]
        if len(found) < len(answers):
            break
        bound = sum(answer.bound for answer in found)
        groups = tuple(group for answer in found for group in answer.chosen)
        forbidden = circles(wiring, groups)
        if not forbidden:
            return Solution(groups, bound)
        cuts |= dict.fromkeys(forbidden)
    return Solution(None, bound)


@dataclass(slots=True)
class _Blocks:
    """Columns by block: sets of columns that share operators. Equal blocks are solved once."""

    columns: Mapping[int, float]
    _known: dict[object, Answer | None] = field(default_factory=dict)

    def split(self, cuts: Iterable[Cut]) -> list[tuple[int, ...]]:
        """Return the columns of every block; what a cut counts is one block."""
        links = nx.Graph()
        for members in self.columns:
            nx.add_path(links, places(members))
        for cut in cuts:
            nx.add_path(links, (entry for entry, _ in cut.turns))
        block_of = {
            at: number
            for number, block in enumerate(nx.connected_components(links))
            for at in block
        }
        blocks: dict[int, list[int]] = {}
        for members in self.columns:
            blocks.setdefault(block_of[next(places(members))], []).append(members)
        return [tuple(block) for block in blocks.values()]

    def solve(self, block: Sequence[int], cuts: Sequence[Cut]) -> Answer | None:
        """Return the cheapest columns of a block, as sets of operators."""
        covered = 0
        for members in block:
            covered |= members
        own = tuple(cut for cut in cuts if covered >> cut.turns[0][0] & 1)
        row = {at: i for i, at in enumerate(places(covered))}
        moved = tuple(sum(1 << row[at] for at in places(members)) for members in block)
        costs = tuple(self.columns[members] for members in block)
        key = (block, costs, own) if own else (moved, costs)
        if key not in self._known:
            self._known[key] = solve(block, costs, own)
        answer = self._known[key]
        if answer is None:
            return None
        return Answer(tuple(block[j] for j in answer.chosen), answer.bound)
