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

_FARTHEST = 3.0
"""Deviations beyond which a cache holds all or nothing."""


@dataclass(frozen=True, slots=True)
class Cache:
    """A cache of a core. ``softness`` is the deviation of what it holds of bytes at random places, as a share of its
    size."""

    size_bytes: int
    softness: float

    def held_share(self, size_bytes: float) -> float:
        """Return the share of loops' bytes that it still holds when they begin again."""
        deviations = (1.0 - size_bytes / self.size_bytes) / self.softness
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
