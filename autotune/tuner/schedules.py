"""Costs of groups by their best schedules, for fusion search; measured costs replace predicted ones."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from autotune.cost_model.model import CostModel
from autotune.fusion.equivalence import EquivalenceClasses
from autotune.fusion.group import Group
from autotune.measure.runner import Workers
from autotune.schedule.fit import has_ranks_of
from autotune.schedule.schedule import Schedule
from autotune.store.records import Outcome, Record
from autotune.targets.spec import HardwareSpec
from autotune.tuner.bulk import Job, rank_all
from autotune.tuner.legality import legal_nests
from autotune.tuner.objective import Objective
from autotune.tuner.observations import Observations
from autotune.tuner.ranking import DEEP, KEPT, QUICK, Effort, Ranked, Ranking
from autotune.tuner.rankings import Rankings
from autotune.tuner.transfer import Transfer

_REMEMBERED = 16
"""Measured schedules of a group that are predicted too, so that they stay candidates."""
_CORRECTION = (0.5, 2.0)
"""Limits of the correction of a group's predictions by its measurements."""


@dataclass(frozen=True, slots=True)
class ScoredSchedule:
    """A schedule of a group with its predicted cost and, if it was measured, its ``record``.

    ``low_cycles`` to ``high_cycles`` is the prediction's interval. ``correction`` is the factor by which the
    group's own measurements correct predictions (1: none).
    """

    schedule: Schedule
    predicted_cycles: float
    low_cycles: float
    high_cycles: float
    predicted_energy_fj: float
    predicted_dram_bytes: float
    correction: float = 1.0
    record: Record | None = None

    @property
    def is_measured(self) -> bool:
        """True if a measurement gave a cost."""
        return self.record is not None and self.record.outcome is Outcome.OK

    def predicted(self, objective: Objective) -> float:
        """Return predicted cycles or femtojoules."""
        return objective.of(self.predicted_cycles, self.predicted_energy_fj)

    def cost(self, objective: Objective) -> float:
        """Return measured cycles or femtojoules; without any, the corrected prediction."""
        if self.record is not None:
            return measured_cost(self.record, objective)
        return self.predicted(objective) * self.correction

    def optimistic(self, objective: Objective) -> float:
        """Return the least cost within the prediction's interval."""
        if self.record is not None:
            return measured_cost(self.record, objective)
        return self.cost(objective) * min(1.0, self.low_cycles / self.predicted_cycles)


def measured_cost(record: Record, objective: Objective) -> float:
    """Return the cost of a successful measurement by the objective: cycles or femtojoules."""
    return float(objective.of(record.cycles, record.energy_fj))


