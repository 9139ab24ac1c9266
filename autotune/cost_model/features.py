"""Features and rooflines of all schedules of a table on any machine."""

from __future__ import annotations

from autotune.cost_model.analysis import Floats, analytic_model
from autotune.fusion.nest import Nest
from autotune.schedule.table import ScheduleTable
from autotune.targets.spec import HardwareSpec


def features(nest: Nest, table: ScheduleTable, spec: HardwareSpec) -> Floats:
    """Return the features of every schedule in a table, float64 [n, F]."""
    return analytic_model(spec).analyse(nest, table, spec).features


def bound(nest: Nest, table: ScheduleTable, spec: HardwareSpec) -> Floats:
    """Return the roofline cycles of every schedule [n]: the busiest unit if nothing ever waited.

    No run takes less (Williams et al. 2009, *Roofline*, CACM 52(4), per unit instead of compute
    alone).
    """
    return analytic_model(spec).analyse(nest, table, spec).roofline
