"""Figures that fade: means and spreads over the newest runs, rates over the newest minute.

Costs fade by runs: a mean of the newest few hundred runs is as exact for a network that runs once a
minute as for one that runs a thousand times a second. Frequency fades by time: groups of networks
that run at different rates are compared by it, and a group that stops to run has to become rare.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

HALF_LIFE_RUNS = 256
"""Newer runs after which a run counts half in means and spreads."""
HALF_LIFE_SECONDS = 60.0
"""Seconds after which an execution counts half in a rate."""
BATCH_RUNS = 1024
"""Runs that are added at most in one call."""

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

_WEIGHTS: Floats = 0.5 ** (np.arange(BATCH_RUNS)[::-1] / HALF_LIFE_RUNS)
_LN2 = math.log(2)
_SHORTEST_NS = 10**8
"""Least age that a rate is taken over: the first runs of a session are no rate yet."""


class FadingMoments:
    """Weighted means and deviations of some figures, the newest run with weight 1.

    Squares are of distances from the mean before, so that nothing of note cancels (Chan, Golub and
    LeVeque 1983). Not safe to use from several threads.
    """

    def __init__(self, width: int) -> None:
        self.weight = 0.0
        self.mean: Floats = np.zeros(width)
        self.newest: Floats = np.zeros(width)
        self._squares: Floats = np.zeros(width)

    def add(self, rows: Floats) -> None:
        """Add runs [n, width], 1 ≤ n ≤ ``BATCH_RUNS``, oldest first. Overwrites ``rows``."""
        self.newest = rows[-1].copy()
        if not self.weight:
            self.mean = rows[0].copy()
        weights = _WEIGHTS[-len(rows) :]
        decay = 0.5 ** (len(rows) / HALF_LIFE_RUNS)
        self.weight = self.weight * decay + float(weights.sum())
        rows -= self.mean
        moved = weights @ rows
        self._squares *= decay
        self._squares += weights @ np.square(rows, out=rows)
        self._squares -= np.square(moved) / self.weight
        self.mean += moved / self.weight

    @property
    def deviation(self) -> Floats:
        """Standard deviations; zeros before the first run."""
        if not self.weight:
            return self._squares
        return np.sqrt(np.maximum(self._squares, 0.0) / self.weight)


class FadingCount:
    """A count of events that halves every minute. Not safe to use from several threads."""

    def __init__(self, since_ns: int) -> None:
        self._since_ns, self._at_ns = since_ns, since_ns
        self._count = 0.0

    def add(self, count: int, first_ns: int, last_ns: int) -> None:
        """Add events that spread evenly over a time."""
        at_ns = max(self._at_ns, last_ns)
        halvings = max(0, last_ns - first_ns) * (1e-9 / HALF_LIFE_SECONDS)
        mean = -math.expm1(-halvings * _LN2) / (halvings * _LN2) if halvings > 1e-9 else 1.0
        self._count = self._count * _kept(at_ns - self._at_ns) + count * mean * _kept(
            at_ns - last_ns
        )
        self._at_ns = at_ns

    def per_second(self, now_ns: int) -> float:
        """Return events per second over the newest minutes, or since the count began."""
        age_ns = max(now_ns - self._since_ns, _SHORTEST_NS)
        full = HALF_LIFE_SECONDS / _LN2 * (1 - _kept(age_ns))
        return self._count * _kept(now_ns - self._at_ns) / full


def _kept(elapsed_ns: int) -> float:
    """Return what is left of a count after some time."""
    return math.exp2(-max(0, elapsed_ns) * (1e-9 / HALF_LIFE_SECONDS))
