"""Sets of operators beside a partition: neighbouring groups as one, and their operators cut elsewhere.

Growth by one operator at a time ends where a group is dearer than its parts. A better group of more operators may lie
behind it.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence

from autotune.fusion.greedy import LARGEST
from autotune.tuner.exact.family import Family
from autotune.tuner.exact.wiring import Wiring, places

LOOKS = 64
"""Kinds that are priced beside one partition; a quarter of them are unions of two, another of three."""

Pair = tuple[int, int]


class Neighbourhood:
    """What lies beside one partition, one of equal sets each."""

    def __init__(self, wiring: Wiring, groups: Sequence[int]) -> None:
        self._wiring = wiring
        self._group_of = {at: group for group in groups for at in places(group)}
        self.pairs = self._pairs(groups)
        """Neighbouring groups that may be one."""

    def _pairs(self, groups: Sequence[int]) -> list[Pair]:
        found: dict[Hashable, Pair] = {}
        for first in groups:
            for second in self._around(first):
                if first < second and self._may_be(first | second):
                    found.setdefault(self._wiring.alike(first | second), (first, second))
        return list(found.values())

    @property
    def triples(self) -> list[int]:
        """Unions of three groups that hang together."""
        found: dict[Hashable, int] = {}
        for first, second in self.pairs:
            for third in self._around(first | second):
                union = first | second | third
                if self._may_be(union):
                    found.setdefault(self._wiring.alike(union), union)
        return list(found.values())

    def look(self, family: Family) -> int:
        """Price what lies here, ``LOOKS`` kinds at the most; return how many were priced.

        Pairs whose union costs least beside themselves are cut anew first.
        """
        count = family.consider((a | b for a, b in self.pairs), LOOKS // 4)
        count += family.consider(self.triples, LOOKS // 4)
        for first, second in sorted(self.pairs, key=lambda pair: _share(family, pair)):
            if count >= LOOKS:
                break
            cuts = self._wiring.cuts(first | second)
            count += family.consider((part for cut in cuts for part in cut), LOOKS - count)
        return count

    def _around(self, members: int) -> Iterator[int]:
        """Yield the groups beside a set, each once."""
        around = places(self._wiring.around(members))
        yield from dict.fromkeys(self._group_of[at] for at in around)

    def _may_be(self, members: int) -> bool:
        return members.bit_count() <= LARGEST and self._wiring.closed(members) == members


def _share(family: Family, pair: Pair) -> float:
    """Return the price of two groups as one, over that of both."""
    first, second = pair
    together = family.price(first | second)
    apart = [family.price(one) for one in pair]
    if together is None or None in apart:
        return float("inf")
    return together / sum(price for price in apart if price is not None)
