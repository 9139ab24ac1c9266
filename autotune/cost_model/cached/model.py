"""The analytic model of machines with caches."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from autotune.cost_model.cached.tensors import moved_bytes
from autotune.cost_model.cached.unit_costs import fit_unit_costs
from autotune.cost_model.cached.work_counts import count_work
from autotune.cost_model.cached.work_kinds import (
    FEATURE_NAMES,
    INDEX,
    UNIT_COSTS,
    WORK_KINDS,
    cycles_at,
    work_features,
)
from autotune.cost_model.estimate import Best, Rows
from autotune.cost_model.steps.tiling import Floats
from autotune.cost_model.steps.totals import Totals
from autotune.fusion.nest import Nest
from autotune.schedule.table import Ints, ScheduleTable
from autotune.targets.spec import HardwareSpec


class CachedAnalysis(Totals):
    """Counted work and features of every schedule of a table; arrays [n]."""

    @property
    def features(self) -> Floats:
        """Feature matrix [n, F], its columns ``FEATURE_NAMES``."""
        return work_features(self.work)

    @cached_property
    def work(self) -> Floats:
        """Counts [n, W] of ``WORK_KINDS`` on the busiest core."""
        return count_work(self.tiling, self.steps, self.spec)

    @cached_property
    def estimate(self) -> Floats:
        """Cycles at typical unit costs. Bytes from DRAM take as long as the channel that all cores share needs for
        them."""
        waits = (
            self.channel_cycles - self.work[:, INDEX["from_dram"]] * UNIT_COSTS[INDEX["from_dram"]]
        )
        estimate: Floats = self.cycles(UNIT_COSTS) + np.maximum(0.0, waits)
        return estimate

    @cached_property
    def moved_bytes(self) -> Floats:
        """DRAM bytes: caches move every tensor once."""
        return self.zeros + moved_bytes(self.nest)

    @cached_property
    def roofline(self) -> Floats:
        """Cycles that no run can undercut: the multiply-adds at the peak of the cores in use, or the
        bytes beyond the capacity of the caches at DRAM's bandwidth.

        Tensors within the caches may lie there from the run before, and then no byte comes from DRAM.
        """
        spec = self.spec
        peak = spec.matrix.rows * spec.matrix.cols * self.tiling.active_cores
        bounds = (self.multiply_adds / peak, self.channel_cycles)
        roofline: Floats = np.maximum(1.0, np.maximum(*bounds))
        return roofline

    @cached_property
    def channel_cycles(self) -> Floats:
        """Cycles of the DRAM channel for the bytes beyond the capacity of the caches."""
        beyond = np.maximum(0.0, self.moved_bytes - self.spec.scratchpad.size_bytes)
        cycles: Floats = beyond / self.spec.dram.bytes_per_cycle
        return cycles

    @cached_property
    def dynamic_fj(self) -> Floats:
        """Femtojoules of all actions."""
        return self.action_energy(self.moved_bytes)

    def cycles(self, unit_costs: Floats) -> Floats:
        """Return the cycles of the counted work at unit costs [W], at least one."""
        return cycles_at(self.work, unit_costs)

    def order(self, unit_costs: Floats | None = None) -> Floats:
        """Return the cycles at unit costs [W], typical ones where none are fitted."""
        return self.estimate if unit_costs is None else self.cycles(unit_costs)


class CachedModel:
    """Work of a CPU, counted by kind, at unit costs fitted to measurements."""

    feature_names = FEATURE_NAMES
    work_kinds = tuple(kind.name for kind in WORK_KINDS)

    def analyse(
        self, nest: Nest, table: ScheduleTable, spec: HardwareSpec, best: Best | None = None
    ) -> CachedAnalysis:
        """Analyse all schedules of a table at once: no part of it could be left out for the ``best``."""
        return CachedAnalysis(nest, table, spec)

    def recorded(self, nest: Nest, spec: HardwareSpec) -> None:
        """Return None: what is counted of caches is not recorded."""

    def cycles(self, work: Floats, unit_costs: Floats, estimate: Floats) -> Floats:
        """Return the cycles [n] of counted work [n, W] at unit costs [W]."""
        return cycles_at(work, unit_costs)

    def fit(self, work: Floats, owner: Ints, cycles: Floats, weight: Floats) -> Floats:
        """Fit unit costs [W] to measurements: nests' ``work`` [n, W], added by ``owner`` [n], took ``cycles`` [r]."""
        count = len(cycles)
        summed = np.stack([np.bincount(owner, column, count) for column in work.T], axis=1)
        return fit_unit_costs(summed.astype(np.float64), cycles, weight)

    def rows(self, features: Rows, work: Floats, unit_costs: Floats) -> Rows:
        """Return the features [n, F]."""
        return features
