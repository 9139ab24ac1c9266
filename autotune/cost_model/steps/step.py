"""One load, stage or store of a nest, with its cost over all runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from autotune.cost_model.steps.tiling import Floats
from autotune.fusion.nest import Stage
from autotune.isa.opcodes import Unit
from autotune.schedule.table import Ints


@dataclass(frozen=True, slots=True)
class TileCosts:
    """Cost of one run on each kind of tile: a kind says of every one of ``dims`` whether the tile is its
    rest, the first dimension changing slowest.

    Arrays [c, n]: busy ``cycles`` of the unit, ``channel`` cycles of DRAM among them, ``instructions``;
    ``behind`` are the cycles after the operands were read for the last time.
    """

    dims: tuple[int, ...]
    cycles: Floats
    channel: Floats
    instructions: Floats
    behind: Floats | None = None


@dataclass(frozen=True, slots=True)
class Effort:
    """Cost of all runs of a step together; arrays [n].

    ``cycles`` is the unit's busy time, ``channel_cycles`` what of it occupies the DRAM channel,
    ``moved_bytes`` the DRAM transfers in whole bursts, ``runs`` their contiguous pieces, ``tiles`` the
    cost of a single run.
    """

    cycles: Floats
    tiles: TileCosts
    multiply_adds: Floats | None = None
    lane_elements: Floats | None = None
    channel_cycles: Floats | None = None
    moved_bytes: Floats | None = None
    runs: Floats | None = None


@dataclass(frozen=True)
class Step:
    """One load, stage or store of a nest; arrays have shape [n], one value per schedule.

    ``level`` is the depth of the surrounding loop (−1 outside), ``count`` the runs over the whole
    nest. ``pieces`` is the number of reduction pieces in an inner loop, 1 where there is none.
    ``useful_bytes`` are the DRAM bytes of the program, ``least_bytes`` those without repeats (None:
    all of them). ``find_effort`` and ``find_touched`` run at first use: rooflines do not need the
    effort of transfers, the dearest of all.
    """

    unit: Unit
    stage: Stage
    buffer: int
    level: Ints
    count: Floats
    instructions: Floats
    pieces: Ints | Floats
    find_effort: Callable[[], Effort]
    find_touched: Callable[[], Floats]
    useful_bytes: Floats | None = None
    least_bytes: Floats | None = None

    @cached_property
    def effort(self) -> Effort:
        """Cost of all runs together."""
        return self.find_effort()

    @property
    def cycles(self) -> Floats:
        """Busy time of the unit over all runs."""
        return self.effort.cycles

    @property
    def tile_cycles(self) -> Floats:
        """Busy time of one run, as a mean over full tiles and rests."""
        return self.cycles / self.count

    @cached_property
    def touched(self) -> Floats:
        """Scratchpad elements read and written over all runs."""
        return self.find_touched()
