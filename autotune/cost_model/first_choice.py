"""When a second stage may overrule the plain formula's first choice."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

PROMISES = (1.02, 1.1, 1.3, np.inf)
"""How many times cheaper than the formula's first choice another schedule must be, to be chosen instead: held-out groups of a
calibration tell which of these chooses best, and an infinite one keeps the formula's choice. On one thread of a calm Zen 4, regrets in sets
of sixteen held-out networks are 1.0, 1.2, 3.2 and 3.2 %, and calibrations choose the first two. On two threads, groups of 5 to
30 µs are chosen worse at small promises, and calibrations choose 1.3."""


def cautious(cycles: Floats, formula: Floats, promised: float) -> Floats:
    """Return ``cycles`` [n] of a group's schedules, as little as the least for the first choice by the ``formula``
    [n], unless another is ``promised`` times cheaper.

    Of hundreds of schedules, the first choice of a second stage is the one that it is most wrong about.
    """
    first, best = int(np.argmin(formula)), int(np.argmin(cycles))
    chosen = cycles.copy()
    if first != best and cycles[best] < np.inf and cycles[first] <= promised * cycles[best]:
        chosen[first] = np.nextafter(cycles[best], 0.0)
    return chosen


def kept_first(costs: Floats, first: int) -> Floats:
    """Return ``costs`` [3, n] of a group's schedules, cycles with their low and high, in which none is below the ``first``
    choice of the formula: what trees say is cheaper counts as much."""
    cycles = np.maximum(costs[0], costs[0, first])
    kept = np.asarray(costs * (cycles / costs[0]))
    kept[0] = cycles  # equal to the last bit, so that a stable order leaves the first where it is
    return kept
