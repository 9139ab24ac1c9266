"""Where the tensors of a plan lie in one block of memory: lifetimes decide what shares a place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

ALIGNMENT_BYTES = 64
RETRIES = 100
"""Further orders that are tried while gaps are left."""


@dataclass(frozen=True, slots=True)
class Lifetime:
    """A tensor's bytes, and the first and the last step that touches it."""

    size_bytes: int
    first: int
    last: int

    def meets(self, other: Lifetime) -> bool:
        """Whether both live in some step."""
        return self.first <= other.last and other.first <= self.last


@dataclass(frozen=True, slots=True)
class Arena:
    """An offset for every tensor, and the bytes that all of them take together.

    ``bound_bytes`` is the largest sum of the tensors that live in one step: no placement takes less.
    ``tensor_bytes`` is what they would take side by side.
    """

    offsets: tuple[int, ...]
    size_bytes: int
    bound_bytes: int
    tensor_bytes: int


def placed(tensors: Sequence[Lifetime]) -> Arena:
    """Place tensors in the tightest gap that is free while they live, in each of some orders, of
    which the best is taken: largest first, those of the fullest step first (greedy by size and by
    breadth: Pisarchyk and Lee, arXiv:2001.03288), longest-lived first, in order of birth. Where that
    leaves gaps, what reached highest is placed at another time, some times over."""
    load = _loads(tensors)
    fullest = [max(load[step] for step in load if t.first <= step <= t.last) for t in tensors]
    orders = (
        lambda i: (-fullest[i], -tensors[i].size_bytes, i),
        lambda i: (-tensors[i].size_bytes, tensors[i].first, i),
        lambda i: (tensors[i].first - tensors[i].last, -tensors[i].size_bytes, i),
        lambda i: (tensors[i].first, -tensors[i].size_bytes, i),
    )
    sizes = [_rounded(t.size_bytes) for t in tensors]
    meeting = [[j for j, b in enumerate(tensors) if a.meets(b)] for a in tensors]
    bound = max(load.values(), default=0)
    size, offsets, order = min(
        (*_offsets(sizes, meeting, order), order)
        for order in (sorted(range(len(tensors)), key=key) for key in orders)
    )
    reached, places, dice = size, offsets, Random(0)
    for _ in range(RETRIES):
        if size <= bound:
            break
        top = [i for i in order if places[i] + sizes[i] == reached]
        order = [i for i in order if i not in top]
        at = dice.randrange(len(order) + 1)
        order[at:at] = top
        reached, places = _offsets(sizes, meeting, order)
        size, offsets = min((size, offsets), (reached, places))
    return Arena(offsets, size, bound, sum(sizes))


def _offsets(
    sizes: Sequence[int], meeting: Sequence[Sequence[int]], order: Sequence[int]
) -> tuple[int, tuple[int, ...]]:
    """The bytes that all tensors take, and where each is, when placed in this order."""
    offsets: dict[int, int] = {}
    for i in order:
        taken = sorted((offsets[j], offsets[j] + sizes[j]) for j in meeting[i] if j in offsets)
        offsets[i] = _tightest(taken, sizes[i])
    ends = [offsets[i] + size for i, size in enumerate(sizes)]
    return max(ends, default=0), tuple(offsets[i] for i in range(len(sizes)))


def _tightest(taken: Sequence[tuple[int, int]], size: int) -> int:
    """The offset of the smallest gap of at least ``size`` bytes between intervals, else their end."""
    best, best_gap, end = -1, -1, 0
    for begin, stop in taken:
        gap = begin - end
        if gap >= size and (best < 0 or gap < best_gap):
            best, best_gap = end, gap
        end = max(end, stop)
    return end if best < 0 else best


def _loads(tensors: Sequence[Lifetime]) -> dict[int, int]:
    """Bytes that live in every step that something begins in: the most live in one of those."""
    return {
        step: sum(_rounded(t.size_bytes) for t in tensors if t.first <= step <= t.last)
        for step in {t.first for t in tensors}
    }


def _rounded(size_bytes: int) -> int:
    return -(-size_bytes // ALIGNMENT_BYTES) * ALIGNMENT_BYTES
