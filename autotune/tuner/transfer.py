"""Transfer: what a neighbour's measurements say of a group's schedules on a machine that was never measured.

A model errs alike on machines whose numbers are near. So each schedule that the neighbour measured is predicted here, and
corrected by what it took there over what the model says of it there. Schedules that do not fit are repaired.
"""

from __future__ import annotations

import contextlib
import statistics
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from autotune.cost_model.model import CostModel
from autotune.errors import ScheduleError
from autotune.fusion.equivalence import EquivalenceClasses
from autotune.fusion.group import Group
from autotune.schedule.fit import has_ranks_of
from autotune.schedule.repair import fits, repaired
from autotune.schedule.schedule import Schedule
from autotune.store.records import Outcome, Record
from autotune.targets.spec import HardwareSpec
from autotune.tuner.legality import legal_nests
from autotune.tuner.objective import Objective
from autotune.tuner.observations import Observations
from autotune.tuner.ranking import Ranking

MOST = 12
"""Schedules of one group that are carried, the cheapest there first."""
REPAIRED = 6
"""Legal schedules near one that does not fit, which the model chooses from."""
LIMITS = (0.5, 2.0)
"""Limits of a correction."""


@dataclass(frozen=True, slots=True)
class Hint:
    """A schedule worth a prediction, and the factor that corrects it."""

    schedule: Schedule
    correction: float


@dataclass(frozen=True, slots=True)
class Hints:
    """What a neighbour says of a group: schedules, and the ``correction`` of all others.

    ``fits`` says whether the schedule that was cheapest there is legal here.
    """

    rows: tuple[Hint, ...] = ()
    correction: float = 1.0
    fits: bool = False


@dataclass(slots=True)
class Transfer:
    """Gives hints by a neighbour's measurements. ``there`` predicts on the neighbour, ``spec`` is the new machine."""

    observations: Observations
    there: Ranking
    spec: HardwareSpec
    _known: dict[str, Hints] = field(default_factory=dict)

    @classmethod
    def of(
        cls, records: Iterable[Record], there: HardwareSpec, model: CostModel, here: Ranking
    ) -> Transfer:
        """Return the transfer of a machine's ``records``; ``model`` predicts there, ``here`` on the new one."""
        classes = EquivalenceClasses(here.spec.dram.burst_bytes)
        ranking = replace(here, model=model, spec=there)
        return cls(Observations(classes, records), ranking, here.spec)

    def hints(self, alike: Group) -> Hints:
        """Return what the neighbour says of a class of groups, by the group that stands for it."""
        if alike.key not in self._known:
            self._known[alike.key] = self._hints(alike)
        return self._known[alike.key]

    def _hints(self, alike: Group) -> Hints:
        measured = self._measured(alike)
        nests = legal_nests(alike, self.spec)
        if not measured or nests is None:
            return Hints()
        usual = statistics.median(correction for _, correction in measured)
        rows: dict[Schedule, Hint] = {}
        for schedule, correction in measured:
            if fits(nests, schedule, self.spec):
                rows.setdefault(schedule, Hint(schedule, correction))
            elif schedule is measured[0][0]:
                for one in repaired(nests, schedule, self.spec, REPAIRED):
                    rows.setdefault(one, Hint(one, usual))
        return Hints(tuple(rows.values()), usual, measured[0][0] in rows)

    def _measured(self, alike: Group) -> list[tuple[Schedule, float]]:
        """Return the schedules that were measured there, the cheapest first, with what they took over what was predicted."""
        objective, nests = self.there.objective, legal_nests(alike, self.there.spec)
        if nests is None:
            return []
        records = _cheapest(self.observations.of_group(alike).values(), objective)
        pairs = []
        for one in records:
            with contextlib.suppress(ScheduleError):  # an older version wrote it otherwise
                pairs.append((Schedule.from_json(one.schedule_json), one))
        pairs = [(schedule, one) for schedule, one in pairs if has_ranks_of(nests, schedule)]
        if not pairs:
            return []
        ranked = self.there.predict(alike, [schedule for schedule, _ in pairs])
        low, high = LIMITS
        found = []
        for (schedule, one), column in zip(pairs, ranked.values.T, strict=True):
            ratio = objective.of(one.cycles, one.energy_fj) / objective.of(column[0], column[3])
            found.append((schedule, min(high, max(low, float(ratio)))))
        return found


def _cheapest(records: Iterable[Record], objective: Objective) -> list[Record]:
    measured = [one for one in records if one.outcome is Outcome.OK]
    return sorted(measured, key=lambda one: objective.of(one.cycles, one.energy_fj))[:MOST]
