"""Counts of a tensor's elements over a range that grows: one pass over the calibration runs."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

HALF_BINS = 4096
"""Bins on each side of zero: 8 to 16 or more of them under each of 256 steps."""


class Histogram:
    """Counts over [−bound, bound]; ``bound`` is a power of two and doubles when an element is beyond it.

    ``low`` and ``high`` are the exact ends; ``is_finite`` is False once an element was not.
    """

    def __init__(self) -> None:
        self.low, self.high = 0.0, 0.0
        self.bound = 0.0
        self.counts: npt.NDArray[np.int64] = np.zeros(2 * HALF_BINS, np.int64)
        self.is_finite = True

    def add(self, values: npt.NDArray[Any]) -> None:
        """Count the elements of an array."""
        flat = np.asarray(values, np.float32).ravel()
        if not flat.size:
            return
        low, high = float(flat.min()), float(flat.max())
        if not (math.isfinite(low) and math.isfinite(high)):
            self.is_finite = False
            return
        self.low, self.high = min(self.low, low), max(self.high, high)
        self._widen(max(-low, high))
        if not self.bound:  # zeros alone
            return
        places = ((flat.astype(np.float64) + self.bound) * (HALF_BINS / self.bound)).astype(
            np.int64
        )
        np.clip(places, 0, 2 * HALF_BINS - 1, out=places)
        self.counts += np.bincount(places, minlength=2 * HALF_BINS)

    @property
    def centres(self) -> npt.NDArray[np.float64]:
        """Middles of the bins."""
        places: npt.NDArray[np.float64] = np.arange(2 * HALF_BINS, dtype=np.float64)
        return (places + (0.5 - HALF_BINS)) * (self.bound / HALF_BINS)

    def _widen(self, reach: float) -> None:
        """Double the bound until it holds ``reach``; each doubling merges neighbouring bins."""
        if reach <= self.bound:
            return
        wanted = 2.0 ** math.ceil(math.log2(reach))
        wanted = wanted if wanted >= reach else 2 * wanted
        while self.bound and self.bound < wanted:
            merged = np.zeros_like(self.counts)
            merged[HALF_BINS // 2 : HALF_BINS // 2 + HALF_BINS] = self.counts.reshape(-1, 2).sum(1)
            self.counts, self.bound = merged, 2 * self.bound
        self.bound = max(self.bound, wanted)
