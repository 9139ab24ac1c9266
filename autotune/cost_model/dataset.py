"""Measurements as training rows: features of every measured nest beside what its group cost."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from threading import Lock
from typing import Any

import numpy as np
import numpy.typing as npt

from autotune.cost_model.analysis import AnalyticModel
from autotune.cost_model.estimate import Rows
from autotune.cost_model.part_rows import PartRows
from autotune.cost_model.raw.model import corrected_model
from autotune.errors import StoreError
from autotune.fusion.analysis import analyse
from autotune.fusion.group import Group
from autotune.fusion.nest import Rejection
from autotune.schedule.fit import has_ranks_of
from autotune.schedule.schedule import Schedule
from autotune.schedule.table import ScheduleTable
from autotune.store.records import Outcome, Record
from autotune.targets.spec import HardwareSpec

Floats = npt.NDArray[np.float64]
Singles = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int64]

MIN_RECORDS = 50
"""Fewer successful measurements than this give no model."""
REMEMBERED_ROWS = 100_000
"""Measurements whose analysis is remembered for the next training, some 60 MB."""


@dataclass(frozen=True, slots=True)
class Dataset(PartRows):
    """``r`` measurements and the ``n`` nests that they ran (n ≥ r: a group may have several).

    Per nest [n]: ``x`` [n, F] features in single precision, which is what trees read; ``work`` [n, W] counts of the ``work_kinds`` of ``model``, which trees correct;
    ``owner``, the measurement; ``estimate``, cycles without any fitted price; ``dynamic_fj``; ``leak_fj`` per cycle;
    ``moved_bytes``. Per measurement [r]: measured costs, ``weight``, which is ``trust`` times the weight that was given, group
    ``keys``, ``networks``.
    """

    PER_PART = ("x", "work", "estimate", "dynamic_fj", "leak_fj", "moved_bytes")

    spec: HardwareSpec
    x: Singles
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
    trust: Floats
    keys: npt.NDArray[np.str_]
    networks: npt.NDArray[np.str_]
    is_raw: bool = False

    @property
    def model(self) -> AnalyticModel:
        """What trees correct: the analytic model, or counted work at fitted prices."""
        return corrected_model(self.spec, self.is_raw)

    @property
    def fingerprint(self) -> str:
        """SHA-256 of all columns as hexadecimal digits; another value, row or order makes another."""
        digest = hashlib.sha256(self.spec.memory.value.encode())
        for field in fields(self):
            if field.name not in ("spec", "is_raw", "trust"):
                column = getattr(self, field.name)
                digest.update(f"{field.name} {column.dtype.str} {column.shape}\n".encode())
                digest.update(np.ascontiguousarray(column).tobytes())
        return digest.hexdigest()

    def fit(self, chosen: npt.NDArray[np.bool_]) -> Floats:
        """Fit unit costs to the ``chosen`` measurements [r], whose nests add up."""
        parts = chosen[self.owner]
        owner = (np.cumsum(chosen) - 1)[self.owner[parts]]
        return self.model.fit(self.work[parts], owner, self.cycles[chosen], self.weight[chosen])

    def analytic_cycles(self, unit_costs: Floats) -> Floats:
        """Return the cycles [n] that trees correct, of each nest at unit costs."""
        return self.model.cycles(self.work, unit_costs, self.estimate)

    def rows(self, unit_costs: Floats) -> Rows:
        """Return what trees read [n, F], at unit costs."""
        return self.model.rows(self.x, self.work, unit_costs)

    def analytic_energy(self, cycles: Floats) -> Floats:
        """Return the femtojoules [r] by the spec's table, for nests that run in ``cycles`` [n]."""
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

    @property
    def main_x(self) -> Singles:
        """Features [r, F] of ``main``; of measurements of one nest each they are not copied."""
        return self.x if np.array_equal(self.owner, np.arange(len(self))) else self.x[self.main]


