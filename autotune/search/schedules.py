"""Schedule search inside a group: enumerate, predict in bulk, keep the best; measured costs count
more than predicted ones. Fusion search asks here what a group costs."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from autotune.cost_model.features import bound
from autotune.cost_model.hpm import CostModel
from autotune.fusion.group import Group
from autotune.fusion.nest import Nest, Rejection, analyse
from autotune.schedule.schedule import NestSchedule, Schedule, scratchpad_elements
from autotune.schedule.space import enumerate_nest
from autotune.schedule.table import ScheduleTable
from autotune.search.neighbours import neighbours
from autotune.search.objective import Objective
from autotune.search.observations import Observations
from autotune.store.records import Record
from autotune.targets.spec import HardwareSpec

@dataclass(frozen=True, slots=True)
class Effort:
    """How hard to look for schedules of a nest: how many to enumerate, how many of those of the
    lowest bound to predict, and how often to look at the neighbours of how many best."""

    enumerated: int
    predicted: int
    rounds: int
    refined: int


QUICK = Effort(enumerated=256, predicted=256, rounds=2, refined=8)
"""While partitions are looked for: 2.6 % above the best known (mean of 33 drawn nests; without
neighbours 13.7 %)."""
DEEP = Effort(enumerated=6144, predicted=384, rounds=3, refined=16)
"""Once the group stands in a plan: below 0.5 %, in twice the time."""
KEPT = 48
"""Schedules of a group that stay candidates for measurement."""
_REMEMBERED = 16
"""Measured schedules of a group that are predicted too, so that they stay in the running."""
_CORRECTION = (0.5, 2.0)
"""Limits of what a group's measurements may do to the predictions of its other schedules."""

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class ScoredSchedule:
    """A schedule of a group with what it is predicted, and if measured, known to cost.

    ``low_cycles`` to ``high_cycles`` is the prediction's interval; ``correction`` is what the
    group's own measurements say about the model's error on this group (1: nothing).
    """

    schedule: Schedule
    predicted_cycles: float
    low_cycles: float
    high_cycles: float
    predicted_energy_fj: float
    predicted_dram_bytes: float
    correction: float = 1.0
    record: Record | None = None

    def predicted(self, objective: Objective) -> float:
        """Cycles or femtojoules as the model predicts them."""
        if objective is Objective.LATENCY:
            return self.predicted_cycles
        return self.predicted_energy_fj

    def cost(self, objective: Objective) -> float:
        """Measured cycles or femtojoules; where there are none, the corrected prediction."""
        if self.record is not None:
            return measured_cost(self.record, objective)
        return self.predicted(objective) * self.correction

    def optimistic(self, objective: Objective) -> float:
        """The least cost that the prediction's interval allows."""
        if self.record is not None:
            return measured_cost(self.record, objective)
        return self.cost(objective) * min(1.0, self.low_cycles / self.predicted_cycles)


def measured_cost(record: Record, objective: Objective) -> float:
    """What a successful measurement says about the objective: cycles or femtojoules."""
    return float(record.cycles if objective is Objective.LATENCY else record.energy_fj)


@dataclass(frozen=True, slots=True)
class _Predicted:
    """Schedules of a group by ascending predicted cost, then measured ones; one per column."""

    schedules: tuple[Schedule, ...]
    values: Floats
    """[5, n]: cycles, low, high, energy, DRAM bytes."""

    def __len__(self) -> int:
        return len(self.schedules)


