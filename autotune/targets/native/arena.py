"""Where the tensors of a plan lie in one block of memory: lifetimes decide what shares a place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

ALIGNMENT_BYTES = 64


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
    """

    offsets: tuple[int, ...]
    size_bytes: int
    bound_bytes: int


def placed(tensors: Sequence[Lifetime]) -> Arena:
    """Place tensors in the tightest gap that is free while they live, in each of some orders, of
    which the best is taken: largest first (greedy by size: Pisarchyk and Lee, arXiv:2001.03288),
    longest-lived first, in order of birth."""
    orders = (
        lambda i: (-tensors[i].size_bytes, tensors[i].first, i),
        lambda i: (tensors[i].first - tensors[i].last, -tensors[i].size_bytes, i),
        lambda i: (tensors[i].first, -tensors[i].size_bytes, i),
    )
    found = [_offsets(tensors, sorted(range(len(tensors)), key=order)) for order in orders]
    size, offsets = min(found)
    return Arena(offsets, size, _bound(tensors))


def _offsets(tensors: Sequence[Lifetime], order: Sequence[int]) -> tuple[int, tuple[int, ...]]:
    """The bytes that all tensors take, and where each is, when placed in this order."""
    offsets: dict[int, int] = {}
    for i in order:
        taken = sorted(
            (offsets[j], offsets[j] + _rounded(tensors[j].size_bytes))
            for j in offsets
            if tensors[j].meets(tensors[i])
        )
        offsets[i] = _tightest(taken, _rounded(tensors[i].size_bytes))
    ends = [offsets[i] + _rounded(t.size_bytes) for i, t in enumerate(tensors)]
    return max(ends, default=0), tuple(offsets[i] for i in range(len(tensors)))


def _tightest(taken: Sequence[tuple[int, int]], size: int) -> int:
    """The offset of the smallest gap of at least ``size`` bytes between intervals, else their end."""
    best, best_gap, end = -1, -1, 0
    for begin, stop in taken:
        gap = begin - end
        if gap >= size and (best < 0 or gap < best_gap):
            best, best_gap = end, gap
        end = max(end, stop)
    return end if best < 0 else best


def _bound(tensors: Sequence[Lifetime]) -> int:
    steps = {t.first for t in tensors}
    return max(
        (
            sum(_rounded(t.size_bytes) for t in tensors if t.first <= step <= t.last)
            for step in steps
        ),
        default=0,
    )


def _rounded(size_bytes: int) -> int:
    return -(-size_bytes // ALIGNMENT_BYTES) * ALIGNMENT_BYTES
