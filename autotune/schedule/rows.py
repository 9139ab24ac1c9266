"""Schedules of a group as rows of integers, for callers that hold many: their layout, and back."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from autotune.errors import InputError
from autotune.fusion.nest import Nest
from autotune.schedule.schedule import Schedule
from autotune.schedule.table import Ints, ScheduleTable

_SCALARS = ("buffers", "cores", "im2col")


def column_names(nests: Sequence[Nest]) -> tuple[str, ...]:
    """Return the name of every column, nest after nest: ``nest0.tile0`` …, ``nest0.order0`` …,
    ``nest0.k_tile0`` …, ``nest0.buffers``, ``nest0.cores``, ``nest0.im2col``."""
    names: list[str] = []
    for number, nest in enumerate(nests):
        rank = len(nest.root_shape)
        own = [f"{word}{d}" for word in ("tile", "order") for d in range(rank)]
        own += [f"k_tile{k}" for k in range(len(nest.contractions))]
        names += [f"nest{number}.{name}" for name in (*own, *_SCALARS)]
    return tuple(names)


def rows_of(tables: Sequence[ScheduleTable]) -> Ints:
    """Return the rows [n, columns] of tables of a group's nests.

    Row i takes the i-th schedule of each table; those of a shorter one begin again. There are none
    where a table is empty.
    """
    count = max((len(table) for table in tables), default=1)
    if not all(len(table) for table in tables):
        count = 0
    parts = [_part(table)[np.arange(count) % max(1, len(table))] for table in tables]
    return np.concatenate(parts, axis=1) if parts else np.empty((count, 0), dtype=np.int64)


def tables_of(nests: Sequence[Nest], rows: npt.ArrayLike) -> list[ScheduleTable]:
    """Return the tables of a group's nests that rows [n, columns] hold.

    Raises ``InputError`` for an array of another shape or type.
    """
    array = np.asarray(rows)
    width = sum(map(_width, nests))
    if array.ndim != 2 or array.shape[1] != width or array.dtype.kind not in "iu":
        raise InputError(
            f"schedules are whole numbers [n, {width}] here, got {array.dtype} {list(array.shape)}; "
            "Predictor.schedules makes such an array"
        )
    tables, start = [], 0
    for nest in nests:
        part = array[:, start : start + _width(nest)].astype(np.int64, copy=False)
        rank, pieces = len(nest.root_shape), len(nest.contractions)
        tile, order, k_tile, *scalars = np.split(
            part, np.cumsum([rank, rank, pieces, 1, 1]).tolist(), axis=1
        )
        buffers, cores, im2col = (column[:, 0] for column in scalars)
        tables.append(ScheduleTable(tile, order, k_tile, buffers, cores, im2col))
        start += _width(nest)
    return tables


def schedule_of(tables: Sequence[ScheduleTable], index: int) -> Schedule:
    """Return the schedule in one row of tables of a group's nests."""
    return Schedule(tuple(table.row(index) for table in tables))


def _width(nest: Nest) -> int:
    return 2 * len(nest.root_shape) + len(nest.contractions) + len(_SCALARS)


def _part(table: ScheduleTable) -> Ints:
    scalars = np.stack([table.buffers, table.cores, table.im2col], axis=1)
    return np.concatenate([table.tile, table.order, table.k_tile, scalars], axis=1)
