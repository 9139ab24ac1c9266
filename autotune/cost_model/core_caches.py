"""Caches of a core of this machine: what tells traffic apart in the analytic models of CPUs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from math import gcd

from autotune.targets.native.cpu import topology

DEFAULT_L1_BYTES, DEFAULT_L2_BYTES = 32 << 10, 512 << 10
DEFAULT_L1_WAYS = 8
"""Of a machine that does not tell its caches."""

FEW_SETS = 2
"""Sets of a first-level cache that collide if strided lines share no more of them."""


@cache
def core_caches() -> tuple[int, int]:
    """Return the bytes of a core's first- and second-level data caches."""
    first = topology.cache_bytes(1) or DEFAULT_L1_BYTES
    return first, max(first, topology.cache_bytes(2) or DEFAULT_L2_BYTES)


@dataclass(frozen=True, slots=True)
class SetCache:
    """A first-level cache: ``ways`` lines in each set, and ``way_bytes`` until sets begin again."""

    ways: int
    way_bytes: int

    def lines_apart(self, stride_bytes: int) -> int:
        """Return how many lines a stride apart the cache holds, at least one set's."""
        sets = self.way_bytes // gcd(stride_bytes, self.way_bytes)
        return max(1, sets) * self.ways

    def collide(self, stride_bytes: int, count: int) -> bool:
        """Return True for ``count`` lines a stride apart that fall into few sets, and are more than these hold."""
        few = stride_bytes % (self.way_bytes // FEW_SETS) == 0
        return few and count > self.lines_apart(stride_bytes)

    def crowded(self, stride_bytes: int, count: int) -> bool:
        """Return True for ``count`` lines a stride apart that take more than half of the few sets that they fall into."""
        return self.collide(stride_bytes, 2 * count)


@cache
def first_level() -> SetCache:
    """Return the first-level cache of a core."""
    ways = topology.cache_ways(1) or DEFAULT_L1_WAYS
    return SetCache(ways, core_caches()[0] // ways)
