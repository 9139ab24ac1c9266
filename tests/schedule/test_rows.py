"""Schedules as rows of integers: lossless, named, and as legal as one by one."""

from __future__ import annotations

import numpy as np
import pytest

from autotune.errors import InputError, ScheduleError
from autotune.schedule.bulk_fit import legal_rows
from autotune.schedule.fit import check
from autotune.schedule.rows import column_names, rows_of, schedule_of, tables_of
from autotune.schedule.schedule import Schedule
from autotune.schedule.space import enumerate_nest
from autotune.schedule.table import ScheduleTable
from autotune.targets.capacity import Capacity
from tests.cost_model.measured import SPEC, drawn


@pytest.mark.parametrize("seed", range(12))
def test_rows_hold_schedules_without_loss(seed: int) -> None:
    rng = np.random.default_rng(seed)
    _, nests, schedule = drawn(rng)
    tables = [
        ScheduleTable.of(nest, [part]) for nest, part in zip(nests, schedule.nests, strict=True)
    ]
    rows = rows_of(tables)
    assert rows.shape == (1, len(column_names(nests))) and rows.dtype == np.int64
    assert schedule_of(tables_of(nests, rows), 0) == schedule
    assert schedule_of(tables_of(nests, rows.astype(np.uint16)), 0) == schedule


@pytest.mark.parametrize("seed", range(24))
def test_bulk_legality_is_that_of_single_schedules(seed: int) -> None:
    rng = np.random.default_rng(seed)
    _, nests, _ = drawn(rng)
    words = SPEC.tile_elements // int(rng.integers(1, 4))
    capacity = Capacity(words, 0 if seed % 2 else words // int(rng.integers(2, 9)))
    for nest in nests:
        table = enumerate_nest(nest, SPEC.capacity, SPEC.cores, 64, rng, im2col=True)
        rows = rows_of([table])
        spoilt = rows + rng.integers(-1, 2, rows.shape) * (rng.random(rows.shape) < 0.08)
        for array in (rows, spoilt):
            (held,) = tables_of((nest,), array)
            single = np.array([_is_legal(nest, held, i, capacity) for i in range(len(held))])
            bulk = legal_rows(nest, held, capacity, SPEC.cores)
            np.testing.assert_array_equal(bulk, single)


def _is_legal(nest, table: ScheduleTable, index: int, capacity: Capacity) -> bool:
    try:
        schedule = Schedule((table.row(index),))
    except ScheduleError:
        return False
    return check((nest,), schedule, capacity, SPEC.cores) is None


def test_rows_of_several_nests_begin_again_with_the_shorter_table() -> None:
    _, (nest, *_), _ = drawn(np.random.default_rng(0))
    table = enumerate_nest(nest, SPEC.capacity, SPEC.cores, 5, np.random.default_rng(0))
    rows = rows_of([table, table.take([0, 1])])
    first, second = tables_of((nest, nest), rows)
    np.testing.assert_array_equal(first.tile, table.tile)
    np.testing.assert_array_equal(second.tile, table.tile[np.arange(5) % 2])
    assert len(rows_of([table, table.take(np.zeros(5, dtype=bool))])) == 0


def test_an_array_of_another_shape_is_refused() -> None:
    _, nests, _ = drawn(np.random.default_rng(0))
    width = len(column_names(nests))
    for wrong in (
        np.zeros((3, width + 1), dtype=int),
        np.zeros(width, dtype=int),
        np.zeros((3, width)),
    ):
        with pytest.raises(InputError, match=rf"whole numbers \[n, {width}\]"):
            tables_of(nests, wrong)
