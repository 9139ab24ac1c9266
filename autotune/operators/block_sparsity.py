"""Block sparsity of a product's constant weight: an attribute that lists its zero blocks.

Lowering skips these blocks, and the cost model does not count them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
import numpy.typing as npt

from autotune.operators.op import Family, Op

ATTRIBUTE = "zero_blocks"
GRAINS = (64, 32, 16)
"""Edges of blocks in elements, the coarsest first: a block of fewer is not worth a transfer of its own."""
MAX_PIECES = 2048
"""Of one product, each a transfer and a MATMUL in the program: with more of them nothing is left out."""
_LOST = 0.02
"""Share of the zeros that a coarser grain may lose."""

Piece = tuple[int, int]
"""First element along the reduction, and how many."""


@dataclass(frozen=True)
class ZeroBlocks:
    """Which blocks of ``grain`` × ``grain`` elements of a weight [K, N] hold anything but zeros:
    ``rows`` are masks, bit j of row i for block (i, j). Blocks at the ends may be smaller."""

    grain: int
    columns: int
    rows: tuple[int, ...]

    @classmethod
    def of(cls, nonzero: npt.NDArray[np.bool_]) -> ZeroBlocks:
        """Find the zero blocks of a weight [K, N] that is not zero where ``nonzero``: by the coarsest grain that finds
        nearly all zeros that the finest one finds."""
        found = [cls._by(nonzero, grain) for grain in GRAINS]
        enough = found[-1].zero_share - _LOST
        return next(one for one in found if one.zero_share >= enough)

    @classmethod
    def _by(cls, nonzero: npt.NDArray[np.bool_], grain: int) -> ZeroBlocks:
        starts = [np.arange(0, extent, grain) for extent in nonzero.shape]
        by_row = np.logical_or.reduceat(nonzero, starts[0], axis=0)
        kept = np.logical_or.reduceat(by_row, starts[1], axis=1)
        rows = (int("".join("01"[bit] for bit in row[::-1]), 2) for row in kept.astype(int))
        return cls(grain, kept.shape[1], tuple(rows))

    @property
    def attribute(self) -> tuple[int, ...]:
        """What an operator holds; ``zero_blocks`` reads it back."""
        return (self.grain, self.columns, *self.rows)

    @property
    def blocks(self) -> int:
        """Blocks in all."""
        return self.columns * len(self.rows)

    @property
    def zeros(self) -> int:
        """Blocks that are all zero."""
        return self.blocks - sum(row.bit_count() for row in self.rows)

    @property
    def zero_share(self) -> float:
        """Blocks that are all zero, of all."""
        return self.zeros / self.blocks

    def pieces(self, columns: Piece, k_tile: int, k_extent: int) -> tuple[Piece, ...]:
        """Return the nonzero pieces of the reduction for a tile of ``columns``.

        These are pieces of ``k_tile``, or runs of nonzero blocks if the reduction is whole. At
        least one piece remains, which computes the zeros.
        """
        first, count = columns
        here = np.array([first]), np.array([first + count])
        grain = self.grain if k_tile >= k_extent else k_tile
        kept = self._kept(here, grain, k_extent)[0]
        found: list[Piece] = []
        for number in np.flatnonzero(kept):
            begin = int(number) * grain
            size = min(grain, k_extent - begin)
            if k_tile >= k_extent and found and sum(found[-1]) == begin:
                found[-1] = found[-1][0], found[-1][1] + size
            else:
                found.append((begin, size))
        return tuple(found) or ((0, min(grain, k_extent)),)

    def shares(self, n: Piece, k_tile: int, k_extent: int) -> tuple[float, float]:
        """Return, for tiles of ``n``[0] along N's ``n``[1], the share of the reduction that they need, and pieces
        that one tile takes, both as means."""
        return _shares(self, n, k_tile, k_extent)

    def skips(self, n: Piece, k_tile: int, k_extent: int) -> bool:
        """Return True if tiles of ``n[0]`` of N's ``n[1]`` columns skip a block in at most
        ``MAX_PIECES`` pieces."""
        share, pieces = self.shares(n, k_tile, k_extent)
        return share < 1.0 and pieces * -(-n[1] // n[0]) <= MAX_PIECES

    def _kept(
        self,
        columns: tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]],
        grain: int,
        k_extent: int,
    ) -> npt.NDArray[np.bool_]:
        """Return a mask by interval of columns and piece of the reduction: True if a block is nonzero."""
        starts = np.arange(0, k_extent, grain)
        ends = np.minimum(starts + grain, k_extent)
        low, high = starts // self.grain, -(-ends // self.grain)
        left, right = columns[0] // self.grain, -(-columns[1] // self.grain)
        sums = self._sums
        rows = sums[high] - sums[low]
        counts: npt.NDArray[np.bool_] = (rows[:, right] - rows[:, left] > 0).T
        return counts

    @cached_property
    def _sums(self) -> npt.NDArray[np.int64]:
        """Nonzero blocks above and to the left of each corner [K blocks + 1, N blocks + 1]."""
        bits = [[row >> j & 1 for j in range(self.columns)] for row in self.rows]
        total = np.zeros((len(self.rows) + 1, self.columns + 1), dtype=np.int64)
        total[1:, 1:] = np.cumsum(np.cumsum(np.array(bits, dtype=np.int64), axis=0), axis=1)
        return total


@lru_cache(maxsize=65536)
def _shares(blocks: ZeroBlocks, n: Piece, k_tile: int, k_extent: int) -> tuple[float, float]:
    tile, extent = n
    starts = np.arange(0, extent, tile)
    whole = k_tile >= k_extent
    grain = blocks.grain if whole else k_tile
    kept = blocks._kept((starts, np.minimum(starts + tile, extent)), grain, k_extent)
    sizes = np.full(kept.shape[1], grain)
    sizes[-1] = k_extent - grain * (kept.shape[1] - 1)
    needed = np.maximum(kept @ sizes, sizes[0])
    began = kept[:, 0] + np.sum(kept[:, 1:] & ~kept[:, :-1], axis=1) if whole else kept.sum(axis=1)
    return float(needed.mean()) / k_extent, float(np.maximum(began, 1).mean())


@lru_cache(maxsize=1024)
def _read(attribute: tuple[int, ...]) -> ZeroBlocks:
    grain, columns, *rows = attribute
    return ZeroBlocks(grain, columns, tuple(rows))


def zero_blocks(op: Op) -> ZeroBlocks | None:
    """The blocks of an operator's weight that may be left out; None where nothing says so."""
    for name, value in op.attrs:
        if name == ATTRIBUTE:
            assert isinstance(value, tuple)
            return _read(value)
    return None


def made_axis(op: Op, rank: int) -> int:
    """The axis of a product's result that its weight's N is."""
    return op.axes.channel if op.family is Family.CONV else rank - 1
