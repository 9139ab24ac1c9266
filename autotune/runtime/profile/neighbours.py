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
RARE = 0.01
"""Recent runs below which a pair is forgotten as recent."""


class Neighbours:
    """Counts of tables that run in one run. Not safe to use from several threads."""

    def __init__(self) -> None:
        self._following: Counter[tuple[_Ends, _Ends]] = Counter()
        self._recent: dict[tuple[_Ends, _Ends], float] = {}
        self._together: Counter[tuple[_Ends, _Ends]] = Counter()

    def add(self, runs: Sequence[Sequence[TableLayout]]) -> None:
        """Add the tables of some runs, each in order, with repetitions."""
        following: Counter[tuple[TableLayout, TableLayout]] = Counter()
        together: Counter[tuple[TableLayout, TableLayout]] = Counter()
        for layouts in runs:
            following.update(pairwise(layouts))
            distinct = list(dict.fromkeys(layouts))[:TABLES_COUNTED]
            together.update(combinations(distinct, 2))
            together.update((one, one) for one in distinct)
        fading = 0.5 ** (len(runs) / HALF_LIFE_RUNS)
        recent = {pair: count * fading for pair, count in self._recent.items()}
        for tables, count in following.items():
            pair = _ends(tables)
            if pair is not None:
                self._following[pair] += count
                recent[pair] = recent.get(pair, 0.0) + count
        self._recent = {pair: count for pair, count in recent.items() if count > RARE}
        for tables, count in together.items():
            pair = _ends(tables)
            if pair is not None:
                self._together[pair] += count
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


def _ends(tables: tuple[TableLayout, TableLayout]) -> tuple[_Ends, _Ends] | None:
    """Return the ends of two tables; None if one of them runs no group."""
    one, two = tables
    if not one.steps or not two.steps:
        return None
    return (
        (one.steps[0].operators, one.steps[-1].operators),
        (two.steps[0].operators, two.steps[-1].operators),
    )


def _bound(counts: Counter[K]) -> None:
    if len(counts) > PAIRS_KEPT:
        for pair, _ in counts.most_common()[PAIRS_KEPT // 2 :]:
            del counts[pair]
