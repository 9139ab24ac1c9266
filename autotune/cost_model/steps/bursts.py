"""Bursts of the contiguous runs that tiles along one dimension of a tensor are moved in.

The few tiles of a dimension begin at few places: a run that ends there counts the bursts of each place, as
``bursts_of_row`` in ``kernels/emulator/dram.h`` does.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from autotune.schedule.table import Ints

Floats = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]

MOST = 16
"""Tiles that are looked at: as many as there are elements of four bytes in a burst of 64, where they begin at the
same places again."""


@dataclass(frozen=True, slots=True)
class TileLine:
    """The tiles along a dimension of ``extent`` elements, for every schedule [n].

    Tile t of ``full`` begins at ``offset`` + t · ``step`` and spans ``span`` elements, padding included; the
    rest behind them spans ``rest_span``. ``is_rest`` [c] says which kinds of tiles are that one.
    """

    extent: int
    offset: int
    step: Ints
    full: Ints
    span: Ints
    rest_span: Ints
    is_rest: Mask

    def bursts(self, pitch_bytes: int, grain: Ints, asked: Mask, burst_bytes: int) -> Floats:
        """Mean bursts [k] of a run through each tile of the kinds and schedules ``asked`` [c, n], k in all.

        An element is ``pitch_bytes`` long; all before this dimension shifts the run by any multiple of ``grain``
        bytes [c, n], a power of two. Of many tiles the first ``MOST`` count.
        """
        kind, row = np.nonzero(asked)
        rest = self.is_rest[kind]
        first = np.where(rest, self.full[row], 0) * self.step[row] + self.offset
        tiles = np.where(rest, 1, np.minimum(self.full[row], MOST))
        span = np.where(rest, self.rest_span[row], self.span[row])
        held, step = grain[kind, row], self.step[row]
        whole, moved = np.zeros(len(kind), dtype=np.int64), np.zeros(len(kind), dtype=np.int64)
        for tile in range(int(tiles.max(initial=0))):
            low = np.clip(first + tile * step, 0, self.extent)
            length = np.clip(first + tile * step + span, 0, self.extent) - low
            counts = (length > 0) & (tile < tiles)
            reached = ((low * pitch_bytes) & (held - 1)) + length * pitch_bytes
            whole += np.where(counts, (reached + held - 1) & -held, 0)
            moved += counts
        bursts: Floats = (whole + moved * (burst_bytes - held)) / (burst_bytes * tiles)
        return bursts
