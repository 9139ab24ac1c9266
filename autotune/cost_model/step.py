"""What a nest does per tile, as steps of its units: from tilings to cycles; features read these."""

from __future__ import annotations

from dataclasses import dataclass

from autotune.cost_model.tiling import Floats
from autotune.fusion.nest import Stage
from autotune.isa.table import Unit
from autotune.schedule.table import Ints


@dataclass(frozen=True, slots=True)
class Step:
    """One load, stage or store of a nest; arrays have shape [n], one value per schedule.

    ``level`` is the depth of the loop it runs in (−1 outside), ``count`` how often it runs over
    the whole nest, ``cycles`` the unit's busy time over all runs; ``moved_bytes`` what DRAM transfers in bursts, ``useful_bytes`` what of it
    the program asked for, ``runs`` contiguous pieces. ``pieces`` is the number of reduction pieces
    that it works through in an inner loop, 1 where there is none.
    """

    unit: Unit
    stage: Stage
    buffer: int
    level: Ints
    count: Floats
    cycles: Floats
    instructions: Floats
    pieces: Ints
    touched: Floats
    multiply_adds: Floats | None = None
    lane_elements: Floats | None = None
    useful_bytes: Floats | None = None
    moved_bytes: Floats | None = None
    runs: Floats | None = None

    @property
    def tile_cycles(self) -> Floats:
        """Busy time of one run, as a mean over full tiles and rests."""
        return self.cycles / self.count
