"""The cost model for embedding: ask what a group would cost, without measuring or searching."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from autotune.cost_model.model import CostModel
from autotune.display import Card, Displayed
from autotune.errors import InputError, ScheduleError, StoreError
from autotune.fusion.analysis import nests_of
from autotune.fusion.group import Group
from autotune.fusion.nest import Nest
from autotune.schedule.candidate import Candidate
from autotune.schedule.fit import check
from autotune.schedule.schedule import Schedule
from autotune.schedule.space import enumerate_on
from autotune.schedule.table import ScheduleTable
from autotune.store.store import Store
from autotune.targets.opening import HOST, load_spec
from autotune.targets.protocol import Target
from autotune.targets.spec import HardwareSpec

ENUMERATED = 1024
"""Schedules per nest among which the best one is looked for."""


@dataclass(frozen=True, slots=True, repr=False)
class Cost(Displayed):
    """What a group is predicted to cost by a schedule; ``low_cycles`` to ``high_cycles`` holds 90 %
    of measurements."""

    schedule: Schedule
    cycles: float
    low_cycles: float
    high_cycles: float
    energy_fj: float
    dram_bytes: float

    def _card(self) -> Card:
        interval = f"{self.low_cycles:,.0f} to {self.high_cycles:,.0f}"
        facts = [
            ("cycles", f"{self.cycles:,.0f}"),
            ("90 % interval", interval),
            ("energy", f"{self.energy_fj / 1e9:,.3f} µJ"),
            ("DRAM bytes", f"{self.dram_bytes:,.0f}"),
        ]
        return Card("Cost", facts)


class Predictor(Displayed):
    """Answers from a trained model; immutable, usable from several threads."""

    def __init__(self, model: CostModel) -> None:
        self.model = model

    def _card(self) -> Card:
        metrics = self.model.metrics
        rows = [(name, f"{float(value):.4g}") for name, value in metrics.items()]
        facts = [("held-out MAPE", f"{metrics['mape']:.2%}")] if "mape" in metrics else []
        return Card(f"Predictor {self.spec.name}", facts, ("metric", "value"), rows)

    @property
    def spec(self) -> HardwareSpec:
        """The machine that costs are predicted for."""
        return self.model.spec

    @classmethod
    def load(
        cls, target: Target | Path | str = HOST, store: Store | Path | str | None = None
    ) -> Predictor:
        """Load the cost model that the last calibration of a target left in the store.

        ``target`` is a name, a spec file or an open target; ``store`` a file or an open store (None:
        the user's). Raises ``StoreError`` if there is no model, or only one of another version.
        """
        if not isinstance(target, (str, Path)) and not hasattr(target, "spec"):
            raise InputError(f"a target is a name, a file or open, not {type(target).__name__}")
        spec = load_spec(target) if isinstance(target, (str, Path)) else target.spec
        if isinstance(store, Store):
            return cls(_stored(store, spec))
        with Store.open(store, reading=True) as own:
            return cls(_stored(own, spec))

    def predict(self, group: Group, schedule: Schedule | None = None) -> Cost:
        """Cost of a group by a schedule, or by the best one that the model knows.

        Raises ``ScheduleError`` when the group cannot run on the machine, or not by the schedule.
        """
        nests = _nests(group)
        if schedule is None:
            return self._best(group, nests)
        return self._costs(group, nests, [schedule])[0]

    def predict_many(self, candidates: Sequence[Candidate]) -> list[Cost]:
        """Costs of many candidates, in their order; those of one group are predicted together.

        Raises ``ScheduleError`` for one that is not legal.
        """
        members: dict[str, list[int]] = {}
        for index, candidate in enumerate(candidates):
            members.setdefault(candidate.group.key, []).append(index)
        found: dict[int, Cost] = {}
        for indices in members.values():
            group = candidates[indices[0]].group
            schedules = [candidates[i].schedule for i in indices]
            found.update(zip(indices, self._costs(group, _nests(group), schedules), strict=True))
        return [found[index] for index in range(len(candidates))]

    def _costs(
        self, group: Group, nests: tuple[Nest, ...], schedules: list[Schedule]
    ) -> list[Cost]:
        for schedule in schedules:
            rejection = check(nests, schedule, self.spec.tile_elements, self.spec.cores)
            if rejection is not None:
                raise ScheduleError(f"{_names(group)}: {rejection.reason}")
        total = np.zeros((5, len(schedules)))
        for position, nest in enumerate(nests):
            table = ScheduleTable.of(nest, [schedule.nests[position] for schedule in schedules])
            total += self.model.estimate(nest, table).columns
        return [
            Cost(schedule, *row) for schedule, row in zip(schedules, total.T.tolist(), strict=True)
        ]

    def _best(self, group: Group, nests: tuple[Nest, ...]) -> Cost:
        parts, total = [], np.zeros(5)
        for nest in nests:
            table = enumerate_on(nest, self.spec, ENUMERATED, np.random.default_rng(0))
            if not len(table):
                raise ScheduleError(
                    f"{_names(group)}: no tile fits {self.spec.scratchpad.size_bytes} bytes; fuse less"
                )
            columns = self.model.estimate(nest, table).columns
            best = int(np.argmin(columns[0]))
            parts.append(table.row(best))
            total += columns[:, best]
        return Cost(Schedule(tuple(parts)), *total.tolist())


def _nests(group: Group) -> tuple[Nest, ...]:
    if not isinstance(group, Group):
        raise InputError(f"costs are those of a Group, not of {type(group).__name__}")
    return nests_of(group)


def _names(group: Group) -> str:
    return f"group of {', '.join(op.name for op in group.ops)}"


def _stored(store: Store, spec: HardwareSpec) -> CostModel:
    model = store.load_model(spec.profile_id)
    if model is None:
        raise StoreError(
            f"{spec.name}: the store holds no cost model for hardware profile {spec.profile_id}; "
            f"run 'autotune calibrate --target {spec.name}' first"
        )
    return CostModel.from_bytes(model.blob, spec)
