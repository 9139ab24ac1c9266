"""Ranking of a group's schedules by the model alone: enumerate, predict, try neighbours."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from autotune.cost_model.estimate import Best, Forecast
from autotune.cost_model.first_choice import kept_first
from autotune.cost_model.model import CostModel
from autotune.fusion.group import Group
from autotune.fusion.nest import Nest
from autotune.schedule.neighbours import neighbours
from autotune.schedule.schedule import Schedule
from autotune.schedule.space import enumerate_on
from autotune.schedule.table import ScheduleTable
from autotune.targets.spec import HardwareSpec, Memory
from autotune.tuner.legality import legal_nests
from autotune.tuner.objective import Objective

Floats = npt.NDArray[np.float64]

KEPT = 48
"""Schedules of a group that remain candidates for measurement."""


@dataclass(frozen=True, slots=True)
class Effort:
    """Effort of ranking one nest: ``enumerated`` schedules, ``predicted`` ones of the lowest bound, then
    ``rounds`` over the neighbours of the ``refined`` best. Of a group ``verified`` are bound and priced by
    kernel, where the model has a second stage."""

    enumerated: int
    predicted: int
    rounds: int
    refined: int
    verified: int


QUICK = Effort(enumerated=2048, predicted=256, rounds=1, refined=24, verified=6)
"""Effort while partitions are searched: 0.6 to 0.9 % above the best known (mean of 36 drawn groups on ``server``, 48 on
``edge``). A round takes the same time for 8 schedules as for 24: with 96 predicted, and two rounds of 8, it was 0.6
to 1.9 % in as much time."""
ROUGH = Effort(enumerated=512, predicted=64, rounds=0, refined=8, verified=3)
"""Effort where many networks are priced and none of their schedules is kept."""
DEEP = Effort(enumerated=6144, predicted=768, rounds=2, refined=32, verified=24)
"""Effort for groups of a plan, in twice the time: 0.0 to 0.3 % above the best known on the same groups."""


@dataclass(frozen=True, slots=True)
class Ranked:
    """Schedules of a group or nest with their predictions, best first; ``values`` [5, n] are
    cycles, their low and high, femtojoules and DRAM bytes."""

    schedules: tuple[Schedule, ...]
    values: Floats

    def __len__(self) -> int:
        return len(self.schedules)

    @classmethod
    def nothing(cls) -> Ranked:
        """Return the ranking of a group without a legal schedule."""
        return cls((), np.zeros((5, 0)))


@dataclass(frozen=True, slots=True)
class _Draft:
    """Schedules of a nest with their forecasts, best first."""

    table: ScheduleTable
    forecast: Forecast

    def __len__(self) -> int:
        return len(self.table)


@dataclass(frozen=True, slots=True)
class Ranking:
    """Ranks by ``objective``; the result depends on the seed and the group alone."""

    model: CostModel
    spec: HardwareSpec
    objective: Objective
    seed: int

    def rank(self, group: Group, effort: Effort, before: Ranked | None = None) -> Ranked:
        """Return the best ``KEPT`` schedules of a group, with those of ``before`` as candidates."""
        nests = legal_nests(group, self.spec)
        if nests is None:
            return Ranked.nothing()
        rng = np.random.default_rng([self.seed, int(group.key[:12], 16)])
        ranked = None
        for nest in nests:
            part = self._rank_nest(nest, effort, rng)
            if not len(part):
                return part
            ranked = part if ranked is None else self._join(ranked, part)
        assert ranked is not None
        ranked = self._verified(group, ranked, effort.verified)
        return ranked if before is None or not len(before) else self._best_of(ranked, before)

    def predict(self, group: Group, schedules: Sequence[Schedule]) -> Ranked:
        """Predict schedules of a legal group, in their order."""
        return self._priced(group, Ranked(tuple(schedules), self._estimated(group, schedules)))

    def _estimated(self, group: Group, schedules: Sequence[Schedule]) -> Floats:
        """Return what the first stage predicts of schedules of a legal group, as ``Ranked.values`` [5, n]."""
        values = np.zeros((5, len(schedules)))
        for at, nest in enumerate(legal_nests(group, self.spec) or ()):
            table = ScheduleTable.of(nest, [schedule.nests[at] for schedule in schedules])
            values += self.model.estimate(nest, table).columns
        return values

    @property
    def _is_verified(self) -> bool:
        """True if a second stage prices what the first ranks."""
        return self.model.verifier is not None and not self.objective.weighs_energy

    @property
    def _drafting(self) -> CostModel:
        """The first stage: the plain formula where a second follows, or where it chooses better than the model."""
        if self.objective.weighs_energy:
            return self.model
        return self.model.formula if self._is_verified else self.model.chooser

    def _verified(self, group: Group, ranked: Ranked, count: int) -> Ranked:
        """Return the ``count`` best by the first stage in the order of the second, if there is one."""
        if not self._is_verified:
            return ranked if self._drafting is self.model else self._repriced(group, ranked)
        draft = Ranked(ranked.schedules[:count], ranked.values[:, :count])
        priced = self._priced(group, draft, draft.values[0])
        order = self._order(priced.values)
        order = order[np.isfinite(priced.values[0, order])]
        return Ranked(tuple(priced.schedules[i] for i in order.tolist()), priced.values[:, order])

    def _priced(self, group: Group, ranked: Ranked, formula: Floats | None = None) -> Ranked:
        """Return the schedules with the cycles and the interval of the second stage, if there is one; ``cautious``
        about the first choice by the ``formula``'s cycles [n] (None: as it is priced)."""
        verifier = self.model.verifier
        if verifier is None or not self._is_verified or not len(ranked):
            return ranked
        cycles = verifier.cycles(group, ranked.schedules, formula)
        interval = np.stack([cycles, cycles / verifier.spread, cycles * verifier.spread])
        return Ranked(ranked.schedules, np.concatenate([interval, ranked.values[3:]]))

    def _repriced(self, group: Group, ranked: Ranked) -> Ranked:
        """Return schedules that the plain formula ranked, with the model's costs; its first choice stays first."""
        values = self._estimated(group, ranked.schedules)
        values[:3] = kept_first(values[:3], 0)
        order = self._order(values)
        return Ranked(tuple(ranked.schedules[i] for i in order.tolist()), values[:, order])

    def _rank_nest(self, nest: Nest, effort: Effort, rng: np.random.Generator) -> Ranked:
        table = enumerate_on(nest, self.spec, effort.enumerated, rng)
        if not len(table):
            return Ranked.nothing()
        if len(table) > effort.predicted:
            least = self._drafting.rough(nest, table)
            table = table.take(np.argpartition(least, effort.predicted)[: effort.predicted])
        draft = self._best(table, self._drafting.forecast(nest, table, self._asked()))
        predicted, refined = table.identities, np.empty(0, dtype=np.int64)
        for _ in range(effort.rounds):
            best = draft.table.take(np.arange(min(len(draft), effort.refined)))
            around = best.take(~np.isin(best.identities, refined))
            near = self._near(nest, around)
            near = near.take(~np.isin(near.identities, predicted))
            if not len(near):
                break
            refined = np.concatenate([refined, around.identities])
            predicted = np.concatenate([predicted, near.identities])
            forecast = draft.forecast.then(self._drafting.forecast(nest, near, self._asked(draft)))
            draft = self._best(draft.table.then(near), forecast)
        schedules = tuple(Schedule((draft.table.row(i),)) for i in range(len(draft)))
        return Ranked(schedules, self._drafting.completed(draft.forecast).columns)

    def _asked(self, draft: _Draft | None = None) -> Best | None:
        """Return which schedules matter beside those of a draft; None if all do, as energy may choose any."""
        if self.objective.weighs_energy:
            return None
        if draft is None or len(draft) < KEPT:
            return Best(KEPT)
        return Best(KEPT, float(draft.forecast.cycles[-1]))

    def _near(self, nest: Nest, table: ScheduleTable) -> ScheduleTable:
        """Return the neighbours of some schedules on the machine."""
        spec = self.spec
        if not len(table):
            return table
        return neighbours(
            nest,
            table,
            spec.capacity,
            spec.cores,
            spec.tile_multiple,
            spec.max_buffers,
            im2col=spec.memory is Memory.SCRATCHPAD,
        )

    def _best(self, table: ScheduleTable, forecast: Forecast) -> _Draft:
        """Return the best ``KEPT`` of different schedules of a nest."""
        order = _least(self._cost(forecast))
        return _Draft(table.take(order), forecast.take(order))

    def _cost(self, forecast: Forecast) -> Floats:
        if not self.objective.weighs_energy:
            return forecast.cycles
        return self.objective.of(forecast.cycles, self.model.energy(forecast))

    def _order(self, values: Floats) -> npt.NDArray[np.int64]:
        return _least(self.objective.of(values[0], values[3]))

    def _best_of(self, first: Ranked, second: Ranked) -> Ranked:
        """Return the best ``KEPT`` of two rankings of the same nests."""
        schedules, places = _distinct(first.schedules, second.schedules)
        values = np.concatenate([first.values, second.values], axis=1)[:, places]
        order = self._order(values)
        return Ranked(tuple(schedules[i] for i in order.tolist()), values[:, order])

    def _join(self, first: Ranked, second: Ranked) -> Ranked:
        """Pair schedules of nests that run one after the other; return the best ``KEPT``."""
        values = (first.values[:, :, None] + second.values[:, None, :]).reshape(5, -1)
        order = self._order(values)
        schedules = tuple(
            Schedule((*first.schedules[i].nests, *second.schedules[j].nests))
            for i, j in (divmod(at, len(second)) for at in order.tolist())
        )
        return Ranked(schedules, values[:, order])


def _least(cost: Floats) -> npt.NDArray[np.int64]:
    """Return positions of the ``KEPT`` least costs, ascending."""
    return np.argsort(cost, kind="stable")[:KEPT]


def _distinct(
    first: tuple[Schedule, ...], second: tuple[Schedule, ...]
) -> tuple[tuple[Schedule, ...], npt.NDArray[np.int64]]:
    """Return the schedules of both, each once, and the position of each among them all; the first one's counts."""
    places: dict[Schedule, int] = {}
    for i, schedule in enumerate((*first, *second)):
        places.setdefault(schedule, i)
    return tuple(places), np.array(list(places.values()), dtype=np.int64)
