"""Packed constants of narrow products: panels of bf16, or of signed bytes behind what the zero points make of
them, in groups of neighbours of the reduction, once, when a program loads."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np

from autotune.isa.formats import ELEMENT_BYTES, Format
from autotune.targets.arrays import ARRAY_TYPES
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
    point then, ``other_zero`` the broadcast factor's, as the kernel reads that. Numbers of bf16 (``is_bf16``)
    have neither.
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
    is_bf16: bool = False

    @property
    def depth(self) -> int:
        """Elements of a sum."""
        return prod(n for n, _ in self.depths)

    @property
    def panel_words(self) -> int:
        """Words of a panel."""
        elements = self.width * self.depth // self.run * self._full_run
        if self.is_bf16:
            return elements * Format.BF16.bytes // ELEMENT_BYTES
        return self.width + elements // ELEMENT_BYTES

    @property
    def _full_run(self) -> int:
        """Elements of a run with the zeros behind it."""
        return -(-self.run // self.group) * self.group

    @property
    def block_elements(self) -> int:
        """Words of one trip."""
        return self._panels * self.panel_words

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
        if self.is_bf16:
            halves = self._padded(
                factor.astype(ARRAY_TYPES[Format.BF16], copy=False).view(np.uint16)
            )
            target.view(np.uint16)[...] = self._grouped(halves).reshape(-1)
            return
        signed = self._padded((factor.astype(np.int16) + self.shift).astype(np.int8))
        sums = signed.sum((1, 2), np.int64).reshape(-1, self._panels, self.width)
        begin = self.other_zero * (self.depth * self.zero - sums)
        words = target.view(np.int32).reshape(-1, self._panels, self.panel_words)
        words[..., : self.width] = begin.astype(np.int32)
        words[..., self.width :].view(np.int8)[...] = self._grouped(signed)

    @property
    def _panels(self) -> int:
        return -(-self.lanes[0] // self.width)

    def _padded(self, factor: Array) -> Array:
        """The factor as [trips, runs, elements of a run, lanes], with zeros behind each run and the last lane."""
        runs, extent = self.depth // self.run, self.lanes[0]
        blocks = factor.reshape(-1, runs, self.run, extent)
        padded = np.zeros(
            (len(blocks), runs, self._full_run, self._panels * self.width), factor.dtype
        )
        padded[:, :, : self.run, :extent] = blocks
        return padded

    def _grouped(self, padded: Array) -> Array:
        """The same as [trips, panels, elements], neighbours of the reduction side by side."""
        blocks, runs, _, _ = padded.shape
        split = padded.reshape(blocks, runs, -1, self.group, self._panels, self.width)
        return split.transpose(0, 4, 1, 2, 5, 3).reshape(blocks, self._panels, -1)
