"""Graphs that one run reaches: which follow each other, and which run together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from itertools import combinations, pairwise
from typing import TypeVar

from autotune.runtime.execution.origin import GroupName
from autotune.runtime.execution.program_table import TableLayout
from autotune.runtime.profile.fading import HALF_LIFE_RUNS
from autotune.runtime.profile.group_profile import PairProfile

TABLES_COUNTED = 16
"""Tables of one run whose pairs are counted as running together; pairs grow with the square."""
PAIRS_KEPT = 1024
"""Pairs of tables that are counted; beyond, the rarest half goes."""

K = TypeVar("K", bound=Hashable)
_Ends = tuple[GroupName, GroupName]
"""First and last group of a table: names, as tables themselves hold programs."""


class Neighbours:
    """Counts of tables that run in one run. Not safe to use from several threads."""

    def __init__(self) -> None:
        self._runs = 0
        self._following: Counter[tuple[_Ends, _Ends]] = Counter()
        self._recent: dict[tuple[_Ends, _Ends], float] = {}
        self._together: Counter[tuple[_Ends, _Ends]] = Counter()

    def add(self, layouts: Sequence[TableLayout]) -> None:
        """Add the tables of one run, in order, with repetitions."""
        ends = [(x.steps[0].operators, x.steps[-1].operators) for x in layouts if x.steps]
        self._runs += 1
        self._following.update(pairwise(ends))
        for pair in pairwise(ends):
            self._recent[pair] = self._recent.get(pair, 0.0) + 1.0
        if self._runs % HALF_LIFE_RUNS == 0:
            self._recent = {pair: count / 2 for pair, count in self._recent.items() if count > 1}
        distinct = list(dict.fromkeys(ends))[:TABLES_COUNTED]
        self._together.update(combinations(distinct, 2))
        self._together.update((one, one) for one in distinct)
        _bound(self._following)
        _bound(self._together)

    def pairs(self) -> list[PairProfile]:
        """Return the groups at which one table ends and the next begins."""
        return [
            PairProfile(
                one[1],
                two[0],
                runs,
                self._recent.get((one, two), 0.0),
                self._together[one, two] or self._together[two, one],
                through=False,  # groups of two graphs cannot be merged
            )
            for (one, two), runs in self._following.items()
        ]


def _bound(counts: Counter[K]) -> None:
    if len(counts) > PAIRS_KEPT:
        for pair, _ in counts.most_common()[PAIRS_KEPT // 2 :]:
            del counts[pair]
