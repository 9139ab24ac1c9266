"""The analytic model of machines with scratchpads."""

from __future__ import annotations

import numpy as np

from autotune.cost_model.estimate import Best, Rows
from autotune.cost_model.scratchpad.analysis import ScratchpadAnalysis
from autotune.cost_model.scratchpad.features import FEATURES
from autotune.cost_model.scratchpad.recording import RecordedNest
from autotune.cost_model.steps.tiling import Floats
from autotune.fusion.nest import Nest
from autotune.kernels.tape.recorder import Untraceable
from autotune.schedule.table import Ints, ScheduleTable
from autotune.targets.spec import HardwareSpec


class ScratchpadModel:
    """Cycles that the spec's units count, overlapped; nothing is fitted."""

    feature_names = tuple(feature.name for feature in FEATURES)
    work_kinds = ()

    def analyse(
        self, nest: Nest, table: ScheduleTable, spec: HardwareSpec, best: Best | None = None
    ) -> ScratchpadAnalysis:
        """Analyse all schedules of a table at once; only those that may be among the ``best`` are laid out."""
        return ScratchpadAnalysis(nest, table, spec, best)

    def recorded(self, nest: Nest, spec: HardwareSpec) -> RecordedNest | None:
        """Return the recorded analysis; None for weights with zero blocks, which are looked up."""
        try:
            return RecordedNest.of(nest, spec)
        except Untraceable:
            return None

    def cycles(self, work: Floats, unit_costs: Floats, estimate: Floats) -> Floats:
        """Return ``estimate`` [n]: no unit costs are fitted."""
        return estimate

    def fit(self, work: Floats, owner: Ints, cycles: Floats, weight: Floats) -> Floats:
        """Return no unit costs."""
        return np.empty(0)

    def rows(self, features: Rows, work: Floats, unit_costs: Floats) -> Rows:
        """Return the features [n, F]."""
        return features
