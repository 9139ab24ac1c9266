"""Traces: the events of every unit and of the DRAM channel in one execution."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from autotune.isa.program import Program
from autotune.kernels.emulator.outcome import EVENT
from autotune.targets.emulator.reading import UNITS

EVENT_LIMIT = 1_000_000
"""Events that a trace holds unless told otherwise: 40 MB here, about 0.4 GB as JSON."""

CHANNEL = len(UNITS)
"""Code of the DRAM channel among the units of an event."""


@dataclass(frozen=True, slots=True, eq=False)
class Trace:
    """Events of one execution.

    ``events`` is ``[n]`` of the engine's EVENT rows, in starting order per unit. From ``start`` to
    ``end`` the ``unit`` (CHANNEL: the DRAM channel) of ``core`` executed instruction ``word`` of
    the core's stream. From ``since`` to ``start`` it stalled, last by ``cause`` (a code of
    ``reading.CAUSES``). The channel has no ``since``. Times are cycles of the core, ``cycles`` in
    total, at ``clock_hz`` per second. ``dropped`` events came after the last one.
    """

    program: Program
    events: npt.NDArray[Any]
    dropped: int
    cycles: int
    clock_hz: float

    def __post_init__(self) -> None:
        assert self.events.dtype == EVENT
        assert self.dropped >= 0
        self.events.setflags(write=False)

    def nanoseconds(self, cycles: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return times since the begin of the program, rounded to whole nanoseconds."""
        return np.asarray(np.rint(cycles * (1e9 / self.clock_hz)), np.int64)

    def first(self, count: int) -> Trace:
        """Return the trace with at most its first ``count`` events, the others dropped."""
        first = self.events[:count]
        return replace(self, events=first, dropped=self.dropped + len(self.events) - len(first))
