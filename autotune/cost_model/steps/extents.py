"""Extents of tiles: numbers, or arrays with an element for each schedule of a table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from autotune.cost_model.steps.bank_conflicts import pass_conflict
from autotune.schedule.table import Ints
from autotune.targets.spec import HardwareSpec

Extent = Ints | int

_NO_FIELDS: dict[str, int] = {}


def product(extents: Iterable[Extent]) -> Extent:
    """Multiply extents, any of which may be arrays."""
    total: Extent = 1
    for extent in extents:
        total = total * extent
    return total


def dense_strides(extents: Sequence[Extent]) -> tuple[Extent, ...]:
    """Return row-major strides."""
    strides: list[Extent] = [1]
    for extent in extents[:0:-1]:
        strides.append(strides[-1] * extent)
    return tuple(strides[::-1])


class Extents:
    """An operand known by its extents alone, each a number or an array over schedules.

    ``strides`` are given where bank conflicts are counted; ``strides`` of () mean that there are none.
    """

    __slots__ = ("_conflict", "_elements", "sizes", "strides")

    def __init__(self, sizes: tuple[Any, ...], strides: tuple[Any, ...] = ()) -> None:
        self.sizes = sizes
        self.strides = strides
        self._elements: Extent | None = None
        self._conflict: Extent | None = None

    @property
    def rank(self) -> int:
        """Number of dimensions."""
        return len(self.sizes)

    @property
    def elements(self) -> Extent:
        """Elements of the rectangle."""
        if self._elements is None:
            self._elements = product(self.sizes)
        return self._elements

    def conflict(self, spec: HardwareSpec) -> Extent:
        """Return the cycles that reading one pass takes for its banks."""
        if not self.strides:
            return 1
        if self._conflict is None:
            self._conflict = pass_conflict(
                self.sizes, self.strides, spec.vector.lanes, spec.scratchpad.banks
            )
        return self._conflict

    def slice(self, dim: int, start: int, size: int, step: int = 1) -> Extents:
        """Take ``size`` elements of one dimension, every ``step``-th."""
        sizes = (*self.sizes[:dim], size, *self.sizes[dim + 1 :])
        if not self.strides:
            return Extents(sizes)
        stride = self.strides[dim] * step
        return Extents(sizes, (*self.strides[:dim], stride, *self.strides[dim + 1 :]))

    def drop(self, dim: int) -> Extents:
        """Take the first element of a dimension, and leave the dimension out."""
        strides = self.strides and self.strides[:dim] + self.strides[dim + 1 :]
        return Extents(self.sizes[:dim] + self.sizes[dim + 1 :], strides)

    def permute(self, perm: Sequence[int]) -> Extents:
        """Change the order of the dimensions."""
        strides = self.strides and tuple([self.strides[d] for d in perm])
        return Extents(tuple([self.sizes[d] for d in perm]), strides)

    def along(self, dim: int, rank: int) -> Extents:
        """Return a vector as a rectangle that extends in one dimension alone."""
        return Extents(tuple([self.sizes[0] if d == dim else 1 for d in range(rank)]))

    def broadcast(self, sizes: tuple[Any, ...]) -> Extents:
        """Stretch to ``sizes``; strides are those of the stretched dimensions already."""
        if not self.strides or sizes is self.sizes:
            return self
        return Extents(sizes, self.strides)

    def reshaped(self, sizes: tuple[Any, ...], strides: tuple[Any, ...]) -> Extents:
        """Replace the dimensions; without strides there are none after either."""
        return Extents(sizes, strides if self.strides else ())

    def dense(self, sizes: tuple[Any, ...]) -> Extents:
        """Replace the dimensions by dense ones."""
        return Extents(sizes)

    def fills(self, sizes: tuple[Any, ...]) -> bool:
        """Return True: the operand of a move is given with the extents of its result."""
        return True

    def operand(self, name: str) -> dict[str, int]:
        """Return no fields: a count needs no addresses."""
        return _NO_FIELDS
