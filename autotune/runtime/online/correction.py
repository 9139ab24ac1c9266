"""How costs moved when a machine drifted, learned from candidates that were measured before and after."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from sklearn.ensemble import ExtraTreesRegressor

from autotune.store.records import Record

Floats = npt.NDArray[np.float64]

FEWEST_PAIRS = 16
"""Below this many re-measured candidates the correction is their median ratio alone."""


@dataclass(frozen=True, slots=True)
class Correction:
    """The ratio of new to old cycles, learned from candidates that were measured before and after.

    It reads what was recorded of the old execution (bytes, energy and counters per cycle): what
    slows down when a resource does is what that resource bounded.
    """

    names: tuple[str, ...]
    forest: ExtraTreesRegressor | None
    median: float

    @classmethod
    def fit(
        cls, old: Sequence[tuple[Record, float]], new_cycles: Sequence[float], seed: int
    ) -> Correction:
        """Learn from (record, old cycles) and the new cycles of the same candidates."""
        ratios = np.log(np.asarray(new_cycles) / np.asarray([cycles for _, cycles in old]))
        median = float(np.median(ratios))
        if len(old) < FEWEST_PAIRS:
            return cls((), None, median)
        names = tuple(sorted(set.intersection(*(set(record.counters) for record, _ in old))))
        forest = ExtraTreesRegressor(100, min_samples_leaf=2, random_state=seed)
        forest.fit(_features(old, names), ratios)
        return cls(names, forest, median)

    def ratios(self, old: Sequence[tuple[Record, float]]) -> Floats:
        """New over old cycles of each (record, old cycles)."""
        if not old:
            return np.empty(0)
        if self.forest is None:
            return np.full(len(old), np.exp(self.median))
        predicted: Floats = np.exp(self.forest.predict(_features(old, self.names)))
        return predicted


def _features(old: Sequence[tuple[Record, float]], names: Sequence[str]) -> Floats:
    """[records, 3 + counters]: log cycles, then bytes, femtojoules and each counter per cycle."""
    return np.asarray(
        [
            [
                np.log(cycles),
                record.dram_bytes / cycles,
                record.energy_fj / cycles,
                *(record.counters.get(name, 0) / cycles for name in names),
            ]
            for record, cycles in old
        ]
    )