def joined(parts: Sequence[Dataset]) -> Dataset:
    """Return the measurements of several machines with one kind of memory, one machine after another.

    ``spec`` is the first one's: only its kind of memory holds for all.
    """
    first = np.cumsum([0, *(len(part) for part in parts)])
    moved = [replace(part, owner=part.owner + at) for part, at in zip(parts, first, strict=False)]
    columns: dict[str, Any] = {
        field.name: np.concatenate([getattr(part, field.name) for part in moved])
        for field in fields(Dataset)
        if field.name not in ("spec", "is_raw")
    }
    return Dataset(spec=parts[0].spec, **columns)


@dataclass(frozen=True, slots=True)
class _Block:
    """Nest-level columns of one group's measurements."""

    x: Singles
    work: Floats
    owner: Ints
    columns: Floats


def dataset(
    records: Sequence[Record],
    spec: HardwareSpec,
    weights: Sequence[float] | None = None,
    is_raw: bool = False,
    every: int = 1,
) -> Dataset:
    """Return the training rows of the successful measurements; of equal candidates the last one
    counts, by its trust times its weight. Raw rows stand in the same order as analytic ones, one in ``every``."""
    weighted = zip(records, weights if weights is not None else [1.0] * len(records), strict=True)
    latest = {
        (record.group_key, record.schedule_json): (record, weight)
        for record, weight in weighted
        if record.outcome is Outcome.OK and record.cycles > 0
    }
    by_group: dict[str, list[tuple[Record, float]]] = {}
    for record, weight in latest.values():
        by_group.setdefault(record.group_key, []).append((record, weight))
    del latest  # of a million measurements every copy counts
    rows: list[tuple[Record, float]] = []
    blocks: list[_Block] = []
    seen = 0
    for members in by_group.values():
        records_of = [record for record, _ in members]
        find = _Thinned(seen, every).count if is_raw else _memory.analysed
        added, lowered, analysed = _blocks(records_of, len(rows), spec, find)
        seen += analysed
        blocks.extend(added)
        rows.extend(members[i] for i in lowered)
    return _assemble(spec, blocks or [_empty(corrected_model(spec, is_raw))], rows, is_raw)


def _empty(model: AnalyticModel) -> _Block:
    work = np.empty((0, len(model.work_kinds)))
    x = np.empty((0, len(model.feature_names)), dtype=np.float32)
    return _Block(x, work, np.empty(0, dtype=np.int64), np.empty((4, 0)))


def _blocks(
    members: list[Record], first: int, spec: HardwareSpec, find: Find
) -> tuple[list[_Block], tuple[int, ...], int]:
    """Return one block per nest of a group, the positions of the members with rows in it, and how many members can
    still be lowered."""
    schedules = tuple(record.schedule_json for record in members)
    nests, lowered, count = find(members[0].group_json, schedules, spec)
    owner = np.arange(first, first + len(lowered))
    return (
        [_Block(x.astype(np.float32), work, owner, columns) for x, work, columns in nests],
        lowered,
        count,
    )


Analysed = tuple[tuple[tuple[Floats, Floats, Floats], ...], tuple[int, ...], int]
"""Features, work and analytic columns of each nest of a group, the positions of the schedules that have rows, and how
many can still be lowered."""
Find = Callable[[str, tuple[str, ...], HardwareSpec], "Analysed"]


class _Memory:
    """Analyses of groups for as many measurements as ``REMEMBERED_ROWS``; those not asked for longest go first."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[str, tuple[str, ...], HardwareSpec], Analysed] = OrderedDict()
        self._rows = 0
        self._lock = Lock()

    def analysed(self, group_json: str, schedules: tuple[str, ...], spec: HardwareSpec) -> Analysed:
        """Analyse a group's nests, or recall it: retraining asks for most again."""
        key = group_json, schedules, spec
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key]
        found = _analyse(group_json, schedules, spec)
        with self._lock:
            if key not in self._kept:
                self._kept[key] = found
                self._rows += len(schedules)
            while self._rows > REMEMBERED_ROWS:
                (_, oldest, _), _ = self._kept.popitem(last=False)
                self._rows -= len(oldest)
        return found


