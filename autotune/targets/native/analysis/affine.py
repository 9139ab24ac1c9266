"""Affine forms over loop indices: where operands begin, as steps of the executor hold them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

Terms = tuple[tuple[int, int], ...]
"""(loop level, step) pairs, levels ascending, steps non-zero."""


@dataclass(frozen=True, slots=True)
class Affine:
    """``first + Σ step · index[level]``."""

    first: int = 0
    terms: Terms = ()

    @classmethod
    def of(cls, first: int, *pairs: tuple[int, int]) -> Affine:
        """From (level, step) pairs in any order, which may name a level twice or have step 0."""
        total: dict[int, int] = {}
        for level, step in pairs:
            total[level] = total.get(level, 0) + step
        return cls(first, tuple((v, total[v]) for v in sorted(total) if total[v]))

    def __add__(self, other: Affine) -> Affine:
        return Affine.of(self.first + other.first, *self.terms, *other.terms)

    def __mul__(self, factor: int) -> Affine:
        return Affine.of(self.first * factor, *((v, s * factor) for v, s in self.terms))

    def __sub__(self, other: Affine) -> Affine:
        return self + other * -1

    def within(self, trips: Callable[[int], int]) -> tuple[int, int]:
        """Smallest and largest value, given the trips of a level's loop."""
        low = high = self.first
        for level, step in self.terms:
            reach = step * (trips(level) - 1)
            low, high = low + min(reach, 0), high + max(reach, 0)
        return low, high

    def split(self, depth: int) -> tuple[Affine, Affine]:
        """The part of the loops outside of ``depth`` with ``first``, and that of the inner ones."""
        outer = tuple((v, s) for v, s in self.terms if v < depth)
        inner = tuple((v, s) for v, s in self.terms if v >= depth)
        return Affine(self.first, outer), Affine(0, inner)


NOTHING = Affine()
