"""Training set of online learning: the current cost of each known candidate on the machine.

After drift, old measurements mislead, and fresh ones are few. Both are used: candidates measured
before and since show how costs moved (``Correction``), and the rest is corrected by it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from math import inf

import numpy as np
import numpy.typing as npt

from autotune.cost_model.replay_set import Replayed, is_held_out
from autotune.runtime.execution.program_table import CostKey
from autotune.runtime.online.correction import Correction
from autotune.store.records import Outcome, Record

Floats = npt.NDArray[np.float64]

OBSERVATIONS = 32
"""Newest measurements of one candidate that are kept."""

HALF_LIFE = 8
"""Measurements after which one counts half in a candidate's mean."""

CORRECTED_WEIGHT = 0.25
"""What a corrected cost counts beside a measured one: its error is several per cent."""

MOST_CANDIDATES = 20_000
"""Candidates that are kept; the one that was added first goes first."""

ASSUMED_NOISE = 0.03
"""Spread of a candidate's timings that is assumed below ``KNOWN_NOISE`` of them."""

KNOWN_NOISE = 5

NEWS_SPREADS = 4.0
"""A cost that moved by fewer of its own standard deviations is no news."""


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
        fresh = np.asarray([cycles for at, cycles in self.seen if at >= since_seconds], float)
        if not fresh.size:
            return None
        weights = 0.5 ** (np.arange(len(fresh))[::-1] / HALF_LIFE)
        return float(np.average(_winsorised(fresh), weights=weights))

    def news(self, since_seconds: float, tolerance: float) -> bool:
        """Return True if it was never trained on, or its cost moved beyond ``tolerance`` and its noise."""
        if not self.trained:
            return True
        fresh = np.asarray([cycles for at, cycles in self.seen if at >= since_seconds], float)
        if not fresh.size:
            return False
        moved = abs(float(np.log(np.median(fresh) / self.cycles)))
        noise = _spread(np.log(fresh)) if fresh.size >= KNOWN_NOISE else ASSUMED_NOISE
        return moved > max(tolerance, NEWS_SPREADS * noise)


class OnlineDataset:
    """Candidates by cost key, each with the cycles it is believed to take now.

    Of the first ``records`` a model knows those until ``trained_until_seconds``; the others are news.
    """

    def __init__(
        self,
        records: Sequence[Record],
        trusted_since_seconds: float = 0.0,
        trained_until_seconds: float = inf,
    ) -> None:
        self._entries: dict[CostKey, _Entry] = {}
        self._since_seconds = trusted_since_seconds
        self._touched: set[CostKey] = set()
        for record in records:
            if record.created_at < trained_until_seconds:
                self.observe(record)
        for entry in self._entries.values():
            entry.set_cost(float(entry.newest.cycles))
        self._touched.clear()
        for record in records:
            if record.created_at >= trained_until_seconds:
                self.observe(record)

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
            if len(self._entries) > MOST_CANDIDATES:
                del self._entries[next(iter(self._entries))]
        self._touched.add(key)
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

    def news(self, tolerance: float) -> frozenset[CostKey]:
        """Return the candidates observed since the last call, or news then, without training or whose cost moved by more than
        ``tolerance`` (a fraction) and by more than their measurements scatter."""
        news = frozenset(
            key
            for key in self._touched
            if (entry := self._entries.get(key)) is not None
            and entry.news(self._since_seconds, tolerance)
        )
        self._touched = set(news)
        return news

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
        rest = [entry for key, entry in self._entries.items() if key not in fresh]
        if moved and pairs and rest:
            correction = Correction.fit(
                [(entry.record, entry.cycles) for entry, _ in pairs],
                [cycles for _, cycles in pairs],
                seed,
            )
            ratios = correction.ratios([(entry.record, entry.cycles) for entry in rest])
            for entry, ratio in zip(rest, ratios, strict=True):
                entry.cycles *= float(ratio)
        for key, cycles in fresh.items():
            self._entries[key].set_cost(cycles)
        for entry in self._entries.values():
            entry.trained = True
        return len(pairs)

    def training_set(self, drifted: bool = False) -> TrainingSet:
        """Return one record per candidate with its believed cycles, oldest first; fresh ones weigh most. Those
        that models are judged by are left out. ``drifted`` passes on what it says."""
        entries = sorted(
            (entry for key, entry in self._entries.items() if not is_held_out(key)),
            key=lambda entry: entry.record.created_at,
        )
        return TrainingSet(
            tuple(replace(e.record, cycles=max(1, round(e.cycles))) for e in entries),
            tuple(
                1.0 if entry.record.created_at >= self._since_seconds else CORRECTED_WEIGHT
                for entry in entries
            ),
            drifted,
        )

    def held_out(self) -> list[Replayed]:
        """Return the candidates that models are judged by, with their believed cycles."""
        return [
            Replayed(e.record, e.cycles, e.record.created_at >= self._since_seconds)
            for key, e in self._entries.items()
            if is_held_out(key)
        ]


@dataclass(frozen=True, slots=True)
class TrainingSet:
    """Records to fit a model on, and the weight of each. ``drifted`` says that old ones changed too: they follow
    how costs moved since the model before was trained."""

    records: tuple[Record, ...]
    weights: tuple[float, ...]
    drifted: bool = False


def _spread(values: Floats) -> float:
    """Standard deviation by the median distance from the median, which outliers do not move."""
    return 1.4826 * float(np.median(np.abs(values - np.median(values))))


def _winsorised(cycles: Floats) -> Floats:
    """Costs with outliers drawn to three spreads from their median."""
    middle, spread = float(np.median(cycles)), _spread(cycles)
    near: Floats = np.clip(cycles, middle - 3 * spread, middle + 3 * spread)
    return near if spread else np.full_like(cycles, middle)
