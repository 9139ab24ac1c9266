"""The learned cost model: measured over analytic cycles as boosted trees, with intervals.

Trained from stored measurements, asked by search, predictor and runtime.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from autotune.cost_model.analysis import analytic_model
from autotune.cost_model.dataset import dataset
from autotune.cost_model.forest import Forest
from autotune.cost_model.held_out import Misjudged, hold_out
from autotune.cost_model.model_file import pack, unpack
from autotune.cost_model.training import (
    COVERAGE,
    Ratios,
    boost_scale,
    conformal_quantile,
    evaluate,
    folds,
    scale_of,
    train,
)
from autotune.errors import ScheduleError, StoreError
from autotune.fusion.analysis import nests_of
from autotune.fusion.group import Group
from autotune.fusion.nest import Nest
from autotune.schedule.schedule import Schedule
from autotune.schedule.table import ScheduleTable
from autotune.store.records import Record
from autotune.targets.spec import HardwareSpec

Floats = npt.NDArray[np.float64]

MIN_RECORDS = 50
"""Fewer successful measurements than this give no model."""
WORST = 5
"""Groups that a training says it was worst at."""


@dataclass(frozen=True, slots=True)
class Prediction:
    """Cycles of ``n`` schedules and the interval that holds 90 % of measurements, all [n]."""

    cycles: Floats
    low: Floats
    high: Floats


@dataclass(frozen=True, slots=True)
class Estimate:
    """Everything predicted about ``n`` schedules, all [n]: cycles with their interval,
    femtojoules, DRAM bytes."""

    cycles: Floats
    low: Floats
    high: Floats
    energy_fj: Floats
    dram_bytes: Floats

    @property
    def columns(self) -> Floats:
        """All five fields as rows [5, n]."""
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


@dataclass(frozen=True, slots=True)
class Learned:
    """The trained parts: trees for the ratios to the analytic costs, trees for the size of the
    cycles' log error, and the conformal factor on it."""

    ratios: Ratios
    scale: Forest
    factor: float


class CostModel:
    """Predicts what schedules cost on one machine. Immutable; usable from several threads."""

    def __init__(
        self,
        spec: HardwareSpec,
        learned: Learned,
        metrics: Mapping[str, float],
        misjudged: tuple[Misjudged, ...] = (),
    ) -> None:
        """``misjudged`` are the groups that it was worst at when it was trained; not stored."""
        self.spec = spec
        self.misjudged = misjudged
        self._learned = learned
        self.metrics = dict(metrics)

    @classmethod
    def fit(
        cls,
        records: Sequence[Record],
        spec: HardwareSpec,
        *,
        seed: int,
        weights: Sequence[float] | None = None,
    ) -> CostModel:
        """Train on measurements of one machine; failed ones are left out.

        ``weights`` [records] says how much each counts (1 by default), for example less with age,
        beside how far it is trusted.
        ``metrics`` are of out-of-fold predictions: of networks none of whose groups was trained
        on. Raises ``StoreError`` when there are fewer than ``MIN_RECORDS``.
        """
        data = dataset(records, spec, weights)
        if len(data) < MIN_RECORDS:
            raise StoreError(
                f"{spec.name}: {len(data)} successful measurements, a cost model needs "
                f"{MIN_RECORDS}; run 'autotune calibrate --target {spec.name}' first"
            )
        rng = np.random.default_rng(seed)
        held = hold_out(data, folds(data.networks, data.keys, rng), seed)
        ratios = train(data, np.ones(len(data), dtype=bool), seed)
        scale = boost_scale(data.x[data.main], held.error, seed)
        learned = Learned(ratios, scale, conformal_quantile(held.scores, COVERAGE))
        return cls(spec, learned, held.metrics(data), held.misjudged(data, WORST))

    def predict_nest(self, nest: Nest, table: ScheduleTable) -> Prediction:
        """Cycles of every schedule in a table."""
        found = self.estimate(nest, table)
        return Prediction(found.cycles, found.low, found.high)

    def predict_energy(self, nest: Nest, table: ScheduleTable) -> Floats:
        """Femtojoules of every schedule in a table [n]."""
        return self.estimate(nest, table).energy_fj

    def estimate(self, nest: Nest, table: ScheduleTable) -> Estimate:
        """Cycles, interval, energy and DRAM bytes in one go: one analysis serves them all."""
        return self.completed(self.forecast(nest, table))

    def forecast(self, nest: Nest, table: ScheduleTable) -> Forecast:
        """Cycles alone of every schedule in a table, with what the rest can be found from."""
        a = analytic_model(self.spec).analyse(nest, table, self.spec)
        x, ratios = a.features, self._learned.ratios
        cycles = a.cycles(ratios.unit_costs) * np.exp(evaluate(ratios.cycles, x))
        return Forecast(np.maximum(cycles, 1.0), x, a.dynamic_fj, a.leak_fj, a.moved_bytes)

    def energy(self, forecast: Forecast) -> Floats:
        """Femtojoules of forecast schedules [n]."""
        energy = forecast.dynamic_fj + forecast.leak_fj * forecast.cycles
        return energy * np.exp(evaluate(self._learned.ratios.energy, forecast.x))

    def completed(self, forecast: Forecast) -> Estimate:
        """All that is predicted of forecast schedules: the trees of the interval, of energy and of bytes
        are asked for these alone."""
        learned, cycles = self._learned, forecast.cycles
        spread = np.exp(learned.factor * scale_of(learned.scale, forecast.x))
        dram = forecast.moved_bytes * np.exp(evaluate(learned.ratios.dram, forecast.x))
        return Estimate(cycles, cycles / spread, cycles * spread, self.energy(forecast), dram)

    def rough(self, nest: Nest, table: ScheduleTable) -> Floats:
        """Return a cheap score [n] to pre-filter schedules; only its ranking is meaningful."""
        analysis = analytic_model(self.spec).analyse(nest, table, self.spec)
        return analysis.order(self._learned.ratios.unit_costs)

    def predict(self, group: Group, schedule: Schedule) -> float:
        """Cycles of a group: the sum over its nests, which run one after the other.

        Raises ``ScheduleError`` for a group that no program can be made of.
        """
        nests = nests_of(group)
        if len(schedule.nests) != len(nests):
            raise ScheduleError(f"schedule has {len(schedule.nests)} nests, the group {len(nests)}")
        return sum(
            float(self.predict_nest(nest, ScheduleTable.of(nest, [part])).cycles[0])
            for nest, part in zip(nests, schedule.nests, strict=True)
        )

    def to_bytes(self) -> bytes:
        """The model as a file: a JSON header and the tables of the trees."""
        ratios = self._learned.ratios
        trees = {
            "cycles": ratios.cycles,
            "energy": ratios.energy,
            "dram": ratios.dram,
            "scale": self._learned.scale,
        }
        trained = {name: forest for name, forest in trees.items() if forest is not None}
        return pack(
            self.spec, trained, self._learned.factor, self.metrics, ratios.unit_costs.tolist()
        )

    @classmethod
    def from_bytes(cls, blob: bytes, spec: HardwareSpec) -> CostModel:
        """Read what ``to_bytes`` wrote. Raises ``StoreError`` for a broken file, another feature
        version or another machine."""
        trees, factor, metrics, unit_costs = unpack(blob, spec)
        ratios = Ratios(
            trees["cycles"], trees.get("energy"), trees.get("dram"), np.array(unit_costs)
        )
        return cls(spec, Learned(ratios, trees["scale"], factor), metrics)
