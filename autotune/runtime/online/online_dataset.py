"""Training set of online learning: the current cost of each known candidate on the machine.

After drift, old measurements mislead, and fresh ones are few. Both are used: candidates measured
before and since show how costs moved (``Correction``), and the rest is corrected by it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt
from sklearn.ensemble import ExtraTreesRegressor

from autotune.runtime.execution.program_table import CostKey
from autotune.store.records import Outcome, Record

Floats = npt.NDArray[np.float64]

OBSERVATIONS = 32
"""Newest measurements of one candidate that are kept."""

HALF_LIFE = 8
"""Measurements after which one counts half in a candidate's mean."""

CORRECTED_WEIGHT = 0.25
"""What a corrected cost counts beside a measured one: its error is several per cent."""

FEWEST_PAIRS = 16
"""Below this many re-measured candidates the correction is their median ratio alone."""


@dataclass(slots=True)
class _Entry:
    record: Record
    """The execution that is believed in; like ``cycles`` it changes in ``OnlineDataset.incorporate_fresh`` only."""
    cycles: float
    newest: Record
    trained: bool
    seen: deque[tuple[float, int]] = field(default_factory=lambda: deque(maxlen=OBSERVATIONS))

    def set_cost(self, cycles: float) -> None:
        """Take ``cycles`` as the cost, and the newest execution as what goes with it."""
        self.record, self.cycles, self.trained = self.newest, cycles, True

    def fresh_cycles(self, since_seconds: float) -> float | None:
        """Recency-weighted mean of the measurements since then."""
        fresh = [cycles for at, cycles in self.seen if at >= since_seconds]
        if not fresh:
            return None
        weights = 0.5 ** (np.arange(len(fresh))[::-1] / HALF_LIFE)
        return float(np.average(fresh, weights=weights))


class OnlineDataset:
    """Candidates by cost key, each with the cycles it is believed to take now."""

    def __init__(self, records: Iterable[Record], trusted_since_seconds: float = 0.0) -> None:
        self._entries: dict[CostKey, _Entry] = {}
        self._since_seconds = trusted_since_seconds
        for record in records:
            self.observe(record)
        for entry in self._entries.values():
            entry.set_cost(float(entry.newest.cycles))

    def __len__(self) -> int:
        return len(self._entries)

    def observe(self, record: Record) -> None:
        """Take in one successful measurement; failed ones say nothing of cost."""
        if record.outcome is not Outcome.OK:
            return
        key = record.group_key, record.schedule_json
        entry = self._entries.get(key)
        if entry is None:
            entry = self._entries[key] = _Entry(record, float(record.cycles), record, trained=False)
        entry.newest = record
        entry.seen.append((record.created_at, record.cycles))

    def adopt_predictions(self, predict: Callable[[Record], float | None]) -> None:
        """Take predictions for candidates last measured before the trusted time; forget unpredictable ones.

        A model that was retrained after those measurements knows better than they do.
        """
        for key, entry in tuple(self._entries.items()):
            if entry.newest.created_at >= self._since_seconds:
                continue
            cycles = predict(entry.newest)
            if cycles is None:
                del self._entries[key]
            else:
                entry.set_cost(cycles)

    def count_changed(self, tolerance: float) -> int:
        """Count candidates without training, or whose cost moved by more than ``tolerance`` (a fraction)."""
        count = 0
        for entry in self._entries.values():
            fresh = entry.fresh_cycles(self._since_seconds)
            moved = fresh is not None and abs(fresh / entry.cycles - 1) > tolerance
            count += moved or not entry.trained
        return count

    def stale(self, since_seconds: float) -> list[Record]:
        """Return the newest record of every candidate without a measurement since then."""
        return [e.newest for e in self._entries.values() if e.newest.created_at < since_seconds]

    def cycles(self, key: CostKey) -> float | None:
        """Return the believed cost of a candidate; None if it was never measured."""
        entry = self._entries.get(key)
        return None if entry is None else entry.cycles

    def fresh(self) -> list[Record]:
        """Return the newest record of every candidate measured since the last drift, oldest first."""
        since = self._since_seconds
        found = [e.newest for e in self._entries.values() if e.newest.created_at >= since]
        return sorted(found, key=lambda record: record.created_at)

    def incorporate_fresh(self, since_seconds: float | None, seed: int) -> int:
        """Adopt measurements since then (None: since the last drift); correct the rest by how costs moved.

        Returns the number of re-measured candidates that the correction learned from.
        """
        moved = since_seconds is not None
        if since_seconds is not None:
            self._since_seconds = since_seconds
        fresh = {
            key: cycles
            for key, entry in self._entries.items()
            if (cycles := entry.fresh_cycles(self._since_seconds)) is not None
        }
        pairs = [
            (self._entries[key], cycles)
            for key, cycles in fresh.items()
            if self._entries[key].trained
        ]
        if moved and pairs:
            correction = Correction.fit(
                [(entry.record, entry.cycles) for entry, _ in pairs],
                [cycles for _, cycles in pairs],
                seed,
            )
            rest = [entry for key, entry in self._entries.items() if key not in fresh]
            ratios = correction.ratios([(entry.record, entry.cycles) for entry in rest])
            for entry, ratio in zip(rest, ratios, strict=True):
                entry.cycles *= float(ratio)
        for key, cycles in fresh.items():
            self._entries[key].set_cost(cycles)
        for entry in self._entries.values():
            entry.trained = True
        return len(pairs)

    def training_set(self) -> TrainingSet:
        """Return one record per candidate with its believed cycles, oldest first; fresh ones weigh most."""
        entries = sorted(self._entries.values(), key=lambda entry: entry.record.created_at)
        return TrainingSet(
            tuple(replace(e.record, cycles=max(1, round(e.cycles))) for e in entries),
            tuple(
                1.0 if entry.record.created_at >= self._since_seconds else CORRECTED_WEIGHT
                for entry in entries
            ),
        )


@dataclass(frozen=True, slots=True)
class TrainingSet:
    """Records to fit a model on, and the weight of each."""

    records: tuple[Record, ...]
    weights: tuple[float, ...]


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
