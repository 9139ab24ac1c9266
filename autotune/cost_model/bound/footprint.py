"""How many bytes of its operands a call reaches, and how many bytes loops around it reach: what decides which
cache its operands come from.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from autotune.isa.formats import ELEMENT_BYTES

LINE_ELEMENTS = 16
"""Elements of a cache line."""


@dataclass(frozen=True, slots=True)
class Reach:
    """Elements of one operand: ``lines`` are those of the cache lines that it touches, ``span`` is the
    distance from its first to its last."""

    lines: int
    span: int

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
        return cls(min(lines, span + LINE_ELEMENTS), span)

    def over(self, moves: Sequence[tuple[int, int]]) -> Reach:
        """Return the reach of all trips of loops that move it: (trips, step) each."""
        span = self.span + sum(abs(step) * (trips - 1) for trips, step in moves)
        lines = self.lines * prod(trips for trips, _ in moves)
        return Reach(min(lines, span + LINE_ELEMENTS), span)

    @property
    def bytes(self) -> int:
        """Bytes of the lines."""
        return self.lines * ELEMENT_BYTES
