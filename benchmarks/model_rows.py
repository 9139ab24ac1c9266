"""Measured programs as rows of every feature, so that many predictors are trained and asked quickly."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from autotune.cost_model.analysis import analytic_model
from autotune.cost_model.part_rows import PartRows
from autotune.cost_model.raw.counts import RawCounts, trivial_cycles
from autotune.cost_model.raw.features import raw_columns
from autotune.cost_model.raw.prices import split_work
from autotune.cost_model.raw.work import raw_work
from autotune.fusion.analysis import nests_of
from autotune.fusion.group import Group
from autotune.schedule.schedule import Schedule
from autotune.schedule.table import ScheduleTable
from autotune.targets.spec import HardwareSpec

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Rows(PartRows):
    """``r`` programs and the ``n`` nests that they run (n ≥ r).

    Per nest: ``raw`` [n, R] and ``guided`` [n, G] features, ``work`` [n, W], ``counted`` [n, 2 K] raw work,
    ``owner`` program; cycles by size alone (``trivial``), by ``roofline`` and by
    analytic ``estimate``. Per program: ``cycles`` as measured, ``keys`` of groups, ``networks``.
    """

    PER_PART = ("raw", "guided", "work", "counted", "trivial", "roofline", "estimate")

    spec: HardwareSpec
    raw: Floats
    guided: Floats
    work: Floats
    counted: Floats
    trivial: Floats
    roofline: Floats
    estimate: Floats
    owner: Ints
    cycles: Floats
    keys: npt.NDArray[np.str_]
    networks: npt.NDArray[np.str_]

    def first(self, order: Ints) -> Rows:
        """Return the rows of the programs at ``order``, in the order of these rows."""
        chosen = np.zeros(len(self), dtype=bool)
        chosen[order] = True
        return self.take(chosen)


@dataclass(frozen=True, slots=True)
class Programs:
    """Schedules of one group of a network, and their measured cycles [n]."""

    network: str
    group: Group
    schedules: Sequence[Schedule]
    cycles: Floats


def rows_of(programs: Sequence[Programs], spec: HardwareSpec) -> Rows:
    """Return the rows of programs, in their order."""
    blocks = []
    first = 0
    for one in programs:
        blocks += _blocks(one, spec, first)
        first += len(one.schedules)
    raw, guided, work, counted, columns, owner = (list(x) for x in zip(*blocks, strict=True))
    trivial, roofline, estimate = np.concatenate(columns, axis=1)
    rows = Rows(
        spec,
        np.concatenate(raw),
        np.concatenate(guided),
        np.concatenate(work),
        np.concatenate(counted),
        trivial,
        roofline,
        estimate,
        np.concatenate(owner),
        np.concatenate([one.cycles for one in programs]),
        np.repeat([one.group.key for one in programs], [len(one.cycles) for one in programs]),
        np.repeat([one.network for one in programs], [len(one.cycles) for one in programs]),
    )
    return replace(rows, raw=np.nan_to_num(rows.raw))


def _blocks(
    programs: Programs, spec: HardwareSpec, first: int
) -> list[tuple[Floats, Floats, Floats, Floats, Floats, Ints]]:
    blocks = []
    owner = np.arange(first, first + len(programs.schedules), dtype=np.int64)
    for position, nest in enumerate(nests_of(programs.group)):
        table = ScheduleTable.of(
            nest, [schedule.nests[position] for schedule in programs.schedules]
        )
        a = analytic_model(spec).analyse(nest, table, spec)
        counts = RawCounts(nest, table, spec)
        counted = split_work(raw_work(counts), counts.ones * table.buffers)
        columns = np.stack([trivial_cycles(counts), a.roofline, a.estimate])
        blocks.append((raw_columns(counts), a.features, a.work, counted, columns, owner))
    return blocks
