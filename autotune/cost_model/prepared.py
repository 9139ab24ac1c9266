"""A group made ready for one cost model: analysed once, then asked for many schedules."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
import numpy.typing as npt

from autotune.cost_model.analyst import Analyst
from autotune.cost_model.cost import Cost, Costs
from autotune.cost_model.estimate import Best, Estimate
from autotune.cost_model.model import CostModel
from autotune.errors import ScheduleError
from autotune.fusion.analysis import analyse
from autotune.fusion.group import Group
from autotune.fusion.nest import Nest, Rejection
from autotune.schedule.bulk_fit import legal_rows
from autotune.schedule.fit import check, has_ranks_of
from autotune.schedule.neighbours import neighbours
from autotune.schedule.rows import column_names, rows_of, schedule_of, tables_of
from autotune.schedule.schedule import NestSchedule, Schedule
from autotune.schedule.space import enumerate_on
from autotune.schedule.table import Ints, ScheduleTable
from autotune.targets.spec import Memory

Floats = npt.NDArray[np.float64]

ENUMERATED = 1024
"""Schedules of a nest that are enumerated unless told."""
ROUNDS, REFINED = 2, 8
"""Rounds over the neighbours of the best schedules, and how many of them."""


class PreparedGroup:
    """One group on one machine; immutable, usable from several threads.

    Schedules are rows of an int64 array [n, columns], as ``columns`` names them.
    """

    def __init__(self, model: CostModel, group: Group) -> None:
        """Analyse a group. Raises ``ScheduleError`` if no program can be made of it."""
        self._model = model
        self.group = group
        nests = () if group.is_view else analyse(group)
        if isinstance(nests, Rejection):
            raise ScheduleError(f"{name_of(group)}: {nests.reason}")
        self.nests = nests
        self._analysts = tuple(Analyst(model, nest) for nest in nests)
        chooser = model.chooser
        self._choosers = self._analysts
        if chooser is not model:
            self._choosers = tuple(Analyst(chooser, nest) for nest in nests)

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns of ``schedules``: decisions of ``NestSchedule``, nest after nest."""
        return column_names(self.nests)

    def schedules(self, limit: int = ENUMERATED) -> Ints:
        """Return at most ``limit`` legal schedules as rows; none if no tile fits."""
        return rows_of([self._enumerate(nest, limit) for nest in self.nests])

    def schedule(self, row: npt.ArrayLike) -> Schedule:
        """Return one row as a schedule."""
        return schedule_of(tables_of(self.nests, np.asarray(row)[None]), 0)

    def row(self, schedule: Schedule) -> Ints:
        """Return a schedule as a row [columns]. Raises ``ScheduleError`` if it is not legal."""
        row: Ints = rows_of(self.tables(schedule))[0]
        return row

    def tables(self, schedule: Schedule) -> list[ScheduleTable]:
        """Return tables of one row, nest after nest. Raises ``ScheduleError`` if the schedule is not
        legal."""
        spec = self._model.spec
        rejection = check(self.nests, schedule, spec.capacity, spec.cores)
        if rejection is not None:
            raise ScheduleError(f"{name_of(self.group)}: {rejection.reason}")
        pairs = zip(self.nests, schedule.nests, strict=True)
        return [ScheduleTable.of(nest, [part]) for nest, part in pairs]

    def rows(self, schedules: Sequence[Schedule]) -> Ints:
        """Return schedules as rows [n, columns], which ``predict_batch`` checks. Raises ``ScheduleError`` if one
        has other dimensions than the group."""
        if not all(has_ranks_of(self.nests, one) for one in schedules):
            raise ScheduleError(f"{name_of(self.group)}: schedule was made for another group")
        parts = [[one.nests[number] for one in schedules] for number in range(len(self.nests))]
        try:
            tables = [ScheduleTable.of(*pair) for pair in zip(self.nests, parts, strict=True)]
        except OverflowError:
            raise ScheduleError(f"{name_of(self.group)}: a decision is over 63 bits") from None
        return rows_of(tables) if tables else np.empty((len(schedules), 0), dtype=np.int64)

    def predict(self, schedule: Schedule) -> Cost:
        """Predict one schedule. Raises ``ScheduleError`` if it is not legal."""
        total = self._predicted(self.tables(schedule), 1)
        return Cost(schedule, *total[:, 0].tolist())

    def predict_batch(self, rows: npt.ArrayLike) -> Costs:
        """Predict schedules given as rows [n, columns].

        Raises ``InputError`` for another shape, ``ScheduleError`` for the first row that is not
        legal.
        """
        tables = tables_of(self.nests, rows)
        spec, count = self._model.spec, len(np.asarray(rows))
        legal = np.ones(count, dtype=bool)
        for nest, table in zip(self.nests, tables, strict=True):
            legal &= legal_rows(nest, table, spec.capacity, spec.cores)
        if not legal.all():
            self._refuse(tables, int(np.argmin(legal)))
        return Costs(*self._predicted(tables, count))

    @cached_property
    def best(self) -> Cost | Rejection:
        """The schedule of the fewest cycles, or the reason why none is legal."""
        parts, total = [], np.zeros(6)
        total[5] = np.nan
        trios = zip(self.nests, self._choosers, self._analysts, strict=True)
        for nest, chooser, analyst in trios:
            found = self._best_of(nest, chooser, analyst)
            if found is None:
                size = self._model.spec.scratchpad.size_bytes
                return Rejection(f"no tile fits {size} bytes; fuse less")
            parts.append(found[0])
            total[:5] += found[1].columns[:, 0]
            total[5] = np.fmax(total[5], found[1].novelty[0])
        return Cost(Schedule(tuple(parts)), *total.tolist())

    def _enumerate(self, nest: Nest, limit: int) -> ScheduleTable:
        return enumerate_on(nest, self._model.spec, limit, np.random.default_rng(0))

    def _best_of(
        self, nest: Nest, chooser: Analyst, analyst: Analyst
    ) -> tuple[NestSchedule, Estimate] | None:
        """Return the best schedule of a nest by the ``chooser`` with its estimate by the ``analyst``: enumerated, then its
        neighbours."""
        table = self._enumerate(nest, ENUMERATED)
        if not len(table):
            return None
        forecast = chooser.forecast(table, Best(REFINED))
        for _ in range(ROUNDS):
            order = np.argsort(forecast.cycles, kind="stable")[:REFINED]
            table, forecast = table.take(order), forecast.take(order)
            near = self._neighbours(nest, table)
            if not len(near):
                break
            asked = Best(REFINED, float(forecast.cycles[-1]))
            table, forecast = table.then(near), forecast.then(chooser.forecast(near, asked))
        best = np.array([np.argmin(forecast.cycles)])
        if chooser is not analyst:
            return table.row(int(best[0])), analyst.estimate(table.take(best))
        return table.row(int(best[0])), self._model.completed(forecast.take(best))

    def _neighbours(self, nest: Nest, table: ScheduleTable) -> ScheduleTable:
        spec = self._model.spec
        return neighbours(
            nest,
            table,
            spec.capacity,
            spec.cores,
            spec.tile_multiple,
            spec.max_buffers,
            im2col=spec.memory is Memory.SCRATCHPAD,
        )

    def _predicted(self, tables: list[ScheduleTable], count: int) -> Floats:
        """Return the fields of ``Costs`` as rows [6, count]: costs add up over nests, the largest novelty counts."""
        total = np.zeros((6, count))
        total[5] = np.nan
        for analyst, table in zip(self._analysts, tables, strict=True):
            if count:
                found = analyst.estimate(table)
                total[:5] += found.columns
                total[5] = np.fmax(total[5], found.novelty)
        return total

    def _refuse(self, tables: list[ScheduleTable], index: int) -> None:
        """Raise the ``ScheduleError`` of a row that is not legal."""
        try:
            self.tables(schedule_of(tables, index))
        except ScheduleError as error:
            raise ScheduleError(f"row {index}: {error}") from None
        raise AssertionError(f"row {index} is legal by itself")


def name_of(group: Group) -> str:
    """Return the words that errors name a group by: kinds, as groups of equal ones are one here."""
    return f"group of {', '.join(op.kind for op in group.ops)}"
