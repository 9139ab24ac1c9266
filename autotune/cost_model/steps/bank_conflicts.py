"""Scratchpad bank conflicts of strided operands: how many cycles one vector pass takes to read."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from autotune.kernels.tape.recorder import recorded_step
from autotune.schedule.table import Ints


def pass_conflict(
    sizes: Sequence[Ints | int], strides: Sequence[Ints | int], lanes: int, banks: int
) -> Ints:
    """Cycles per pass for an operand of ``sizes`` and ``strides`` in elements, outer to inner.

    The first ``lanes`` elements fall into ``banks`` word-interleaved banks of which each serves
    ⌈lanes / banks⌉ words a cycle; mirrors ``pass_conflict`` in ``kernels/emulator/cost.h``. Schedules of
    equal rectangles are worked out once.
    """
    recorded: Ints | None = recorded_step("conflict", (*sizes, *strides, lanes, banks))
    if recorded is not None:
        return recorded
    arrays = np.broadcast_arrays(*(np.asarray(c, dtype=np.int64) for c in (*sizes, *strides)))
    columns = np.stack([array.ravel() for array in arrays])
    _, first, inverse = np.unique(_mixed(columns), return_index=True, return_inverse=True)
    rank = len(sizes)
    distinct = columns[:, first]
    worst = _worst(distinct[:rank], distinct[rank:], lanes, banks)
    found: Ints = -(-worst // -(-lanes // banks))
    return found[inverse].reshape(arrays[0].shape)


def _mixed(columns: Ints) -> Ints:
    """One number per schedule that differs between different columns: a polynomial hash."""
    key = np.zeros(columns.shape[1], dtype=np.int64)
    for column in columns:
        key = key * 1_000_003 + column
    return key


def _worst(sizes: Ints, strides: Ints, lanes: int, banks: int) -> Ints:
    """Words in the fullest bank among the elements of one pass."""
    rows = sizes.shape[1]
    lane = np.arange(lanes)[None, :]
    left = np.full(rows, lanes, dtype=np.int64)
    before = np.ones((rows, 1), dtype=np.int64)
    at = np.zeros((rows, lanes), dtype=np.int64)
    taken: npt.NDArray[np.bool_] = np.ones((rows, lanes), dtype=bool)
    for size, stride in zip(sizes[::-1], strides[::-1], strict=True):
        take = np.maximum(np.minimum(size, left), 1)
        left = left // take
        digit = lane // before % take[:, None]
        taken &= (digit == 0) | (stride[:, None] != 0)
        at += digit * stride[:, None]
        before = before * take[:, None]
    taken &= lane < before
    place = np.arange(rows)[:, None] * banks + at % banks
    served = np.bincount(place[taken], minlength=rows * banks).reshape(rows, banks)
    worst: Ints = served.max(axis=1)
    return worst
