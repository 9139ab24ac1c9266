"""What a nest does per tile, as steps of its units: from tilings to cycles; features read these."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from autotune.cost_model.tiling import Floats
from autotune.fusion.nest import Stage
from autotune.isa.opcodes import Unit
from autotune.schedule.table import Ints


@dataclass(frozen=True, slots=True)
class Effort:
    """What all runs of a step take together; arrays [n].

    ``cycles`` is the unit's busy time, ``touched`` scratchpad elements, ``moved_bytes`` what DRAM
    transfers in bursts, ``runs`` contiguous pieces.
    """

    cycles: Floats
    touched: Floats
    multiply_adds: Floats | None = None
    lane_elements: Floats | None = None
    moved_bytes: Floats | None = None
    runs: Floats | None = None


@dataclass(frozen=True)
class Step:
    """One load, stage or store of a nest; arrays have shape [n], one value per schedule.

    ``level`` is the depth of the loop it runs in (−1 outside), ``count`` how often it runs over the
    whole nest, ``pieces`` the number of reduction pieces that it works through in an inner loop, 1
    where there is none, ``useful_bytes`` what the program asks of DRAM, ``least_bytes`` how much of that
    is not asked for twice (None: all of it). ``found`` works its effort
    out, once, when that is asked for: whoever only orders schedules by their rooflines does not need
    that of transfers, which costs most.
    """

    unit: Unit
    stage: Stage
    buffer: int
    level: Ints
    count: Floats
    instructions: Floats
    pieces: Ints | Floats
    found: Callable[[], Effort]
    useful_bytes: Floats | None = None
    least_bytes: Floats | None = None

    @cached_property
    def effort(self) -> Effort:
        """What all runs take together."""
        return self.found()

    @property
    def cycles(self) -> Floats:
        """Busy time of the unit over all runs."""
        return self.effort.cycles

    @property
    def tile_cycles(self) -> Floats:
        """Busy time of one run, as a mean over full tiles and rests."""
        return self.cycles / self.count

    @property
    def touched(self) -> Floats:
        """Scratchpad elements over all runs."""
        return self.effort.touched
