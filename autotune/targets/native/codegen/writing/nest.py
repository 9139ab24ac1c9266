"""The loops of a rectangle: dimensions dropped, ordered and merged before code is made for them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Dim:
    """A loop: trips, and each operand's stride in elements."""

    size: int
    strides: tuple[int, ...]


def merged(sizes: Sequence[int], strides: Sequence[Sequence[int]], leading: int) -> tuple[Dim, ...]:
    """The rectangle's dimensions, outermost first, the longest strides of operand ``leading``
    outermost; those of one element are left out, and two that are one run in every operand are
    one. Their order is free, so the instruction's own does not count."""
    dims = [
        Dim(size, tuple(operand[d] for operand in strides))
        for d, size in enumerate(sizes)
        if size > 1
    ]
    dims.sort(key=lambda dim: (-dim.strides[leading], tuple(-s for s in dim.strides)))
    out: list[Dim] = []
    for dim in dims:
        longer = out.pop().size if out and _continues(out[-1], dim) else 1
        out.append(Dim(longer * dim.size, dim.strides))
    return tuple(out)


def _continues(outer: Dim, inner: Dim) -> bool:
    steps = zip(outer.strides, inner.strides, strict=True)
    return all(far == inner.size * near for far, near in steps)
