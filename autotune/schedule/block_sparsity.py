"""What zero blocks of weights leave of products, for every schedule of a table: the rule and the cost
model's features count by it; lowering (lowering/block_sparsity.py) leaves out the same."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from autotune.fusion.block_sparsity import skipping
from autotune.fusion.nest import Nest, Stage
from autotune.schedule.table import ScheduleTable


class Needed(NamedTuple):
    """``share`` [n] of a product's reduction that a tile needs, and ``pieces`` [n] that it takes them
    in, both as means over tiles."""

    share: npt.NDArray[np.float64]
    pieces: npt.NDArray[np.float64]


def needed(nest: Nest, table: ScheduleTable, stage: Stage) -> Needed | None:
    """Of one product; None where all of it is needed whatever the schedule."""
    skipped = skipping(nest, stage)
    if skipped is None or stage.contraction is None:
        return None
    blocks, axis, columns, extent = skipped.blocks, skipped.axis, skipped.columns, skipped.k_extent
    k_tile = table.k_tile[:, stage.contraction]
    n_tile = np.full(len(table), axis.window)
    if axis.dim is not None:
        n_tile = axis.extent(table.tile[:, axis.dim])
    pairs, row = np.unique(np.stack([n_tile, k_tile], axis=1), axis=0, return_inverse=True)
    found = [
        blocks.shares((n, columns), k, extent)
        if skipped.leaves_out(n, k)
        else (1.0, -(-extent // k))
        for n, k in pairs.tolist()
    ]
    share, pieces = np.array(found, dtype=np.float64)[row.reshape(-1)].T
    return Needed(share, pieces)
