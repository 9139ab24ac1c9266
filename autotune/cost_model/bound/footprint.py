"""How many bytes of its operands a call reaches, and how many bytes loops around it reach: what decides which
cache its operands come from.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import erf, prod, sqrt

from autotune.isa.formats import ELEMENT_BYTES

LINE_ELEMENTS = 16
"""Elements of a cache line."""

FIRST_SOFTNESS, SOFTNESS = 0.1, 0.22
"""Deviation of what a first-level cache holds of bytes at random pages, and of what a later one does, as shares of
its size. Pages have 16 colours in a cache of 1 MiB with 16 ways: of as many bytes, a colour has 16 pages and deviates
by 4, and all pages of a colour that has more miss."""


_FARTHEST = 3.0
"""Deviations beyond which a cache holds all or nothing."""


def held_share(size_bytes: float, cache_bytes: float, softness: float) -> float:
    """Return the share of loops' bytes that a cache still holds when they begin again."""
    deviations = (1.0 - size_bytes / cache_bytes) / softness
    if abs(deviations) >= _FARTHEST:
        return float(deviations > 0)
    return 0.5 * (1.0 + erf(deviations / sqrt(2.0)))


@dataclass(frozen=True, slots=True)
class Reach:
    """Elements of one operand: ``lines`` are those of the cache lines that it touches, ``span`` is the
    distance from its first to its last, ``run`` are those that a call finds in a row."""

    lines: int
    span: int
    run: int

    @classmethod
    def of(cls, dims: Sequence[tuple[int, int]]) -> Reach:
        """Return the reach of a rectangle of (extent, stride in elements) dimensions."""
        moving = sorted((stride, n) for n, stride in dims if n > 1 and stride)
        run, span = 1, 1
        rows = 1
        for stride, n in moving:
            if stride <= run or (stride <= LINE_ELEMENTS and rows == 1 and run < LINE_ELEMENTS):
                run = stride * (n - 1) + run
            else:
                rows *= n
            span += stride * (n - 1)
        lines = rows * (run if rows == 1 or run % LINE_ELEMENTS == 0 else run + LINE_ELEMENTS // 2)
        return cls(min(lines, span + LINE_ELEMENTS), span, run)

    def over(self, moves: Sequence[tuple[int, int]]) -> Reach:
        """Return the reach of all trips of loops that move it: (trips, step) each."""
        span = self.span + sum(abs(step) * (trips - 1) for trips, step in moves)
        lines = self.lines * prod(trips for trips, _ in moves)
        return Reach(min(lines, span + LINE_ELEMENTS), span, self.run)

    @property
    def bytes(self) -> int:
        """Bytes of the lines."""
        return self.lines * ELEMENT_BYTES
