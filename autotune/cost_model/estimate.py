"""What the cost model says of schedules: cycles with an interval, energy, DRAM bytes.

Made by ``CostModel``, read by search, predictor and reports.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Rows = npt.NDArray[Any]
"""Features in single or double precision: trees round them to single."""


@dataclass(frozen=True, slots=True)
class Best:
    """Of a table only the ``count`` schedules of the fewest analytic cycles matter, and only up to ``limit`` cycles."""

    count: int
    limit: float = np.inf


@dataclass(frozen=True, slots=True)
class Prediction:
    """Cycles of ``n`` schedules and the interval that holds 90 % of measurements, all [n]."""

    cycles: Floats
    low: Floats
    high: Floats


@dataclass(frozen=True, slots=True)
class Estimate:
    """Everything predicted about ``n`` schedules, all [n]: cycles with their interval, femtojoules, DRAM
    bytes, and ``novelty``: the share of training programs that the model knew better (0 to 1; NaN: unknown)."""

    cycles: Floats
    low: Floats
    high: Floats
    energy_fj: Floats
    dram_bytes: Floats
    novelty: Floats

    @property
    def columns(self) -> Floats:
        """All fields that add up over nests, as rows [5, n]."""
        return np.stack([self.cycles, self.low, self.high, self.energy_fj, self.dram_bytes])


@dataclass(frozen=True, slots=True)
class Forecast:
    """Cycles of ``n`` schedules [n], and what the rest of their ``Estimate`` is found from: features
    [n, F], femtojoules of actions and of a cycle [n], DRAM bytes that programs ask for [n]."""

    cycles: Floats
    x: Floats
    dynamic_fj: Floats
    leak_fj: Floats
    moved_bytes: Floats

    def take(self, rows: npt.NDArray[np.int64]) -> Forecast:
        """The schedules at ``rows``, in that order."""
        return Forecast(*(column[rows] for column in self._columns))

    def then(self, other: Forecast) -> Forecast:
        """These schedules, then those of another forecast of the same nest."""
        pairs = zip(self._columns, other._columns, strict=True)
        return Forecast(*(np.concatenate(pair) for pair in pairs))

    @property
    def _columns(self) -> tuple[Floats, ...]:
        return self.cycles, self.x, self.dynamic_fj, self.leak_fj, self.moved_bytes
