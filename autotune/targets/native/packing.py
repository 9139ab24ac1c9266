"""Packed constants: factors of matrix multiplies rearranged into panels, once, when a program loads."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import as_strided

from autotune.targets.native.affine import Affine
from autotune.targets.native.tree import Leaf

Floats = npt.NDArray[np.float32]
GROWTH = 2
"""How much larger than its tensor a packed constant may be: tiles that overlap are packed apart."""


@dataclass(frozen=True, slots=True)
class Packed:
    """A factor in panels: for every trip of the loops that move it [⌈V/width⌉][k2·k1·k0][width].

    ``first`` is its first element in tensor ``tensor``; ``moves`` are (level, trips, step) of the
    loops, ``lanes`` and ``depths`` (extent, stride) of the vector axis and of the reduction.
    """

    tensor: int
    first: int
    moves: tuple[tuple[int, int, int], ...]
    lanes: tuple[int, int]
    depths: tuple[tuple[int, int], ...]
    width: int

    @property
    def block_elements(self) -> int:
        """Elements of one trip."""
        panels = -(-self.lanes[0] // self.width)
        return panels * self.width * prod(n for n, _ in self.depths)

    @property
    def elements(self) -> int:
        """Of all trips together."""
        return self.block_elements * prod(trips for _, trips, _ in self.moves)

    @property
    def at(self) -> Affine:
        """Where a trip's block begins."""
        pairs, size = [], self.block_elements
        for level, trips, _ in reversed(self.moves):
            pairs.append((level, size))
            size *= trips
        return Affine.of(0, *pairs)

    def pack(self, tensor: Floats, target: Floats) -> None:
        """Fill ``target``, ``elements`` floats, from the tensor's array."""
        flat = tensor.reshape(-1)[self.first :]
        axes = [(n, s) for _, n, s in self.moves] + [self.lanes, *self.depths]
        view = as_strided(flat, [n for n, _ in axes], [4 * s for _, s in axes], writeable=False)
        loops, extent = len(self.moves), self.lanes[0]
        depth = prod(n for n, _ in self.depths)
        rows = view.reshape(*view.shape[:loops], extent, depth)
        missing = -extent % self.width
        if missing:
            rows = np.concatenate(
                [rows, np.zeros((*rows.shape[:loops], missing, depth), np.float32)], axis=loops
            )
        panels = rows.reshape(*rows.shape[:loops], -1, self.width, depth)
        target[:] = np.swapaxes(panels, -1, -2).reshape(-1)


def packed(
    leaf: Leaf, tensor: int, at: Affine, axes: tuple[tuple[int, int], ...], width: int, limit: int
) -> Packed | None:
    """The packed form of a factor whose ``axes`` are (extent, stride), the vector axis first; None
    where a loop moves it backwards or it would grow beyond ``limit`` elements times ``GROWTH``."""
    moves = tuple((level, leaf.trips(level), step) for level, step in at.terms)
    if any(step < 0 for _, _, step in moves):
        return None
    found = Packed(tensor, at.first, moves, axes[0], axes[1:], width)
    return found if found.elements <= GROWTH * limit + found.block_elements else None