class GroupCosts:
    """The best schedules of every requested group, remembered by the group's key.

    A group's result depends on the seed, the group and its measurements, not on earlier requests. An
    equivalence class (``fusion.equivalence``) is ranked once; its groups differ by their own measurements
    alone. ``known`` are measurements, oldest first; ``workers`` is as in ``rank_all``. Searches of one seed, objective and
    machine may share ``rankings``. ``effort`` is that of groups that are not looked at deeply.
    """

    def __init__(
        self,
        model: CostModel,
        spec: HardwareSpec,
        objective: Objective = Objective.LATENCY,
        seed: int = 0,
        known: Iterable[Record] = (),
        workers: Workers = 1,
        rankings: Rankings | None = None,
        effort: Effort = QUICK,
    ) -> None:
        self.spec = spec
        self.objective = objective
        self._observations = Observations(EquivalenceClasses(spec.dram.burst_bytes), known)
        self._ranking = Ranking(model, spec, objective, seed)
        self._workers = workers
        self._quick = effort
        self._rankings = rankings
        self._legal: dict[str, bool] = {}
        self._ranked: dict[str, Ranked] = {}
        self._scored: dict[str, dict[str, tuple[ScoredSchedule, ...]]] = {}
        self._deep: set[str] = set()
        self._cautions: dict[tuple[str, Schedule], float] = {}
        self._transfer: Transfer | None = None
        self._heeds_neighbour = True

    @property
    def model(self) -> CostModel:
        """The cost model that predicts."""
        return self._ranking.model

    def retrain(self, model: CostModel) -> None:
        """Replace the model; forget its predictions, and what a neighbour's measurements corrected in them."""
        self._ranking = replace(self._ranking, model=model)
        self._transfer = None
        self._ranked.clear()
        self._scored.clear()
        self._cautions.clear()

    def carry(self, records: Iterable[Record], there: HardwareSpec) -> Transfer:
        """Take in what a neighbour's measurements say: its schedules become candidates, and correct predictions."""
        model = CostModel.from_bytes(self.model.to_bytes(), there)
        self._transfer = Transfer.of(records, there, model, self._ranking)
        self._scored.clear()
        return self._transfer

    def unmeasured(self) -> GroupCosts:
        """Return costs by the model alone, without measurements of this machine or a neighbour."""
        ranking = self._ranking
        return GroupCosts(ranking.model, self.spec, self.objective, ranking.seed, (), self._workers)

    def heed_neighbour(self, is_heeded: bool) -> None:
        """Predict with a neighbour's measurements, or as if there were no neighbour; own measurements stay."""
        if self._transfer is not None and is_heeded != self._heeds_neighbour:
            self._heeds_neighbour = is_heeded
            self._scored.clear()

    def observe(self, records: Iterable[Record]) -> None:
        """Take in measurements; they override predictions."""
        for key in self._observations.add(records):
            self._scored.pop(key, None)

    def record(self, group: Group, schedule: Schedule) -> Record | None:
        """Return the measurement of a group's schedule, failed or not; None without any."""
        return self._observations.own(group, schedule.to_json())

    def representative(self, group: Group) -> Group:
        """Return the group that stands for the equivalence class of a group."""
        return self._observations.classes.representative(group)

    def twin(self, group: Group) -> Group:
        """Return the group of the same cost that measurements of a group are kept by."""
        return self._observations.classes.twin(group)

    def prepare(self, groups: Iterable[Group]) -> None:
        """Rank the schedules of groups, all at once, before their costs are requested."""
        missing = {
            group.key: group
            for group in map(self.representative, groups)
            if not group.is_view and group.key not in self._ranked and self.legal(group)
        }
        self._rank(missing.values())

    def deepen(self, groups: Iterable[Group]) -> None:
        """Rank many more schedules of these groups from now on."""
        alike = map(self.representative, groups)
        shallow = {g.key: g for g in alike if not g.is_view and g.key not in self._deep}
        self._deep |= shallow.keys()
        self._rank(shallow.values())

    def _rank(self, groups: Iterable[Group]) -> None:
        shared, jobs = self._rankings, list[Job]()
        for group in groups:
            effort, before = self._effort(group), self._ranked.get(group.key)
            kept = None
            if shared is not None:
                kept = shared.get(self._ranking, group.key, effort, before is None)
            if kept is None:
                jobs.append((group, effort, before))
            else:
                self._take(group, kept)
        for job, ranked in zip(jobs, rank_all(self._ranking, jobs, self._workers), strict=True):
            group, effort, before = job
            if shared is not None:
                shared.keep(self._ranking, group.key, effort, before is None, ranked)
            self._take(group, ranked)

    def _effort(self, group: Group) -> Effort:
        return DEEP if group.key in self._deep else self._quick

    def _take(self, group: Group, ranked: Ranked) -> None:
        self._ranked[group.key] = ranked
        self._scored.pop(group.key, None)

    def legal(self, group: Group) -> bool:
        """Return True if some schedule of the group fits the machine; views need none."""
        group = self.representative(group)
        if group.key not in self._legal:
            fits = group.is_view or legal_nests(group, self.spec) is not None
            self._legal[group.key] = fits
        return self._legal[group.key]

    def best(self, group: Group, count: int = KEPT) -> tuple[ScoredSchedule, ...]:
        """Return at most ``count`` schedules by ascending cost; empty when none is legal.

        Schedules with a failed measurement are left out.
        """
        alike = self.representative(group)
        if alike.is_view or not self.legal(alike):
            return ()
        if alike.key not in self._ranked:
            self._rank((alike,))
        scored = self._scored.setdefault(alike.key, {})
        asked = self.twin(group) if self._observations.has_own(group) else alike
        if asked.key not in scored:
            scored[asked.key] = self._score(alike, self._observations.of_group(asked))
        return scored[asked.key][:count]

    def predict(self, group: Group, schedule: Schedule) -> ScoredSchedule:
        """Predict a legal schedule of a group."""
        return _rows(self._ranking.predict(self.representative(group), [schedule]))[0]

    def caution(self, group: Group, scored: ScoredSchedule) -> float:
        """Return the factor on a schedule's cost that covers what the model does not know (``CostModel.caution``);
        1 for a measured one."""
        if scored.record is not None:
            return 1.0
        alike = self.representative(group)
        key = (alike.key, scored.schedule)
        if key not in self._cautions:
            self._cautions[key] = self.model.caution(alike, scored.schedule)
        return self._cautions[key]

    def cost(self, group: Group) -> float | None:
        """Return cycles or femtojoules of the group's best schedule: 0 for views, None if none is legal."""
        if group.is_view:
            return 0.0
        best = self.best(group, 1)
        return best[0].cost(self.objective) if best else None

    def _score(self, alike: Group, records: Mapping[str, Record]) -> tuple[ScoredSchedule, ...]:
        """Return ranked and best measured schedules by ascending cost.

        ``alike`` is the representative, ``records`` are those of the requested group.
        """
        rows = self._with_hints(alike, _rows(self._ranked[alike.key]))
        if not records or not rows:
            return rows
        held = {row.schedule.to_json() for row in rows}
        rows += self._measured_elsewhere(alike, records, held)
        found = [(row, records.get(row.schedule.to_json())) for row in rows]
        correction = _correction(found, self.objective)
        scored = [
            replace(row, correction=correction, record=record)
            for row, record in found
            if record is None or record.outcome is Outcome.OK
        ]
        return tuple(sorted(scored, key=lambda row: row.cost(self.objective)))

    def _with_hints(
        self, alike: Group, rows: tuple[ScoredSchedule, ...]
    ) -> tuple[ScoredSchedule, ...]:
        """Return ranked schedules, and those of a neighbour, by ascending cost."""
        if self._transfer is None or not self._heeds_neighbour or not rows:
            return rows
        hints = self._transfer.hints(alike)
        made = {row.schedule: replace(row, correction=hints.correction) for row in rows}
        if hints.rows:
            carried = _rows(self._ranking.predict(alike, [one.schedule for one in hints.rows]))
            pairs = zip(carried, hints.rows, strict=True)
            made |= {row.schedule: replace(row, correction=x.correction) for row, x in pairs}
        return tuple(sorted(made.values(), key=lambda row: row.cost(self.objective)))

    def _measured_elsewhere(
        self, group: Group, records: Mapping[str, Record], held: set[str]
    ) -> tuple[ScoredSchedule, ...]:
        """Predict the best measured schedules that are not ``held`` and can still be lowered."""
        nests = legal_nests(group, self.spec)
        assert nests is not None  # or nothing would be ranked
        best = sorted(
            (
                record
                for text, record in records.items()
                if record.outcome is Outcome.OK and text not in held
            ),
            key=lambda record: measured_cost(record, self.objective),
        )
        stored = (Schedule.from_json(record.schedule_json) for record in best)
        lowered = (schedule for schedule in stored if has_ranks_of(nests, schedule))
        schedules = list(itertools.islice(lowered, _REMEMBERED))
        return _rows(self._ranking.predict(group, schedules)) if schedules else ()


def _rows(ranked: Ranked) -> tuple[ScoredSchedule, ...]:
    columns = np.asarray(ranked.values).T.tolist()
    return tuple(
        ScoredSchedule(schedule, *column)
        for schedule, column in zip(ranked.schedules, columns, strict=True)
    )


def _correction(found: list[tuple[ScoredSchedule, Record | None]], objective: Objective) -> float:
    """Return the median of measured over predicted cost of a group's schedules, within limits."""
    ratios = [
        measured_cost(record, objective) / row.predicted(objective)
        for row, record in found
        if record is not None and record.outcome is Outcome.OK
    ]
    if not ratios:
        return 1.0
    low, high = _CORRECTION
    return min(high, max(low, statistics.median(ratios)))
