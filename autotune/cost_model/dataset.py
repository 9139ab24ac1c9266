"""Measurements as training rows: features of every measured nest beside what its group cost."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

import numpy as np
import numpy.typing as npt

from autotune.cost_model.analysis import Analysis
from autotune.cost_model.energy import dynamic_energy, leak_per_cycle
from autotune.cost_model.features import matrix_of, names_of
from autotune.cost_model.host_parts import PARTS, priced
from autotune.fusion.analysis import analyse
from autotune.fusion.group import Group
from autotune.fusion.nest import Rejection
from autotune.schedule.fit import has_ranks_of
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
    @property
    def trust(self) -> float: ...


@dataclass(frozen=True, slots=True)
class Dataset:
    """``r`` measurements and the ``n`` nests that they ran (n ≥ r: a group may have several).

    Per nest [n]: ``x`` [n, F] features, ``work`` [n, P] counts of the parts that have prices (P = 0 on
    a machine without), ``owner`` measurement, analytic ``estimate`` in cycles,
    ``dynamic_fj``, ``leak_fj`` per cycle, ``moved_bytes``. Per measurement [r]: what was measured,
    ``weight``, group ``keys`` and ``networks``.
    """

    x: Floats
    work: Floats
    owner: Ints
    estimate: Floats
    dynamic_fj: Floats
    leak_fj: Floats
    moved_bytes: Floats
    cycles: Floats
    energy_fj: Floats
    dram_bytes: Floats
    weight: Floats
    keys: npt.NDArray[np.str_]
    networks: npt.NDArray[np.str_]

    def __len__(self) -> int:
        return len(self.cycles)

    def summed(self, per_nest: Floats) -> Floats:
        """A quantity of whole measurements [r] from that of their nests [n]."""
        return np.bincount(self.owner, per_nest, len(self)).astype(np.float64)

    def priced(self, prices: Floats) -> Floats:
        """Analytic cycles [n] of each nest."""
        return priced(self.work, prices, self.estimate)

    def analytic_energy(self, cycles: Floats) -> Floats:
        """Femtojoules of every measurement [r] by the spec's table, run in ``cycles`` [n]."""
        return self.summed(self.dynamic_fj + self.leak_fj * cycles)

    @property
    def part(self) -> Floats:
        """Share [n] of each nest in its measurement's analytic cycles."""
        return self.estimate / self.summed(self.estimate)[self.owner]

    @property
    def main(self) -> Ints:
        """The nest [r] that takes most of each measurement's analytic cycles."""
        order = np.lexsort((self.estimate, self.owner))
        last = np.searchsorted(self.owner[order], np.arange(len(self)), side="right") - 1
        return order[last]


@dataclass(frozen=True, slots=True)
class _Block:
    """Nest-level columns of one group's measurements."""

    x: Floats
    work: Floats
    owner: Ints
    columns: Floats


def dataset(
    records: Sequence[Measured], spec: HardwareSpec, weights: Sequence[float] | None = None
) -> Dataset:
    """Training rows of the measurements that succeeded; of equal candidates the last counts, by its
    trust times its weight."""
    weighted = zip(records, weights if weights is not None else [1.0] * len(records), strict=True)
    latest = {
        (record.group_key, record.schedule_json): (record, weight)
        for record, weight in weighted
        if record.outcome == "ok" and record.cycles > 0
    }
    by_group: dict[str, list[tuple[Measured, float]]] = {}
    for record, weight in latest.values():
        by_group.setdefault(record.group_key, []).append((record, weight))
    kept: list[tuple[Measured, float]] = []
    blocks = [_nothing(spec)]
    for members in by_group.values():
        found, lowered = _blocks([record for record, _ in members], len(kept), spec)
        blocks.extend(found)
        kept.extend(members[i] for i in lowered)
    return _assembled(blocks, kept)


def _nothing(spec: HardwareSpec) -> _Block:
    work = np.empty((0, len(PARTS) if spec.in_place else 0))
    x = np.empty((0, len(names_of(spec))))
    return _Block(x, work, np.empty(0, dtype=np.int64), np.empty((4, 0)))


def _blocks(
    members: list[Measured], first: int, spec: HardwareSpec
) -> tuple[list[_Block], tuple[int, ...]]:
    """One block per nest of a group, and the positions of the members that have rows there: those
    that can still be lowered."""
    schedules = tuple(record.schedule_json for record in members)
    analysed, lowered = _analysed(members[0].group_json, schedules, spec)
    owner = np.arange(first, first + len(lowered))
    return [_Block(x, work, owner, columns) for x, work, columns in analysed], lowered


@lru_cache(maxsize=4096)
def _analysed(
    group_json: str, schedules: tuple[str, ...], spec: HardwareSpec
) -> tuple[tuple[tuple[Floats, Floats, Floats], ...], tuple[int, ...]]:
    """Features, counted work and analytic columns of each nest, and which schedules can still be lowered;
    kept, since retraining asks for most again."""
    nests = analyse(Group.from_json(group_json))
    if isinstance(nests, Rejection):
        return (), ()
    read = [Schedule.from_json(text) for text in schedules]
    lowered = tuple(i for i, schedule in enumerate(read) if has_ranks_of(nests, schedule))
    if not lowered:
        return (), ()
    found = []
    for position, nest in enumerate(nests):
        table = ScheduleTable.of(nest, [read[i].nests[position] for i in lowered])
        analysis = Analysis(nest, table, spec)
        dynamic, leak = dynamic_energy(analysis), leak_per_cycle(analysis)
        columns = np.stack([analysis.estimate, dynamic, leak, analysis.moved_bytes])
        found.append((matrix_of(analysis), analysis.host_work, columns))
    return tuple(found), lowered


def _assembled(blocks: list[_Block], kept: list[tuple[Measured, float]]) -> Dataset:
    estimate, dynamic, leak, moved = np.concatenate([b.columns for b in blocks], axis=1)

    def column(value: Callable[[Measured], float]) -> Floats:
        return np.array([value(record) for record, _ in kept], dtype=np.float64)

    return Dataset(
        np.concatenate([b.x for b in blocks]),
        np.concatenate([b.work for b in blocks]),
        np.concatenate([b.owner for b in blocks]),
        estimate,
        dynamic,
        leak,
        moved,
        column(lambda r: r.cycles),
        column(lambda r: r.energy_fj),
        column(lambda r: r.dram_bytes),
        np.array([weight * record.trust for record, weight in kept], dtype=np.float64),
        np.array([record.group_key for record, _ in kept], dtype=np.str_),
        np.array([record.network for record, _ in kept], dtype=np.str_),
    )
