"""What groups cost, by their best schedules: measured costs count more than predicted ones. Fusion
search asks here."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from autotune.cost_model.model import CostModel
from autotune.fusion.equivalence import EquivalenceClasses
from autotune.fusion.group import Group
from autotune.schedule.fit import has_ranks_of
from autotune.schedule.schedule import Schedule
from autotune.store.records import Outcome, Record
from autotune.targets.spec import HardwareSpec
from autotune.tuner.bulk import rank_all
from autotune.tuner.legality import legal_nests
from autotune.tuner.objective import Objective
from autotune.tuner.observations import Observations
from autotune.tuner.ranking import DEEP, KEPT, QUICK, Ranked, Ranking

_REMEMBERED = 16
"""Measured schedules of a group that are predicted too, so that they stay in the running."""
_CORRECTION = (0.5, 2.0)
"""Limits of what a group's measurements may do to the predictions of its other schedules."""


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


class GroupCosts:
    """The best schedules of every group asked for, remembered by the group's key.

    A group's result depends on the seed, the group and what was measured of it, not on what was
    asked before; twins (``fusion.twin``) are ranked once, and have one result but for what was measured
    of them themselves. ``known`` are measurements, oldest first; ``workers`` is as in ``rank_all``.
    """

    def __init__(
        self,
        model: CostModel,
        spec: HardwareSpec,
        objective: Objective = Objective.LATENCY,
        seed: int = 0,
        known: Iterable[Record] = (),
        workers: int | None = 1,
    ) -> None:
        self.spec = spec
        self.objective = objective
        self._observations = Observations(EquivalenceClasses(spec.dram.burst_bytes), known)
        self._ranking = Ranking(model, spec, objective, seed)
        self._workers = workers
        self._legal: dict[str, bool] = {}
        self._ranked: dict[str, Ranked] = {}
        self._scored: dict[str, dict[str, tuple[ScoredSchedule, ...]]] = {}
        self._deep: set[str] = set()

    @property
    def model(self) -> CostModel:
        """The cost model that predicts."""
        return self._ranking.model

    def retrained(self, model: CostModel) -> None:
        """Predict with another model from now on."""
        self._ranking = replace(self._ranking, model=model)
        self._ranked.clear()
        self._scored.clear()

    def observe(self, records: Iterable[Record]) -> None:
        """Take in measurements; they override the predictions of what was measured."""
        for key in self._observations.add(records):
            self._scored.pop(key, None)

    def twin(self, group: Group) -> Group:
        """The one of a group's twins that stands for all of them."""
        return self._observations.twins.representative(group)

    def prepare(self, groups: Iterable[Group]) -> None:
        """Rank the schedules of groups that will be asked for, all at once."""
        missing = {
            group.key: group
            for group in map(self.twin, groups)
            if not group.is_view and group.key not in self._ranked and self.legal(group)
        }
        self._rank(missing.values())

    def deepen(self, groups: Iterable[Group]) -> None:
        """Look at many more schedules of these groups from now on."""
        alike = map(self.twin, groups)
        shallow = {g.key: g for g in alike if not g.is_view and g.key not in self._deep}
        self._deep |= shallow.keys()
        self._rank(shallow.values())

    def _rank(self, groups: Iterable[Group]) -> None:
        chosen = tuple(groups)
        jobs = [
            (group, DEEP if group.key in self._deep else QUICK, self._ranked.get(group.key))
            for group in chosen
        ]
        for group, ranked in zip(chosen, rank_all(self._ranking, jobs, self._workers), strict=True):
            self._ranked[group.key] = ranked
            self._scored.pop(group.key, None)

    def legal(self, group: Group) -> bool:
        """Whether some schedule of the group fits the machine; views need none."""
        group = self.twin(group)
        if group.key not in self._legal:
            fits = group.is_view or legal_nests(group, self.spec) is not None
            self._legal[group.key] = fits
        return self._legal[group.key]

    def best(self, group: Group, count: int = KEPT) -> tuple[ScoredSchedule, ...]:
        """At most ``count`` schedules by ascending cost; empty when none is legal.

        Schedules whose measurement failed are left out.
        """
        alike = self.twin(group)
        if alike.is_view or not self.legal(alike):
            return ()
        if alike.key not in self._ranked:
            self._rank((alike,))
        scored = self._scored.setdefault(alike.key, {})
        asked = group if self._observations.has_own(group) else alike
        if asked.key not in scored:
            scored[asked.key] = self._score(alike, self._observations.of_group(asked))
        return scored[asked.key][:count]

    def scored(self, group: Group, schedule: Schedule) -> ScoredSchedule:
        """A given legal schedule of a group, as predicted."""
        return _rows(self._ranking.predict(self.twin(group), [schedule]))[0]

    def cost(self, group: Group) -> float | None:
        """Cycles or femtojoules of the group's best schedule, 0 for views; None: none is legal."""
        if group.is_view:
            return 0.0
        best = self.best(group, 1)
        return best[0].cost(self.objective) if best else None

    def _score(self, alike: Group, records: Mapping[str, Record]) -> tuple[ScoredSchedule, ...]:
        """The schedules ranked for a twin and the best measured ones by ascending cost, by the
        records of the group that is asked for."""
        rows = _rows(self._ranked[alike.key])
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

    def _measured_elsewhere(
        self, group: Group, records: Mapping[str, Record], held: set[str]
    ) -> tuple[ScoredSchedule, ...]:
        """The best measured schedules of a group besides those ``held``, of those that can still be lowered."""
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
    """Median of measured over predicted cost among a group's measured schedules, within limits."""
    ratios = [
        measured_cost(record, objective) / row.predicted(objective)
        for row, record in found
        if record is not None and record.outcome is Outcome.OK
    ]
    if not ratios:
        return 1.0
    low, high = _CORRECTION
    return min(high, max(low, statistics.median(ratios)))
