"""Packed constants of products of bytes: panels of signed bytes in groups of neighbours of the reduction,
behind what the zero points make of them, once, when a program loads."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np

from autotune.targets.native.analysis.affine import Affine
from autotune.targets.native.binding.packing import Floats, walked
from autotune.targets.protocol import Array


@dataclass(frozen=True, slots=True)
class NarrowPacked:
    """A factor in panels, as ``NarrowShape`` says: for every trip of the loops that move it
    [⌈V/width⌉] panels of ``panel_words`` words.

    ``first`` is its first element in tensor ``tensor``; ``moves`` are (level, trips, step) of the
    loops, ``lanes`` and ``depths`` (extent, stride) of the vector axis and of the reduction, of which
    ``run`` elements are grouped by ``group``. ``shift`` makes its bytes signed. ``zero`` is its zero
    point then, ``other_zero`` the broadcast factor's, as the kernel reads that.
    """

    tensor: int
    first: int
    moves: tuple[tuple[int, int, int], ...]
    lanes: tuple[int, int]
    depths: tuple[tuple[int, int], ...]
    width: int
    run: int
    group: int
    shift: int
    zero: int
    other_zero: int

    @property
    def depth(self) -> int:
        """Elements of a sum."""
        return prod(n for n, _ in self.depths)

    @property
    def panel_words(self) -> int:
        """Words of a panel."""
        groups = self.depth // self.run * -(-self.run // self.group)
        return self.width + self.width * groups * self.group // 4

    @property
    def block_elements(self) -> int:
        """Words of one trip."""
        return -(-self.lanes[0] // self.width) * self.panel_words

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
        """Fill ``target``, ``elements`` words, from the tensor's array, however it lies in memory."""
        axes = [(n, s) for _, n, s in self.moves] + [*self.depths, self.lanes]
        factor = walked(tensor, self.first, axes)
        blocks, extent = prod(trips for _, trips, _ in self.moves), self.lanes[0]
        runs, full = self.depth // self.run, -(-self.run // self.group) * self.group
        panels = -(-extent // self.width)
        padded = np.zeros((blocks, runs, full, panels * self.width), np.int8)
        signed = factor.reshape(blocks, runs, self.run, extent).astype(np.int16) + self.shift
        padded[:, :, : self.run, :extent] = signed
        grouped = padded.reshape(blocks, runs, -1, self.group, panels, self.width)
        sums = padded.sum((1, 2), np.int64).reshape(blocks, panels, self.width)
        begin = self.other_zero * (self.depth * self.zero - sums)
        words = target.view(np.int32).reshape(blocks, panels, self.panel_words)
        words[..., : self.width] = begin.astype(np.int32)
        bytes_ = words[..., self.width :].view(np.int8)
        bytes_[...] = grouped.transpose(0, 4, 1, 2, 5, 3).reshape(blocks, panels, -1)
