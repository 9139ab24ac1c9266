"""Recorded arithmetic against NumPy: drawn expressions, bit for bit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from autotune.cost_model.steps.bank_conflicts import pass_conflict
from autotune.cost_model.steps.tape import BLOCK, Tape
from autotune.cost_model.steps.tiling import edge_losses
from autotune.kernels.tape.recorder import Recorder, Untraceable
from autotune.schedule.table import ScheduleTable

WHOLE: tuple[Callable[[Any, Any], Any], ...] = (
    lambda x, y: x + y,
    lambda x, y: x - y,
    lambda x, y: 3 * x - -(-y // 5),
    lambda x, y: x // (y + 1),
    lambda x, y: -x // np.maximum(y, 0),
    lambda x, y: x % 7,
    np.minimum,
    lambda x, y: np.gcd(x, 48),
    lambda x, y: np.where(x > y, x, 9),
    lambda x, y: np.where((x >= y) & ~(y == 3) | (x != 2), x, y * 0),
    lambda x, y: np.clip(x, 2, np.maximum(y, 2)),
    lambda x, y: np.sum(np.stack([x, y, x * y, x, y, x, x, y, y]), axis=0),
    lambda x, y: np.cumsum(np.stack([x > 3, y > 3], axis=1), axis=1)[:, 1] + x,
    lambda x, y: abs(x - y) + (x < y),
    lambda x, y: (x * 1_000_003_000_007) // (y + 1),
)
REAL: tuple[Callable[[Any, Any], Any], ...] = (
    lambda x, y: x / np.maximum(y, 1e-9),
    lambda x, y: 0.1 * x + y,
    lambda x, y: np.ceil(x / 3) - np.floor(y / 7),
    lambda x, y: np.rint(x * 0.37) * 1.0,
    lambda x, y: np.maximum(x, 0.5) - np.minimum(y, np.inf),
    lambda x, y: np.where(np.isinf(y), 1.0, x),
    lambda x, y: np.log(np.maximum(x, 1.0)),
    lambda x, y: 0.875 ** np.minimum(np.maximum(x, 0.0), 9.0),
    lambda x, y: np.prod(np.stack([0.1 + x, y, 0.3 + y]), axis=0),
    lambda x, y: np.max(np.stack([x, y]), axis=0),
)


def table_of(columns: Any) -> ScheduleTable:
    """A table whose columns stand one after the other in ``Tape.run``."""
    empty = columns[0][:, None][:, :0]
    return ScheduleTable(empty, empty, empty, *columns)


def recorded(compute: Callable[[Any, Any, Any], list[Any]]) -> Tape:
    """The tape of three columns."""
    recorder = Recorder(3)
    table = table_of([recorder.traced([number], "i") for number in range(3)])
    return Tape.of(table, compute(table.buffers, table.cores, table.im2col))


def drawn(x: Any, y: Any, z: Any, choices: Any) -> list[Any]:
    """Thirty expressions, each of those before it; whole numbers stay small, so that none overflows."""
    whole, real = [x, y, z], [x * 0.5, y / 3, z * 0.25]
    for kind, form, first, second in choices:
        if kind % 2:
            made = REAL[form % len(REAL)](real[first % len(real)], real[second % len(real)])
            real.append(np.where(abs(made) < 1e9, made, 0.0))
        else:
            made = WHOLE[form % len(WHOLE)](whole[first % len(whole)], whole[second % len(whole)])
            whole.append(made % 10_007)
            real.append(whole[-1] + 0.25)
    return [*whole, *real]


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("n", [1, 5, BLOCK, 2 * BLOCK + 3])
@pytest.mark.parametrize("seed", range(20))
def test_a_tape_has_the_bits_of_numpy(seed: int, n: int) -> None:
    rng = np.random.default_rng(seed)
    choices = rng.integers(0, 1000, size=(30, 4))

    def compute(x: Any, y: Any, z: Any) -> list[Any]:
        return drawn(x, y, z, choices)

    columns = rng.integers(1, 60, size=(3, max(n, 2)))
    expected = np.stack([1.0 * column for column in compute(*columns)])[:, :n]
    found = recorded(compute).run(table_of(columns[:, :n]))
    np.testing.assert_array_equal(found, expected)  # NaN equals NaN; of zeros the sign may differ


@pytest.mark.parametrize("seed", range(10))
def test_edges_and_conflicts_have_the_numbers_of_numpy(seed: int) -> None:
    """Of tiles that reach over both edges of a tensor, and of strided operands."""
    rng = np.random.default_rng(seed)
    offset, extent, lanes, banks = -int(rng.integers(0, 9)), int(rng.integers(1, 60)), 24, 16

    def compute(x: Any, y: Any, z: Any) -> list[Any]:
        lost = edge_losses(x + 2, y, z, offset, extent)
        sizes, strides = (x, 3, y), (z * y, np.where(x > 9, 0, y), 1)
        return [lost, pass_conflict(sizes, strides, lanes, banks)]

    columns = rng.integers(1, 30, size=(3, 300))
    expected = np.stack([1.0 * column for column in compute(*columns)])
    np.testing.assert_array_equal(recorded(compute).run(table_of(columns)), expected)


@pytest.mark.parametrize(
    "compute",
    [
        lambda x, y, z: [x if x > y else y],
        lambda x, y, z: [np.arange(5)[x]],
        lambda x, y, z: [np.unique(x)],
        lambda x, y, z: [np.sum(np.stack([x, y]))],
        lambda x, y, z: [np.max([x, y], axis=0)],
        lambda x, y, z: [np.sort(x)],
        lambda x, y, z: [range(z)],
    ],
)
def test_what_is_no_step_of_each_row_is_refused(
    compute: Callable[[Any, Any, Any], list[Any]],
) -> None:
    with pytest.raises(Untraceable):
        recorded(compute)
