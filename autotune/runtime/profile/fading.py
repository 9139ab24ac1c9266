"""Figures that fade: means and spreads over the newest runs, rates over the newest minute.

Costs fade by runs: a mean of the newest few hundred runs is as exact for a network that runs once a
minute as for one that runs a thousand times a second. Frequency fades by time: groups of networks
that run at different rates are compared by it, and a group that stops to run has to become rare.
"""

from __future__ import annotations

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
_SHORTEST_NS = 10**8
"""Least age that a rate is taken over: the first runs of a session are no rate yet."""


class FadingMoments:
    """Weighted means and deviations of some figures, the newest run with weight 1.

    Batches are combined as by Chan, Golub and LeVeque (1983), which stays exact where sums of squares
    cancel. Not safe to use from several threads.
    """

    def __init__(self, width: int) -> None:
        self.weight = 0.0
        self.mean: Floats = np.zeros(width)
        self.newest: Floats = np.zeros(width)
        self._squares: Floats = np.zeros(width)

    def add(self, rows: Floats) -> None:
        """Add runs [n, width], 1 ≤ n ≤ ``BATCH_RUNS``, oldest first."""
        weights = _WEIGHTS[-len(rows) :]
        added = float(weights.sum())
        mean = weights @ rows / added
        decay = 0.5 ** (len(rows) / HALF_LIFE_RUNS)
        kept = self.weight * decay
        moved = mean - self.mean
        self._squares *= decay
        apart = rows - mean
        self._squares += weights @ np.square(apart, out=apart)
        self._squares += moved**2 * (kept * added / (kept + added))
        self.mean += moved * (added / (kept + added))
        self.weight = kept + added
        self.newest = rows[-1].copy()

    @property
    def deviation(self) -> Floats:
        """Standard deviations; zeros before the first run."""
        return np.sqrt(self._squares / self.weight) if self.weight else self._squares


class FadingCount:
    """A count of events that halves every minute. Not safe to use from several threads."""

    def __init__(self, since_ns: int) -> None:
        self._since_ns, self._at_ns = since_ns, since_ns
        self._count = 0.0

    def add(self, times_ns: Integers) -> None:
        """Add events, in any order."""
        at_ns = max(self._at_ns, int(times_ns.max()))
        self._count *= _kept(at_ns - self._at_ns)
        self._count += float(np.exp2((times_ns - at_ns) * (1e-9 / HALF_LIFE_SECONDS)).sum())
        self._at_ns = at_ns

    def per_second(self, now_ns: int) -> float:
        """Return events per second over the newest minutes, or since the count began."""
        age_ns = max(now_ns - self._since_ns, _SHORTEST_NS)
        full = HALF_LIFE_SECONDS / np.log(2) * (1 - _kept(age_ns))
        return self._count * _kept(now_ns - self._at_ns) / float(full)


def _kept(elapsed_ns: int) -> float:
    """Return what is left of a count after some time."""
    return float(0.5 ** (max(0, elapsed_ns) * (1e-9 / HALF_LIFE_SECONDS)))
