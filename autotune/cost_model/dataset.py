"""Measurements as training rows: features of every measured nest beside what its group cost."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from autotune.cost_model.analysis import Analysis
from autotune.cost_model.energy import analytic_energy
from autotune.cost_model.features import FEATURES, matrix_of
from autotune.fusion.group import Group
from autotune.fusion.nest import Rejection, analyse
from autotune.schedule.schedule import Schedule
from autotune.schedule.table import ScheduleTable
from autotune.targets.spec import HardwareSpec

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


class Measured(Protocol):
    """What training reads of a stored measurement."""

    @property
    def group_key(self) -> str: ...
    @property
    def group_json(self) -> str: ...
    @property
    def schedule_json(self) -> str: ...
    @property
    def network(self) -> str: ...
    @property
    def outcome(self) -> str: ...
    @property
    def cycles(self) -> int: ...
    @property
    def energy_fj(self) -> int: ...
    @property
    def dram_bytes(self) -> int: ...


@dataclass(frozen=True, slots=True)
class Dataset:
    """``r`` measurements and the ``n`` nests that they ran (n ≥ r: a group may have several).

    Per nest: ``x`` [n, F] features, ``estimate`` [n] cycles, ``owner`` [n] measurement. Per
    measurement [r]: ``cycles``, ``energy_fj``, ``dram_bytes`` as measured, the analytic
    ``dynamic_energy_fj`` and ``moved_bytes``, group ``keys`` and ``networks``.
    """

    x: Floats
    estimate: Floats
    owner: Ints
    cycles: Floats
    energy_fj: Floats
    dram_bytes: Floats
    analytic_energy_fj: Floats
    moved_bytes: Floats
    keys: npt.NDArray[np.str_]
    networks: npt.NDArray[np.str_]

    def __len__(self) -> int:
        return len(self.cycles)

    @property
    def estimate_sum(self) -> Floats:
        """Analytic cycles of whole measurements [r]."""
        return np.bincount(self.owner, self.estimate, len(self))


def dataset(records: Iterable[Measured], spec: HardwareSpec) -> Dataset:
    """Training rows of the measurements that succeeded; of equal candidates the last counts."""
    latest = {(r.group_key, r.schedule_json): r for r in records if r.outcome == "ok" and r.cycles > 0}
    by_group: dict[str, list[Measured]] = {}
    for record in latest.values():
        by_group.setdefault(record.group_key, []).append(record)
    kept: list[Measured] = []
    xs: list[Floats] = [np.empty((0, len(FEATURES)))]
    estimates: list[Floats] = [np.empty(0)]
    owners: list[Ints] = [np.empty(0, dtype=np.int64)]
    totals: list[Floats] = [np.empty((0, 2))]
    for members in by_group.values():
        nests = analyse(Group.from_json(members[0].group_json))
        if isinstance(nests, Rejection):
            continue
        schedules = [Schedule.from_json(r.schedule_json) for r in members]
        rows = np.arange(len(kept), len(kept) + len(members))
        total = np.zeros((len(members), 2))
        for position, nest in enumerate(nests):
            table = ScheduleTable.of(nest, [s.nests[position] for s in schedules])
            analysis = Analysis(nest, table, spec)
            xs.append(matrix_of(analysis))
            estimates.append(analysis.estimate)
            owners.append(rows)
            total += np.stack([analytic_energy(analysis, analysis.zeros), analysis.moved_bytes], axis=1)
        totals.append(total)
        kept.extend(members)
    energy, moved = np.concatenate(totals).T
    return Dataset(
        np.concatenate(xs), np.concatenate(estimates), np.concatenate(owners),
        np.array([r.cycles for r in kept], dtype=np.float64),
        np.array([r.energy_fj for r in kept], dtype=np.float64),
        np.array([r.dram_bytes for r in kept], dtype=np.float64),
        energy, moved,
        np.array([r.group_key for r in kept], dtype=np.str_),
        np.array([r.network for r in kept], dtype=np.str_),
    )
