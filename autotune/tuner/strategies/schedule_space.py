"""Schedules of a group as parameters of a study: legal ones are drawn, and a suggestion is the nearest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from autotune.fusion.group import Group
from autotune.fusion.nest import Nest
from autotune.schedule.schedule import Schedule
from autotune.schedule.space import enumerate_on
from autotune.schedule.table import ScheduleTable
from autotune.tuner.legality import legal_nests
from autotune.tuner.strategies.strategy import SearchState, Wanted

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution
    from optuna.samplers import BaseSampler

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

DRAWN = 1024
"""Legal schedules of a group that strategies without a model choose from."""


@dataclass(frozen=True)
class ScheduleSpace:
    """Legal schedules of a group with ``knobs`` [n, K]: ranks of extents, codes of orders and flags."""

    schedules: tuple[Schedule, ...]
    knobs: Ints
    is_ordinal: tuple[bool, ...]
    place: dict[Schedule, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.place.update({schedule: i for i, schedule in enumerate(self.schedules)})

    def distributions(self) -> dict[str, BaseDistribution]:
        """Return the distribution of every knob that varies."""
        from optuna.distributions import CategoricalDistribution, IntDistribution

        found: dict[str, BaseDistribution] = {}
        for k, is_ordinal in enumerate(self.is_ordinal):
            top = int(self.knobs[:, k].max())
            if top > 0:
                choices = CategoricalDistribution(list(range(top + 1)))
                found[f"k{k}"] = IntDistribution(0, top) if is_ordinal else choices
        return found

    def params(self, row: int) -> dict[str, int]:
        """Return the parameters of one schedule."""
        return {name: int(self.knobs[row, int(name[1:])]) for name in self.distributions()}

    def nearest(self, params: dict[str, int], excluded: set[int]) -> int | None:
        """Return the schedule of the fewest differences that is not ``excluded``; None without any."""
        away = np.zeros(len(self.schedules))
        for name, value in params.items():
            column = self.knobs[:, int(name[1:])]
            if self.is_ordinal[int(name[1:])]:
                away += abs(column - value) / max(int(column.max()), 1)
            else:
                away += column != value
        away[list(excluded)] = np.inf
        best = int(np.argmin(away))
        return best if np.isfinite(away[best]) else None


class ScheduleSpaces:
    """The schedule space of every group of one search, drawn when it is first asked for."""

    def __init__(self, state: SearchState) -> None:
        self._state = state
        self._spaces: dict[str, ScheduleSpace | None] = {}

    def drawn(self, group: Group, rng: np.random.Generator) -> Wanted | None:
        """Return a random unmeasured schedule of a group; None where all were measured, or none fits."""
        space = self._space(group)
        if space is None:
            return None
        measured = self._measured(group, space)
        left = [i for i in range(len(space.schedules)) if i not in measured]
        return self._wanted(group, space, left[int(rng.integers(len(left)))]) if left else None

    def suggested(self, group: Group, sampler: BaseSampler) -> Wanted | None:
        """Return the unmeasured schedule that is nearest to what a sampler proposes after the measured ones."""
        import optuna

        space = self._space(group)
        if space is None:
            return None
        distributions, measured = space.distributions(), self._measured(group, space)
        study = optuna.create_study(sampler=sampler)
        for row, cost in measured.items():
            state = optuna.trial.TrialState.FAIL if cost is None else None
            study.add_trial(
                optuna.trial.create_trial(
                    state=state or optuna.trial.TrialState.COMPLETE,
                    params=space.params(row),
                    distributions=distributions,
                    value=cost,
                )
            )
        near = space.nearest(study.ask(distributions).params, set(measured))
        return None if near is None else self._wanted(group, space, near)

    def _space(self, group: Group) -> ScheduleSpace | None:
        if group.key not in self._spaces:
            self._spaces[group.key] = _draw_space(self._state, group)
        return self._spaces[group.key]

    def _measured(self, group: Group, space: ScheduleSpace) -> dict[int, float | None]:
        """Return the rows that were measured, with their costs; None for those that failed."""
        samples = self._state.evaluator.samples(group)
        return {
            space.place[schedule]: cost
            for schedule, cost in samples.items()
            if schedule in space.place
        }

    def _wanted(self, group: Group, space: ScheduleSpace, row: int) -> Wanted:
        return group, self._state.costs.predict(group, space.schedules[row])


def _draw_space(state: SearchState, group: Group) -> ScheduleSpace | None:
    spec = state.costs.spec
    nests = legal_nests(group, spec)
    if nests is None:
        return None
    rng = np.random.default_rng([state.seed, int(group.key[:12], 16)])
    tables = [enumerate_on(nest, spec, DRAWN, rng) for nest in nests]
    if not all(map(len, tables)):
        return None
    count = max(map(len, tables))
    picked = [_picked(len(table), count, rng) for table in tables]
    rows = [[table.row(i) for i in rows] for table, rows in zip(tables, picked, strict=True)]
    schedules = dict.fromkeys(Schedule(parts) for parts in zip(*rows, strict=True))
    return _coded(nests, tuple(schedules))


def _picked(available: int, count: int, rng: np.random.Generator) -> list[int]:
    """Return ``count`` rows of a table: each once, or in random order and again from the first."""
    order = rng.permutation(available)
    return [int(order[i % available]) for i in range(count)]


def _coded(nests: Sequence[Nest], schedules: tuple[Schedule, ...]) -> ScheduleSpace:
    columns: list[Ints] = []
    ordinal: list[bool] = []
    for at, nest in enumerate(nests):
        table = ScheduleTable.of(nest, [schedule.nests[at] for schedule in schedules])
        extents = np.concatenate([table.tile, table.k_tile], axis=1)
        flags = np.stack([table.buffers, table.cores, table.im2col], axis=1)
        codes = np.unique(table.order, axis=0, return_inverse=True)[1].reshape(-1, 1)
        columns += [_ranks(column) for column in np.concatenate([extents, flags, codes], axis=1).T]
        ordinal += [*[True] * extents.shape[1], *[False] * 4]
    return ScheduleSpace(schedules, np.stack(columns, axis=1), tuple(ordinal))


def _ranks(column: Ints) -> Ints:
    return np.asarray(np.unique(column, return_inverse=True)[1]).reshape(-1)
