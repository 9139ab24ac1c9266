"""Block sparsity in costs: nonzero tiles and transfers of a product."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from autotune.cost_model.steps.tiling import Floats, Tiles, Tiling
from autotune.fusion.nest import Stage
from autotune.schedule.block_sparsity import NonzeroWork, nonzero_work
from autotune.schedule.table import Ints


def nonzero_loads(
    tiling: Tiling, stage: Stage, index: int, in_pieces: npt.NDArray[np.bool_]
) -> NonzeroWork | None:
    """Return the nonzero work of loading a product's factor.

    A whole factor that other tiles need too is loaded in full.
    """
    nonzero = nonzero_work(tiling.nest, tiling.table, stage)
    if nonzero is None or stage.operands[1] == index:
        return nonzero
    return NonzeroWork(*(np.where(in_pieces, part, 1.0) for part in nonzero))


def nonzero_transfers(
    pieces: Ints | Floats, nonzero: NonzeroWork | None
) -> tuple[Floats | float, Floats | float]:
    """Return the nonzero share of the data that transfers of a weight move, and transfers per piece.

    A reduction in pieces skips some of them; a whole one takes several transfers.
    """
    if nonzero is None:
        return 1.0, 1.0
    return nonzero.share, np.where(pieces > 1, nonzero.share, nonzero.pieces)


def nonzero_tiles(tiling: Tiling, stage: Stage, tiles: Tiles, nonzero: NonzeroWork) -> Tiles:
    """Return the tiles of a product that skips blocks of a whole reduction, each of one piece."""
    assert stage.contraction is not None
    k = tiling.k_dim(stage.contraction)
    mean = np.ceil(tiling.extent[k] * nonzero.share / nonzero.pieces).astype(np.int64)
    return tiles.resized(k, np.where(tiling.parts[k] > 1, tiles.sizes[k], mean))
