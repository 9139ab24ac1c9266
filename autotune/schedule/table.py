"""Schedules of one nest as columns, for enumeration and features."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from autotune.fusion.nest import Nest
from autotune.schedule.schedule import NestSchedule

Ints = npt.NDArray[np.int64]

_PRIME = 0x9E3779B97F4A7C15 - (1 << 64)
"""Odd multiplier of the hash: 2⁶⁴ over the golden ratio (Knuth, TAOCP 3, 6.4), as a signed number."""


@dataclass(frozen=True, slots=True)
class ScheduleTable:
    """``n`` schedules of one nest, a row each.

    All columns are int64: ``tile`` and ``order`` [n, rank], ``k_tile`` [n, contractions],
    ``buffers``, ``cores`` and ``im2col`` (0 or 1) [n].
    """

    tile: Ints
    order: Ints
    k_tile: Ints
    buffers: Ints
    cores: Ints
    im2col: Ints

    def __post_init__(self) -> None:
        n = len(self.tile)
        assert self.tile.shape == self.order.shape and self.k_tile.ndim == 2
        assert len(self.k_tile) == n and self.buffers.shape == self.cores.shape == (n,)
        assert self.im2col.shape == (n,)

    def __len__(self) -> int:
        return len(self.tile)

    def row(self, index: int) -> NestSchedule:
        """Return one row as a schedule."""
        return NestSchedule(
            tuple(self.tile[index].tolist()),
            tuple(self.order[index].tolist()),
            tuple(self.k_tile[index].tolist()),
            int(self.buffers[index]),
            int(self.cores[index]),
            bool(self.im2col[index]),
        )

    def take(self, indices: npt.ArrayLike) -> ScheduleTable:
        """Return the rows at ``indices`` (integers or a mask), in that order."""
        rows = np.asarray(indices)
        return ScheduleTable(
            self.tile[rows],
            self.order[rows],
            self.k_tile[rows],
            self.buffers[rows],
            self.cores[rows],
            self.im2col[rows],
        )

    def then(self, other: ScheduleTable) -> ScheduleTable:
        """Return the rows of this table, then those of another table of the same nest."""
        return ScheduleTable.joined((self, other))

    @classmethod
    def joined(cls, tables: Sequence[ScheduleTable]) -> ScheduleTable:
        """Return the rows of tables of one nest, one table after the other."""
        return cls(
            np.concatenate([table.tile for table in tables]),
            np.concatenate([table.order for table in tables]),
            np.concatenate([table.k_tile for table in tables]),
            np.concatenate([table.buffers for table in tables]),
            np.concatenate([table.cores for table in tables]),
            np.concatenate([table.im2col for table in tables]),
        )

    @property
    def columns(self) -> Ints:
        """All decisions as one matrix [n, columns]: tiles, order, reduction pieces, buffers, cores, im2col."""
        single = (self.buffers[:, None], self.cores[:, None], self.im2col[:, None])
        return np.concatenate([self.tile, self.order, self.k_tile, *single], axis=1)

    @property
    def identities(self) -> Ints:
        """A number [n] for each schedule, equal for equal ones: a polynomial hash modulo 2⁶⁴."""
        identities = np.zeros(len(self), dtype=np.int64)
        for column in self.columns.T:
            identities = identities * _PRIME + column
        return identities

    def loops(self, nest: Nest) -> Ints:
        """Return root dimensions from the outermost loop in [n, rank]; a nest's reduction is
        last."""
        if nest.reduced is None:
            return self.order
        behind = np.cumsum(self.order == nest.reduced, axis=1)[:, :-1] > 0
        others = np.where(behind, self.order[:, 1:], self.order[:, :-1])
        return np.concatenate([others, np.full_like(others[:, :1], nest.reduced)], axis=1)

    @classmethod
    def of(cls, nest: Nest, schedules: Sequence[NestSchedule]) -> ScheduleTable:
        """Make a table of the given schedules, all of ``nest``."""
        n = len(schedules)

        def column(rows: list[tuple[int, ...]], width: int) -> Ints:
            return np.array(rows, dtype=np.int64).reshape(n, width)

        rank = len(nest.root_shape)
        return cls(
            column([s.tile for s in schedules], rank),
            column([s.order for s in schedules], rank),
            column([s.k_tile for s in schedules], len(nest.contractions)),
            np.array([s.buffers for s in schedules], dtype=np.int64),
            np.array([s.cores for s in schedules], dtype=np.int64),
            np.array([s.im2col for s in schedules], dtype=np.int64),
        )
