"""Forms of one computation that `variants.py` sets against each other, and the fewest cycles of each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from autotune.cost_model.analysis import analytic_model
from autotune.errors import ScheduleError
from autotune.fusion.analysis import nests_of
from autotune.fusion.group import Group
from autotune.fusion.nest import Nest
from autotune.graph.graph import Graph
from autotune.lowering.lower import lower
from autotune.schedule.schedule import NestSchedule, Schedule
from autotune.schedule.space import enumerate_nest
from autotune.schedule.table import ScheduleTable
from autotune.targets.emulator.target import EmulatorTarget
from autotune.targets.spec import HardwareSpec

ENUMERATED = 1500
"""Schedules of a nest that are looked at."""
EXECUTED = 16
"""Of those, how many run: the ones of the least estimate."""

Keep = Callable[[Nest, ScheduleTable], npt.NDArray[np.bool_]]
"""Which schedules are of a form."""


def any_schedule(nest: Nest, table: ScheduleTable) -> npt.NDArray[np.bool_]:
    """All."""
    return np.ones(len(table), dtype=bool)


@dataclass(frozen=True, slots=True)
class Form:
    """A way to compute something: a graph, whose operators run in ``groups`` (none: all in one), by
    schedules that ``keep`` keeps. A ``yardstick`` is no variant that has to win somewhere, but what one
    does without the others."""

    name: str
    graph: Graph
    keep: Keep = any_schedule
    groups: tuple[tuple[str, ...], ...] = ()
    yardstick: bool = False

    def cycles(self, spec: HardwareSpec) -> int | None:
        """Emulated cycles of the fastest schedules found, all groups together; None: none fits."""
        names = self.groups or (tuple(op.name for op in self.graph.ops),)
        total = 0
        for group in (Group.from_graph(self.graph, part) for part in names):
            found = [_fastest(group, nest, self.keep, spec) for nest in nests_of(group)]
            if len(found) != 1 or found[0] is None:
                return None
            total += found[0]
        return total


def _fastest(group: Group, nest: Nest, keep: Keep, spec: HardwareSpec) -> int | None:
    rng = np.random.default_rng(0)
    capacity, cores = spec.capacity, spec.cores
    table = enumerate_nest(
        nest, capacity, cores, ENUMERATED, rng, spec.tile_multiple, spec.max_buffers, True
    )
    table = table.take(np.flatnonzero(keep(nest, table)))
    if not len(table):
        return None
    estimate = analytic_model(spec).analyse(nest, table, spec).estimate
    order = np.argsort(estimate, kind="stable")[:EXECUTED]
    emulator = EmulatorTarget(spec)
    times = [_time(emulator, group, table.row(i)) for i in order.tolist()]
    return min((t for t in times if t is not None), default=None)


def _time(emulator: EmulatorTarget, group: Group, part: NestSchedule) -> int | None:
    """None where a schedule needs more loops or semaphores than an instruction names."""
    try:
        program = lower(group, Schedule((part,)), emulator.spec)
    except ScheduleError:
        return None
    return emulator.time(program).cycles
