"""Result of one run of the engine: its sums, its trace, and how both lie in memory."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np
import numpy.typing as npt

from autotune.isa.formats import Format

MAC_FORMATS = (Format.FP32, Format.BF16, Format.INT8)
"""Formats of multiply-adds, by the codes of cost.h; UINT8 counts as INT8."""
UNITS, CAUSES, OPCODES = 4, 11, 40
"""Lengths of the arrays in ``struct Sums``; the engine checks them against account.h."""

SUMS = (
    ("executed", OPCODES),
    ("spent", UNITS * CAUSES),
    ("waits", UNITS),
    ("signals", UNITS),
    ("trips", 1),
    ("cases", 1),
    ("transfers", 2),
    ("bursts", 2),
    ("wanted_bytes", 2),
    ("closed", 2),
    ("conflicts", 2),
    ("turnarounds", 2),
    ("data_cycles", 2),
    ("row_cycles", 2),
    ("turn_cycles", 2),
    ("folds", 1),
    ("stream_cycles", 1),
    ("fill_cycles", 1),
    ("macs_issued", len(MAC_FORMATS)),
    ("macs_useful", len(MAC_FORMATS)),
    ("elements", 3),
    ("work", 1),
    ("passes", 1),
    ("slots", 1),
    ("read_bytes", UNITS),
    ("written_bytes", UNITS),
    ("padded_bytes", 1),
    ("first", 1),
    ("last", 1),
    ("peak_bytes", 1),
)
"""Name and length of each member of a row of sums, ``struct Sums`` of account.h."""

SUM_COUNT = sum(length for _, length in SUMS)

EVENT = np.dtype(
    [
        ("since", "i8"),
        ("start", "i8"),
        ("end", "i8"),
        ("core", "i4"),
        ("unit", "i4"),
        ("word", "i4"),
        ("cause", "i4"),
    ]
)
"""One row of a trace, ``struct Event`` of machine.h. From ``start`` to ``end`` a unit (4: the DRAM
channel) was at work. It had been free since ``since``, and waited last for ``cause``."""


class By(IntEnum):
    """Regions that a run's sums are taken over."""

    PROGRAM = 0
    MARK = 1
    INSTRUCTION = 2


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """Counts of one run.

    ``sequencers`` holds per core (clock, cycles held by a full queue, cycles waiting for a
    semaphore). ``sums`` maps each requested ``By`` to ``[regions, SUM_COUNT]`` int64. ``events`` is
    a trace of EVENT rows or None; ``dropped`` events lie beyond its limit.
    """

    cycles: int
    sequencers: list[tuple[int, int, int]]
    sums: dict[By, npt.NDArray[np.int64]]
    events: npt.NDArray[Any] | None
    dropped: int
