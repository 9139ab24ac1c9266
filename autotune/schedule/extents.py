"""Tile extents worth trying along one dimension; the space takes their product."""

from __future__ import annotations

import math

MAX_EXTENT = (1 << 16) - 1
"""Longest tile of a dimension that is tried; of longer ones, one instruction more or less is nothing."""
_MULTIPLES = (8, 16, 32)
_EVEN_PARTS = 8


def extents(extent: int, granule: int = 1) -> tuple[int, ...]:
    """Ascending candidates for a tile of a dimension: divisors and near-even parts (no or small
    remainders), powers of two and multiples of 8, 16 and 32 (full array folds), and the whole. All
    but the whole are multiples of ``granule``."""
    found = {extent}
    for root in range(1, math.isqrt(extent) + 1):
        if extent % root == 0:
            found.update((root, extent // root))
    found.update(1 << power for power in range(extent.bit_length()))
    found.update(-(-extent // parts) for parts in range(2, _EVEN_PARTS + 1))
    for step in _MULTIPLES:
        found.update(step * count for count in (1, 2, 3, 4, 6))
    rounded = {-(-x // granule) * granule for x in found} | {extent}
    legal = sorted(x for x in rounded if x <= min(extent, MAX_EXTENT))
    return tuple(legal)


def grained(candidates: tuple[int, ...], grain: int) -> tuple[int, ...]:
    """The candidates that are multiples of ``grain``, and the whole."""
    return tuple(x for x in candidates if x % grain == 0 or x == candidates[-1])


def thin(candidates: tuple[int, ...], count: int) -> tuple[int, ...]:
    """``count`` of the candidates, the largest always, the others evenly spread in rank."""
    if len(candidates) <= count:
        return candidates
    if count == 1:
        return candidates[-1:]
    last = len(candidates) - 1
    picked = {round(last * i / (count - 1)) for i in range(count)}
    return tuple(candidates[i] for i in sorted(picked))


def thin_product(axes: list[tuple[int, ...]], budget: int) -> list[tuple[int, ...]]:
    """Candidate lists thinned, the longest first, until their product is at most ``budget``."""
    lengths = [len(axis) for axis in axes]
    while math.prod(lengths) > budget and max(lengths) > 1:
        lengths[lengths.index(max(lengths))] -= 1
    return [thin(axis, count) for axis, count in zip(axes, lengths, strict=True)]
