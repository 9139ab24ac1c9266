"""The learned cost model: measured over analytic cycles as boosted trees, with intervals.

Trained from stored measurements, asked by search, predictor and runtime.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import xgboost as xgb

from autotune.cost_model.analysis import Analysis
from autotune.cost_model.dataset import Dataset, Measured, dataset
from autotune.cost_model.energy import analytic_energy
from autotune.cost_model.features import matrix_of
from autotune.cost_model.metrics import coverage, kendall, mape, spearman, top1_regret
from autotune.cost_model.model_file import pack, unpack
from autotune.cost_model.training import boost, boost_scale, conformal_quantile, evaluate, folds, scale_of
from autotune.errors import ScheduleError, StoreError
from autotune.fusion.group import Group
from autotune.fusion.nest import Nest, Rejection, analyse
from autotune.schedule.schedule import Schedule
from autotune.schedule.table import ScheduleTable
from autotune.targets.spec import HardwareSpec

Floats = npt.NDArray[np.float64]

MIN_RECORDS = 50
"""Fewer successful measurements than this give no model."""
COVERAGE = 0.9
"""Share of measurements that intervals are calibrated to hold."""


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


@dataclass(frozen=True, slots=True)
class Learned:
    """The trained parts: trees for log(measured / analytic) cycles, energy and DRAM bytes, trees
    for the size of the cycles' log error, and the conformal factor on it."""

    cycles: xgb.Booster
    energy: xgb.Booster
    dram: xgb.Booster
    scale: xgb.Booster
    factor: float


class CostModel:
    """Predicts what schedules cost on one machine. Immutable; usable from several threads."""

    def __init__(self, spec: HardwareSpec, learned: Learned, metrics: Mapping[str, float]) -> None:
        self.spec = spec
        self._learned = learned
        self.metrics = dict(metrics)

    @classmethod
    def fit(
        cls,
        records: Sequence[Measured],
        spec: HardwareSpec,
        *,
        seed: int,
        weights: Sequence[float] | None = None,
    ) -> CostModel:
        """Train on measurements of one machine; failed ones are left out.

        ``weights`` [records] says how much each counts (1 by default), for example less with age.
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
        held = _held_out(data, folds(data.networks, data.keys, rng), seed)
        whole = np.ones(len(data), dtype=bool)
        scale = boost_scale(data.x_mean, held.error, seed)
        learned = Learned(
            *(_train(data, target, whole, seed) for target in data.targets()),
            scale=scale,
            factor=conformal_quantile(held.scores, COVERAGE),
        )
        return cls(spec, learned, held.metrics(data))

    def predict_nest(self, nest: Nest, table: ScheduleTable) -> Prediction:
        """Cycles of every schedule in a table."""
        found = self.estimate(nest, table)
        return Prediction(found.cycles, found.low, found.high)

    def predict_energy(self, nest: Nest, table: ScheduleTable) -> Floats:
        """Femtojoules of every schedule in a table [n]."""
        return self.estimate(nest, table).energy_fj

    def predict_dram_bytes(self, nest: Nest, table: ScheduleTable) -> Floats:
        """DRAM bytes, loads and stores in whole bursts, of every schedule in a table [n]."""
        return self.estimate(nest, table).dram_bytes

    def estimate(self, nest: Nest, table: ScheduleTable) -> Estimate:
        """Cycles, interval, energy and DRAM bytes in one go: one analysis serves them all."""
        analysis = Analysis(nest, table, self.spec)
        x = matrix_of(analysis)
        learned = self._learned
        cycles = np.maximum(analysis.estimate * np.exp(evaluate(learned.cycles, x)), 1.0)
        spread = np.exp(learned.factor * scale_of(learned.scale, x))
        energy = analytic_energy(analysis, cycles) * np.exp(evaluate(learned.energy, x))
        dram = analysis.moved_bytes * np.exp(evaluate(learned.dram, x))
        return Estimate(cycles, cycles / spread, cycles * spread, energy, dram)

    def predict(self, group: Group, schedule: Schedule) -> float:
        """Cycles of a group: the sum over its nests, which run one after the other.

        Raises ``ScheduleError`` for a group that no program can be made of.
        """
        nests = _nests_of(group)
        if len(schedule.nests) != len(nests):
            raise ScheduleError(f"schedule has {len(schedule.nests)} nests, the group {len(nests)}")
        return sum(
            float(self.predict_nest(nest, ScheduleTable.of(nest, [part])).cycles[0])
            for nest, part in zip(nests, schedule.nests, strict=True)
        )

    def to_bytes(self) -> bytes:
        """The model as a file: a JSON header and the trees in XGBoost's own format."""
        learned = self._learned
        trees = {
            "cycles": learned.cycles, "energy": learned.energy, "dram": learned.dram,
            "scale": learned.scale,
        }
        return pack(self.spec, trees, learned.factor, self.metrics)

    @classmethod
    def from_bytes(cls, blob: bytes, spec: HardwareSpec) -> CostModel:
        """Read what ``to_bytes`` wrote. Raises ``StoreError`` for a broken file, another feature
        version or another machine."""
        trees, factor, metrics = unpack(blob, spec)
        learned = Learned(
            trees["cycles"], trees["energy"], trees["dram"], trees["scale"], factor
        )
        return cls(spec, learned, metrics)


@lru_cache(maxsize=1024)
def _nests_of(group: Group) -> tuple[Nest, ...]:
    nests = analyse(group)
    if isinstance(nests, Rejection):
        raise ScheduleError(f"group of {', '.join(op.name for op in group.ops)}: {nests.reason}")
    return nests


@dataclass(frozen=True, slots=True)
class _HeldOut:
    """Out-of-fold predictions of every measurement [r]."""

    cycles: Floats
    energy: Floats
    dram: Floats
    error: Floats
    scores: Floats
    covered: float

    def metrics(self, data: Dataset) -> dict[str, float]:
        """Figures about networks that were not trained on; rates are shares."""
        keys = data.keys.tolist()
        return {
            "mape": mape(data.cycles, self.cycles),
            "analytic_mape": mape(data.cycles, data.summed(data.estimate)),
            "spearman": spearman(data.cycles, self.cycles),
            "kendall": kendall(data.cycles, self.cycles),
            "top1_regret": top1_regret(data.cycles, self.cycles, keys),
            "coverage": self.covered,
            "energy_mape": mape(data.energy_fj, self.energy),
            "dram_mape": mape(data.dram_bytes, self.dram),
            "n": float(len(data)),
            "networks": float(len(np.unique(data.networks))),
        }
