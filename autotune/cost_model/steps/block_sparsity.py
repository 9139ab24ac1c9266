"""What zero blocks of weights leave of a product's tiles and transfers; the steps and what they take of a
host count it."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from autotune.cost_model.steps.tiling import Floats, Tiles, Tiling
from autotune.fusion.nest import Stage
from autotune.schedule.block_sparsity import Needed, needed
from autotune.schedule.table import Ints


def kept_loads(
    tiling: Tiling, stage: Stage, index: int, in_pieces: npt.NDArray[np.bool_]
) -> Needed | None:
    """What is left to load of a product's factor: of a whole one that other tiles need too, all."""
    kept = needed(tiling.nest, tiling.table, stage)
    if kept is None or stage.operands[1] == index:
        return kept
    return Needed(*(np.where(in_pieces, part, 1.0) for part in kept))


def left_moves(pieces: Ints | Floats, kept: Needed | None) -> tuple[Floats | float, Floats | float]:
    """What zero blocks leave of a weight's transfers: the share of what they move, and how many there
    are for each: fewer pieces of a reduction, or several of one that is whole."""
    if kept is None:
        return 1.0, 1.0
    return kept.share, np.where(pieces > 1, kept.share, kept.pieces)


def kept_tiles(tiling: Tiling, stage: Stage, tiles: Tiles, kept: Needed) -> Tiles:
    """The tiles of a product that leaves zero blocks out of a whole reduction, each of one piece."""
    assert stage.contraction is not None
    k = tiling.k_dim(stage.contraction)
    mean = np.ceil(tiling.extent[k] * kept.share / kept.pieces).astype(np.int64)
    return tiles.resized(k, np.where(tiling.parts[k] > 1, tiles.sizes[k], mean))