class GroupCosts:
    """The best schedules of every group asked for, remembered by the group's key.

    A group's result depends on the seed and on the group alone, not on what was asked before.
    """

    def __init__(
        self,
        model: CostModel,
        spec: HardwareSpec,
        objective: Objective = Objective.LATENCY,
        seed: int = 0,
        observations: Observations | None = None,
    ) -> None:
        self.model = model
        self.spec = spec
        self.objective = objective
        self.seed = seed
        self.observations = Observations() if observations is None else observations
        self._nests: dict[str, tuple[Nest, ...] | None] = {}
        self._predicted: dict[str, _Predicted] = {}
        self._scored: dict[str, tuple[ScoredSchedule, ...]] = {}
        self._deep: set[str] = set()

    def retrained(self, model: CostModel) -> None:
        """Predict with another model from now on."""
        self.model = model
        self._predicted.clear()
        self._scored.clear()

    def observe(self, records: Iterable[Record]) -> None:
        """Take in measurements; they override the predictions of what was measured."""
        fresh = tuple(records)
        self.observations.add(fresh)
        for record in fresh:
            self._scored.pop(record.group_key, None)

    def deepen(self, group: Group) -> None:
        """Look at many more schedules of a group from now on."""
        if group.key in self._deep or group.is_view:
            return
        self._deep.add(group.key)
        quick = self._predicted.pop(group.key, None)
        self._scored.pop(group.key, None)
        self._predicted[group.key] = self._predict(group, quick)

    def nests(self, group: Group) -> tuple[Nest, ...] | None:
        """The nests of a group, or None when no schedule of it fits the machine."""
        if group.key not in self._nests:
            self._nests[group.key] = self._legal(group)
        return self._nests[group.key]

    def _legal(self, group: Group) -> tuple[Nest, ...] | None:
        nests = analyse(group)
        if isinstance(nests, Rejection):
            return None
        small = (scratchpad_elements(nest, _smallest(nest)) for nest in nests)
        return nests if max(small) <= self.spec.scratchpad_elements else None

    def legal(self, group: Group) -> bool:
        """Whether some schedule of the group fits the machine; views need none."""
        return group.is_view or self.nests(group) is not None

    def best(self, group: Group, count: int = KEPT) -> tuple[ScoredSchedule, ...]:
        """At most ``count`` schedules by ascending cost; empty when none is legal.

        Schedules whose measurement failed are left out.
        """
        if group.is_view:
            return ()
        if group.key not in self._scored:
            self._scored[group.key] = self._score(group)
        return self._scored[group.key][:count]

    def cost(self, group: Group) -> float | None:
        """Cycles or femtojoules of the group's best schedule, 0 for views; None: none is legal."""
        if group.is_view:
            return 0.0
        best = self.best(group, 1)
        return best[0].cost(self.objective) if best else None

    def _score(self, group: Group) -> tuple[ScoredSchedule, ...]:
        if group.key not in self._predicted:
            self._predicted[group.key] = self._predict(group)
        predicted = self._predicted[group.key]
        rows = [self._scored_row(predicted, i) for i in range(len(predicted))]
        records = self.observations.of_group(group.key)
        if not records:
            return tuple(rows)
        found = [(row, records.get(row.schedule.to_json())) for row in rows]
        correction = _correction(
            [(row, record) for row, record in found if record is not None], self.objective
        )
        scored = [
            _with(row, correction, record)
            for row, record in found
            if record is None or record.outcome == "ok"
        ]
        return tuple(sorted(scored, key=lambda row: row.cost(self.objective)))

    @staticmethod
    def _scored_row(predicted: _Predicted, i: int) -> ScoredSchedule:
        cycles, low, high, energy, dram = predicted.values[:, i].tolist()
        return ScoredSchedule(predicted.schedules[i], cycles, low, high, energy, dram)

    def _predict(self, group: Group, before: _Predicted | None = None) -> _Predicted:
        """The best ``KEPT`` schedules by the model alone, those found ``before`` among them, and
        the best ones measured so far."""
        nests = self.nests(group)
        if nests is None:
            return _Predicted((), np.zeros((5, 0)))
        rng = np.random.default_rng([self.seed, int(group.key[:12], 16)])
        effort = DEEP if group.key in self._deep else QUICK
        ranked = None
        for nest in nests:
            part = self._ranked_nest(nest, effort, rng)
            if not len(part):
                return part
            ranked = part if ranked is None else self._joined(ranked, part)
        assert ranked is not None
        if before is not None and len(before):
            ranked = self._best_of(ranked, before)
        return self._with_measured(group, nests, ranked)

    def _ranked_nest(self, nest: Nest, effort: Effort, rng: np.random.Generator) -> _Predicted:
        capacity, cores = self.spec.scratchpad_elements, self.spec.cores
        table = enumerate_nest(nest, capacity, cores, effort.enumerated, rng)
        if not len(table):
            return _Predicted((), np.zeros((5, 0)))
        if len(table) > effort.predicted:
            least = bound(nest, table, self.spec)
            table = table.take(np.argpartition(least, effort.predicted)[: effort.predicted])
        ranked = self._ranked(nest, table)
        for _ in range(effort.rounds):
            best = tuple(schedule.nests[0] for schedule in ranked.schedules[: effort.refined])
            near = neighbours(nest, best, capacity, cores)
            if len(near):
                ranked = self._best_of(ranked, self._ranked(nest, near))
        return ranked

    def _ranked(self, nest: Nest, table: ScheduleTable) -> _Predicted:
        values = self._values(nest, table)
        order = np.argsort(values[self._row], kind="stable")[:KEPT]
        return _Predicted(
            tuple(Schedule((table.row(i),)) for i in order.tolist()), values[:, order]
        )

    def _best_of(self, first: _Predicted, second: _Predicted) -> _Predicted:
        """The best ``KEPT`` of two draws of schedules of the same nests."""
        places = {schedule: i for i, schedule in enumerate((*first.schedules, *second.schedules))}
        schedules = tuple(places)
        values = np.concatenate([first.values, second.values], axis=1)[:, list(places.values())]
        order = np.argsort(values[self._row], kind="stable")[:KEPT]
        return _Predicted(tuple(schedules[i] for i in order.tolist()), values[:, order])

    @property
    def _row(self) -> int:
        return 0 if self.objective is Objective.LATENCY else 3

    def _values(self, nest: Nest, table: ScheduleTable) -> Floats:
        found = self.model.estimate(nest, table)
        return np.stack([found.cycles, found.low, found.high, found.energy_fj, found.dram_bytes])

    def _joined(self, first: _Predicted, second: _Predicted) -> _Predicted:
        """Pairs of schedules of two nests that run one after the other, the best ``KEPT``."""
        values = (first.values[:, :, None] + second.values[:, None, :]).reshape(5, -1)
        order = np.argsort(values[self._row], kind="stable")[:KEPT]
        schedules = tuple(
            Schedule((*first.schedules[i].nests, *second.schedules[j].nests))
            for i, j in (divmod(at, len(second)) for at in order.tolist())
        )
        return _Predicted(schedules, values[:, order])

    def _with_measured(
        self, group: Group, nests: Sequence[Nest], ranked: _Predicted
    ) -> _Predicted:
        """``ranked`` and the best measured schedules that it does not hold."""
        held = {schedule.to_json() for schedule in ranked.schedules}
        records = sorted(
            (
                record
                for text, record in self.observations.of_group(group.key).items()
                if record.outcome == "ok" and text not in held
            ),
            key=lambda record: measured_cost(record, self.objective),
        )[:_REMEMBERED]
        if not records:
            return ranked
        schedules = [Schedule.from_json(record.schedule_json) for record in records]
        values = np.zeros((5, len(schedules)))
        for at, nest in enumerate(nests):
            table = ScheduleTable.of(nest, [schedule.nests[at] for schedule in schedules])
            values += self._values(nest, table)
        return _Predicted(
            (*ranked.schedules, *schedules), np.concatenate([ranked.values, values], axis=1)
        )


def _smallest(nest: Nest) -> NestSchedule:
    """The schedule that needs the least scratchpad: every tile as small as it may be."""
    tile = tuple(n if d in nest.forced else 1 for d, n in enumerate(nest.root_shape))
    k_tile = tuple(1 if c.chunkable else c.k_extent for c in nest.contractions)
    return NestSchedule(tile, tuple(range(len(tile))), k_tile, buffers=1)


def _correction(found: list[tuple[ScoredSchedule, Record]], objective: Objective) -> float:
    """Median of measured over predicted cost among a group's measured schedules, within limits."""
    ratios = [
        measured_cost(record, objective) / row.predicted(objective)
        for row, record in found
        if record.outcome == "ok"
    ]
    if not ratios:
        return 1.0
    low, high = _CORRECTION
    return min(high, max(low, statistics.median(ratios)))


def _with(row: ScoredSchedule, correction: float, record: Record | None) -> ScoredSchedule:
    return ScoredSchedule(
        row.schedule, row.predicted_cycles, row.low_cycles, row.high_cycles,
        row.predicted_energy_fj, row.predicted_dram_bytes, correction, record,
    )
