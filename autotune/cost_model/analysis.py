"""The protocol of analytic models, one for each kind of memory, and the choice between them.

An analytic model says without training what schedules cost; the learned model corrects it.
"""

from __future__ import annotations

from typing import Protocol, assert_never

import numpy as np
import numpy.typing as npt

from autotune.cost_model.estimate import Best, Rows
from autotune.fusion.nest import Nest
from autotune.schedule.table import ScheduleTable
from autotune.targets.spec import HardwareSpec, Memory

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


class Analysis(Protocol):
    """Analytic figures of a nest under the ``n`` schedules of a table."""

    @property
    def features(self) -> Floats:
        """Feature matrix [n, F], the first columns of the model's ``feature_names``."""
        ...

    @property
    def work(self) -> Floats:
        """Counted work [n, W] of the kinds that have fitted unit costs; W may be 0."""
        ...

    @property
    def estimate(self) -> Floats:
        """Cycles [n] at typical unit costs."""
        ...

    @property
    def roofline(self) -> Floats:
        """Cycles [n] that no run can undercut."""
        ...

    @property
    def instructions(self) -> Floats:
        """Instructions [n] of all cores, without those that only wait or signal."""
        ...

    @property
    def multiply_adds(self) -> Floats:
        """Multiply-adds [n] of all products."""
        ...

    @property
    def moved_bytes(self) -> Floats:
        """DRAM bytes [n], loaded and stored."""
        ...

    @property
    def dynamic_fj(self) -> Floats:
        """Energy [n] of all actions, in femtojoules."""
        ...

    @property
    def leak_fj(self) -> Floats:
        """Energy [n] of one cycle of leakage and clock, in femtojoules."""
        ...

    def cycles(self, unit_costs: Floats) -> Floats:
        """Return analytic cycles [n] at fitted unit costs [W]."""
        ...

    def order(self, unit_costs: Floats | None = None) -> Floats:
        """Return a cheap score [n], of which only the ranking is meaningful."""
        ...


class Analysed(Protocol):
    """What the learned model reads of an analysis."""

    @property
    def features(self) -> Floats:
        """As that of ``Analysis``."""
        ...

    @property
    def work(self) -> Floats:
        """As that of ``Analysis``."""
        ...

    @property
    def dynamic_fj(self) -> Floats:
        """As that of ``Analysis``."""
        ...

    @property
    def leak_fj(self) -> Floats:
        """As that of ``Analysis``."""
        ...

    @property
    def moved_bytes(self) -> Floats:
        """As that of ``Analysis``."""
        ...

    def cycles(self, unit_costs: Floats) -> Floats:
        """Return analytic cycles [n] at fitted unit costs [W]."""
        ...


class Recording(Protocol):
    """The analysis of one nest on one machine, recorded; usable from several threads."""

    def run(self, table: ScheduleTable, best: Best | None = None) -> Analysed:
        """Analyse legal schedules, equal to ``AnalyticModel.analyse`` bit for bit; those beside the ``best`` may be
        given too few cycles, but more than the best have."""
        ...


class AnalyticModel(Protocol):
    """What the learned model corrects: one implementation for each kind of memory."""

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Columns of ``rows``, in order."""
        ...

    @property
    def work_kinds(self) -> tuple[str, ...]:
        """Kinds of work [W] with fitted unit costs; empty where the estimate needs none."""
        ...

    def analyse(
        self, nest: Nest, table: ScheduleTable, spec: HardwareSpec, best: Best | None = None
    ) -> Analysis:
        """Analyse all schedules of a table at once; those beside the ``best`` may be given too few cycles, but
        more than the best have."""
        ...

    def recorded(self, nest: Nest, spec: HardwareSpec) -> Recording | None:
        """Return the analysis of a nest made ready for many calls, or None where it cannot be recorded."""
        ...

    def cycles(self, work: Floats, unit_costs: Floats, estimate: Floats) -> Floats:
        """Return analytic cycles [n] of counted work [n, W] at unit costs [W]; ``estimate`` [n] where
        there are no kinds of work."""
        ...

    def fit(self, work: Floats, owner: Ints, cycles: Floats, weight: Floats) -> Floats:
        """Fit unit costs to measurements: nests' ``work`` [n, W], added by ``owner`` [n], took ``cycles`` [r]."""
        ...

    def rows(self, features: Rows, work: Floats, unit_costs: Floats) -> Rows:
        """Return what trees read [n, F], its columns ``feature_names``, of an analysis at unit costs."""
        ...


def analytic_model(spec: HardwareSpec) -> AnalyticModel:
    """Return the analytic model of a machine's kind of memory."""
    match spec.memory:
        case Memory.SCRATCHPAD:
            from autotune.cost_model.scratchpad.model import ScratchpadModel  # one kind is enough

            return ScratchpadModel()
        case Memory.CACHED:
            from autotune.cost_model.cached.model import CachedModel

            return CachedModel()
        case _:
            assert_never(spec.memory)
