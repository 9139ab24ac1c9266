"""Bursts of the contiguous runs that tiles along one dimension of a tensor are moved in.

The few tiles of a dimension begin at few places: a run that ends there counts the bursts of each place, as
``bursts_of_row`` in ``kernels/emulator/dram.h`` does.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from autotune.kernels.tape.recorder import recorded_step, step_now
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
        """Mean bursts of a run through each tile of the kinds and schedules ``asked`` [c, n]; 0 of the others.

        An element is ``pitch_bytes`` long; all before this dimension shifts the run by any multiple of ``grain``
        bytes [c, n], a power of two. Of many tiles the first ``MOST`` count.
        """
        rest = self.is_rest[:, None]
        first = np.where(rest, self.full, 0) * self.step + self.offset
        tiles = np.where(rest, 1, np.minimum(self.full, MOST))
        span = np.where(rest, self.rest_span, self.span)
        line = (first, self.step, tiles, span, self.extent)
        touched = touched_bytes(asked, line, pitch_bytes, grain, burst_bytes)
        bursts: Floats = touched / (burst_bytes * tiles)
        return bursts


Line = tuple[Ints, Ints, Ints, Ints, int]
"""Where the first of some tiles begins, from one to the next, their number, span, and the extent that ends them."""


def touched_bytes(asked: Mask, line: Line, pitch_bytes: int, grain: Ints, burst_bytes: int) -> Ints:
    """Bytes in whole bursts of the runs through all tiles of a line [c, n], each a mean over the phases that
    multiples of ``grain`` shift it by; 0 where it is not ``asked``."""
    recorded: Ints | None = recorded_step("bursts", (asked, *line, pitch_bytes, grain, burst_bytes))
    if recorded is not None:
        return recorded
    operands = (*line, pitch_bytes, grain, burst_bytes)
    rows = [np.broadcast_to(x, asked.shape)[asked] for x in operands]
    touched = np.zeros(asked.shape, dtype=np.int64)
    touched[asked] = step_now("bursts", np.stack([np.ones_like(rows[0]), *rows]))
    return touched