_memory = _Memory()


def _analyse(group_json: str, schedules: tuple[str, ...], spec: HardwareSpec) -> Analysed:
    """Analyse a group's nests."""
    nests = analyse(Group.from_json(group_json))
    if isinstance(nests, Rejection):
        return (), (), 0
    read = [Schedule.from_json(text) for text in schedules]
    lowered = tuple(i for i, schedule in enumerate(read) if has_ranks_of(nests, schedule))
    if not lowered:
        return (), (), 0
    blocks = []
    for position, nest in enumerate(nests):
        table = ScheduleTable.of(nest, [read[i].nests[position] for i in lowered])
        a = corrected_model(spec).analyse(nest, table, spec)
        columns = np.stack([a.estimate, a.dynamic_fj, a.leak_fj, a.moved_bytes])
        blocks.append((a.features, a.work, columns))
    return tuple(blocks), lowered, len(lowered)


@dataclass(frozen=True, slots=True)
class _Thinned:
    """Counts raw work of one row in ``every``, where ``seen`` rows of other groups came before."""

    seen: int
    every: int

    def count(self, group_json: str, schedules: tuple[str, ...], spec: HardwareSpec) -> Analysed:
        """Do what ``_analyse`` does, with raw features and work, and the estimate of these."""
        analysed, lowered, count = _memory.analysed(group_json, schedules, spec)
        chosen = np.arange(-self.seen % self.every, count, self.every)
        kept = tuple(lowered[i] for i in chosen)
        if not kept:
            return (), (), count
        counted = _count_raw(group_json, tuple(schedules[i] for i in kept), spec)
        pairs = zip(counted, analysed, strict=True)
        return (
            tuple(
                (x, work, np.stack([estimate, *columns[1:, chosen]]))
                for (x, work, estimate), (_, _, columns) in pairs
            ),
            kept,
            count,
        )


@lru_cache(maxsize=4096)
def _count_raw(
    group_json: str, schedules: tuple[str, ...], spec: HardwareSpec
) -> tuple[tuple[Floats, Floats, Floats], ...]:
    """Count a group's nests under schedules that can be lowered: features, work and estimate of each."""
    nests = analyse(Group.from_json(group_json)) if schedules else ()
    assert not isinstance(nests, Rejection)
    read = [Schedule.from_json(text) for text in schedules]
    model, found = corrected_model(spec, is_raw=True), []
    for position, nest in enumerate(nests):
        table = ScheduleTable.of(nest, [one.nests[position] for one in read])
        a = model.analyse(nest, table, spec)
        found.append((a.features, a.work, a.estimate))
    return tuple(found)


def _assemble(
    spec: HardwareSpec, blocks: list[_Block], rows: list[tuple[Record, float]], is_raw: bool
) -> Dataset:
    estimate, dynamic, leak, moved = np.concatenate([b.columns for b in blocks], axis=1)

    def column(value: Callable[[Record], float]) -> Floats:
        return np.array([value(record) for record, _ in rows], dtype=np.float64)

    return Dataset(
        spec,
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
        np.array([weight * record.trust for record, weight in rows], dtype=np.float64),
        column(lambda r: r.trust),
        np.array([record.group_key for record, _ in rows], dtype=np.str_),
        np.array([record.network for record, _ in rows], dtype=np.str_),
        is_raw,
    )


def too_few(spec: HardwareSpec, count: int) -> StoreError:
    """Return the error of a machine with too few measurements to train on."""
    return StoreError(
        f"{spec.name}: {count} successful measurements, a cost model needs "
        f"{MIN_RECORDS}; run 'autotune calibrate --target {spec.name}' first"
    )
