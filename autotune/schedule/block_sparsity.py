"""Block sparsity of a schedule table: the nonzero work of products under every schedule."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from autotune.fusion.block_sparsity import sparse_product
from autotune.fusion.nest import Nest, Stage
from autotune.schedule.table import ScheduleTable


class NonzeroWork(NamedTuple):
    """Nonzero work of a product per schedule, as means over tiles.

    ``share`` [n] is the fraction of the reduction that a tile needs, ``pieces`` [n] their number.
    """

    share: npt.NDArray[np.float64]
    pieces: npt.NDArray[np.float64]


def nonzero_work(nest: Nest, table: ScheduleTable, stage: Stage) -> NonzeroWork | None:
    """Return the nonzero work of a product, or None if every schedule needs all of it."""
    skipped = sparse_product(nest, stage)
    if skipped is None or stage.contraction is None:
        return None
    blocks, axis, columns, extent = skipped.blocks, skipped.axis, skipped.columns, skipped.k_extent
    k_tile = table.k_tile[:, stage.contraction]
    n_tile = np.full(len(table), axis.window)
    if axis.dim is not None:
        n_tile = axis.extent(table.tile[:, axis.dim])
    pairs, row = np.unique(np.stack([n_tile, k_tile], axis=1), axis=0, return_inverse=True)
    found = [
        blocks.shares((n, columns), k, extent) if skipped.skips(n, k) else (1.0, -(-extent // k))
        for n, k in pairs.tolist()
    ]
    share, pieces = np.array(found, dtype=np.float64)[row.reshape(-1)].T
    return NonzeroWork(share, pieces)
