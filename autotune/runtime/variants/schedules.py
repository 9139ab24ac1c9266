"""Schedules of a group that are worth a measurement in place: near the one in use, or of low estimate."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, zip_longest

import numpy as np
import numpy.typing as npt

from autotune.cost_model.analysis import analytic_model
from autotune.cost_model.model import CostModel
from autotune.fusion.group import Group
from autotune.fusion.nest import Nest
from autotune.schedule.neighbours import neighbours
from autotune.schedule.schedule import NestSchedule, Schedule
from autotune.schedule.space import enumerate_on
from autotune.schedule.table import ScheduleTable
from autotune.targets.spec import HardwareSpec
from autotune.tuner.choice import Choice
from autotune.tuner.legality import legal_nests

Floats = npt.NDArray[np.float64]
Propose = Callable[[Choice, int], Sequence[Schedule]]
"""At most so many other schedules of a group, the most promising first."""
Estimate = Callable[[Nest, ScheduleTable], Floats]
"""Cycles [n] of the schedules of a table; their order matters most."""

_ENUMERATED, _ESTIMATED = 2048, 256
"""Schedules of a nest to enumerate, and the number of lowest analytic estimate for the cost model."""
_LIMIT = 1.5
"""Estimate over that of the schedule in use beyond which none is proposed."""


def estimate_of(model: CostModel | None, spec: HardwareSpec) -> Estimate:
    """Return the estimate of the calibrated model, or of the analytic one at typical costs without it."""
    if model is not None:
        return lambda nest, table: model.chooser.forecast(nest, table).cycles
    return lambda nest, table: analytic_model(spec).analyse(nest, table, spec).estimate


def propose_schedules(
    group: Group,
    current: Schedule,
    spec: HardwareSpec,
    estimate: Estimate,
    count: int,
    rng: np.random.Generator,
) -> tuple[Schedule, ...]:
    """Return at most ``count`` other schedules of a group, the most promising first.

    They take turns: of lowest estimate, neighbours of the current one, and drawn ones. Each differs from the
    current one in a single nest.
    """
    source = _Source(spec, estimate, count, rng)
    nests = legal_nests(group, spec) or ()
    per_nest = [
        [(at, row) for row in source.rows(nest, ScheduleTable.of(nest, [current.nests[at]]))]
        for at, nest in enumerate(nests)
    ]
    schedules = (
        Schedule((*current.nests[:at], row, *current.nests[at + 1 :]))
        for turn in zip_longest(*per_nest)
        for at, row in filter(None, turn)
    )
    distinct = dict.fromkeys(schedule for schedule in schedules if schedule != current)
    return tuple(distinct)[:count]


@dataclass(frozen=True, slots=True)
class _Source:
    """Schedules of single nests on one machine, at most ``count`` of each kind."""

    spec: HardwareSpec
    estimate: Estimate
    count: int
    rng: np.random.Generator

    def rows(self, nest: Nest, current: ScheduleTable) -> Iterator[NestSchedule]:
        """Give schedules of low estimate, neighbours of the current one, and drawn ones, in turns."""
        far = enumerate_on(nest, self.spec, _ENUMERATED, self.rng)
        limit = _LIMIT * float(self.estimate(nest, current)[0])
        sources = (
            self._lowest(nest, far, limit),
            self._some(nest, self._near(nest, current), limit),
            self._some(nest, far, limit),
        )
        turns = chain.from_iterable(zip_longest(*sources))
        return (row for row in turns if row is not None)

    def _near(self, nest: Nest, current: ScheduleTable) -> ScheduleTable:
        spec = self.spec
        return neighbours(
            nest, current, spec.capacity, spec.cores, spec.tile_multiple, spec.max_buffers
        )

    def _lowest(self, nest: Nest, table: ScheduleTable, limit: float) -> list[NestSchedule]:
        if len(table) > _ESTIMATED:
            rough = analytic_model(self.spec).analyse(nest, table, self.spec).order()
            table = table.take(np.argpartition(rough, _ESTIMATED)[:_ESTIMATED])
        cost = self.estimate(nest, table)
        order = np.argsort(cost, kind="stable")[: self.count].tolist()
        return [table.row(i) for i in order if cost[i] <= limit]

    def _some(self, nest: Nest, table: ScheduleTable, limit: float) -> list[NestSchedule]:
        """Return drawn rows whose estimate is within the limit."""
        table = table.take(self.rng.permutation(len(table))[: 4 * self.count])
        if not len(table):
            return []
        within = np.flatnonzero(self.estimate(nest, table) <= limit)[: self.count].tolist()
        return [table.row(i) for i in within]
