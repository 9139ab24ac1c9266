"""The raw model: counted work at prices that are fitted to measurements, corrected by trees on raw features.

It needs no analytic estimate: where that misjudges a machine, or knows another one, this is what predicts.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
import numpy.typing as npt

from autotune.cost_model.analysis import Analysis, AnalyticModel, analytic_model
from autotune.cost_model.estimate import Best, Rows
from autotune.cost_model.raw.counts import RawCounts, trivial_cycles
from autotune.cost_model.raw.features import RAW_NAMES, raw_columns
from autotune.cost_model.raw.prices import PRICE_NAMES, RawPrices, fit_raw_prices, split_work
from autotune.cost_model.raw.work import RAW_WORK, raw_work
from autotune.fusion.nest import Nest
from autotune.schedule.table import ScheduleTable
from autotune.targets.spec import HardwareSpec

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


class RawAnalysis:
    """Raw counts of a nest under the ``n`` schedules of a table; arrays [n].

    Energy, DRAM bytes and the roofline are the analytic ones: they come from the spec's tables and the schedule, and
    no timing is in them.
    """

    def __init__(self, nest: Nest, table: ScheduleTable, spec: HardwareSpec) -> None:
        self._nest = nest
        self._table = table
        self._spec = spec
        self._counts = RawCounts(nest, table, spec)

    @cached_property
    def _analytic(self) -> Analysis:
        return analytic_model(self._spec).analyse(self._nest, self._table, self._spec)

    @cached_property
    def features(self) -> Floats:
        """Feature matrix [n, F], its columns ``RAW_NAMES``."""
        return np.nan_to_num(raw_columns(self._counts))

    @cached_property
    def work(self) -> Floats:
        """Counted work [n, 2 W] of ``RawModel.work_kinds``."""
        return split_work(raw_work(self._counts), self._counts.ones * self._table.buffers)

    @property
    def estimate(self) -> Floats:
        """Cycles without any price: multiply-adds, operations and bytes at the spec's rates, added."""
        return trivial_cycles(self._counts)

    @property
    def roofline(self) -> Floats:
        """Cycles that no run undercuts, by the spec."""
        return self._analytic.roofline

    @property
    def instructions(self) -> Floats:
        """Instructions of all cores."""
        return self._analytic.instructions

    @property
    def multiply_adds(self) -> Floats:
        """Multiply-adds of all products."""
        return self._analytic.multiply_adds

    @property
    def moved_bytes(self) -> Floats:
        """DRAM bytes, loaded and stored."""
        return self._analytic.moved_bytes

    @property
    def dynamic_fj(self) -> Floats:
        """Energy of all actions, in femtojoules."""
        return self._analytic.dynamic_fj

    @property
    def leak_fj(self) -> Floats:
        """Energy of one cycle of leakage and clock, in femtojoules."""
        return self._analytic.leak_fj

    def cycles(self, unit_costs: Floats) -> Floats:
        """Return cycles at fitted prices."""
        return RawPrices(unit_costs).cycles(self.work)

    def order(self, unit_costs: Floats | None = None) -> Floats:
        """Return cycles at fitted prices, else ``estimate``."""
        return self.estimate if unit_costs is None else self.cycles(unit_costs)


class RawModel:
    """Counted work at fitted prices. Unit costs are ``RawPrices.logs``: two more than there are kinds of work."""

    feature_names = (*RAW_NAMES, *PRICE_NAMES)
    work_kinds = tuple(f"{kind}, {many}" for many in ("one buffer", "several") for kind in RAW_WORK)

    def analyse(
        self, nest: Nest, table: ScheduleTable, spec: HardwareSpec, best: Best | None = None
    ) -> RawAnalysis:
        """Count all schedules of a table at once, whichever are the ``best``."""
        return RawAnalysis(nest, table, spec)

    def recorded(self, nest: Nest, spec: HardwareSpec) -> None:
        """Return None: counts are not recorded."""

    def cycles(self, work: Floats, unit_costs: Floats, estimate: Floats) -> Floats:
        """Return the cycles [n] of counted work [n, 2 W] at prices."""
        return RawPrices(unit_costs).cycles(work)

    def fit(self, work: Floats, owner: Ints, cycles: Floats, weight: Floats) -> Floats:
        """Fit prices to measurements: ``work`` [n, 2 W] of each ``owner`` [n] took ``cycles`` [r]."""
        return fit_raw_prices(work, owner, cycles, weight).logs

    def rows(self, features: Rows, work: Floats, unit_costs: Floats) -> Rows:
        """Return what trees read [n, F]: raw features, and shares of units and kinds at these prices."""
        return np.concatenate([features, RawPrices(unit_costs).features(work)], axis=1)


def corrected_model(spec: HardwareSpec, is_raw: bool = False) -> AnalyticModel:
    """Return what trees correct on a machine: its analytic model, or counted work at fitted prices."""
    return RawModel() if is_raw else analytic_model(spec)
