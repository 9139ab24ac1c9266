"""Packed constants: factors of matrix multiplies rearranged into panels, once, when a program loads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import as_strided

from autotune.isa.formats import ELEMENT_BYTES, Format
from autotune.isa.tile import row_major
from autotune.targets.arrays import ARRAY_TYPES
from autotune.targets.native.analysis.affine import Affine
from autotune.targets.protocol import Array

if TYPE_CHECKING:
    from autotune.targets.native.analysis.tree import Leaf

Floats = npt.NDArray[np.float32]
GROWTH = 2
"""How much larger than its tensor a packed constant may be: tiles that overlap are packed apart."""


@dataclass(frozen=True, slots=True)
class Packed:
    """A factor in panels: for every trip of the loops that move it [⌈V/width⌉][k2·k1·k0][width].

    ``first`` is its first element in tensor ``tensor``; ``moves`` are (level, trips, step) of the
    loops, ``lanes`` and ``depths`` (extent, stride) of the vector axis and of the reduction. Elements of
    a narrow ``format`` stay as the tensor has them.
    """

    tensor: int
    first: int
    moves: tuple[tuple[int, int, int], ...]
    lanes: tuple[int, int]
    depths: tuple[tuple[int, int], ...]
    width: int
    format: Format = Format.FP32

    def __post_init__(self) -> None:
        assert self.width * self.format.bytes % ELEMENT_BYTES == 0, "a panel is whole words"

    @property
    def block_elements(self) -> int:
        """Words of one trip."""
        panels = -(-self.lanes[0] // self.width)
        elements = panels * self.width * prod(n for n, _ in self.depths)
        return elements * self.format.bytes // ELEMENT_BYTES

    @property
    def elements(self) -> int:
        """Words of all trips together."""
        return self.block_elements * prod(trips for _, trips, _ in self.moves)

    @property
    def at(self) -> Affine:
        """Where a trip's block begins."""
        pairs, size = [], self.block_elements
        for level, trips, _ in reversed(self.moves):
            pairs.append((level, size))
            size *= trips
        return Affine.of(0, *pairs)

    def pack(self, tensor: Array, target: Floats) -> None:
        """Fill ``target``, ``elements`` words, from the tensor's array, however it lies in memory:
        one that was transposed is read where it is."""
        axes = [(n, s) for _, n, s in self.moves] + [*self.depths, self.lanes]
        view = walked(tensor, self.first, axes)
        loops, extent = len(self.moves), self.lanes[0]
        full, rest = divmod(extent, self.width)
        shape = (*view.shape[:loops], -1, *view.shape[loops:-1], self.width)
        typed = target.view(ARRAY_TYPES[self.format])
        panels = np.moveaxis(typed.reshape(shape), loops, -2)
        whole = view[..., : extent - rest]
        panels[..., :full, :] = whole.reshape(*whole.shape[:-1], full, self.width)
        if rest:
            panels[..., full, :rest] = view[..., extent - rest :]
            panels[..., full, rest:] = 0


def walked(tensor: Array, first: int, axes: Sequence[tuple[int, int]]) -> Array:
    """The view [extent, …] of a tensor that begins at element ``first`` in C order and walks by
    (extent, step) in C order."""
    start = np.unravel_index(first, tensor.shape)
    strides = _byte_strides(tensor, [int(i) for i in start], axes)
    if strides is None:
        tensor = np.ascontiguousarray(tensor)
        strides = [tensor.itemsize * step for _, step in axes]
    begin = tensor[tuple(slice(int(i), None) for i in start)]
    return as_strided(begin, [n for n, _ in axes], strides, writeable=False)


def _byte_strides(
    tensor: Array, reached: list[int], axes: Sequence[tuple[int, int]]
) -> list[int] | None:
    """The steps of a walk in an array as it lies in memory: each one along a single axis, which
    all together never leave (``reached`` is where the walk begins). None if one does not."""
    dense, found = row_major(tensor.shape), []
    for extent, step in axes:
        axis = next((a for a, stride in enumerate(dense) if stride <= step), None)
        if extent == 1 or axis is None:
            found.append(0)
            continue
        count, left = divmod(step, dense[axis])
        reached[axis] += count * (extent - 1)
        if left or reached[axis] >= tensor.shape[axis]:
            return None
        found.append(count * tensor.strides[axis])
    return found


def packed(
    leaf: Leaf,
    tensor: int,
    at: Affine,
    axes: tuple[tuple[int, int], ...],
    width: int,
    limit: int,
    format: Format = Format.FP32,
) -> Packed | None:
    """The packed form of a factor whose ``axes`` are (extent, stride), the vector axis first; None
    where a loop moves it backwards or it would grow beyond ``limit`` elements times ``GROWTH``."""
    moves = tuple((level, leaf.trips(level), step) for level, step in at.terms)
    if any(step < 0 for _, _, step in moves):
        return None
    found = Packed(tensor, at.first, moves, axes[0], axes[1:], width, format)
    return found if found.elements <= GROWTH * limit + found.block_elements else None
