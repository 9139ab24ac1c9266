"""Block sparsity of a nest: the products that may skip zero blocks of their weights.

Counting and lowering both ask here, so they skip the same blocks.
"""

from __future__ import annotations

from dataclasses import dataclass

from autotune.fusion.nest import Nest, Stage
from autotune.operators.axis_map import AxisMap, full
from autotune.operators.block_sparsity import ZeroBlocks, made_axis, zero_blocks


@dataclass(frozen=True, slots=True)
class SparseProduct:
    """A product that may skip zero blocks.

    ``blocks`` are those of its weight [K, N], ``axis`` is the interval of the ``columns`` N that a
    tile of the root computes, and ``k_extent`` is K.
    """

    blocks: ZeroBlocks
    axis: AxisMap
    columns: int
    k_extent: int

    def skips(self, n_tile: int, k_tile: int) -> bool:
        """Return True if tiles of ``n_tile`` columns by pieces of ``k_tile`` skip a block."""
        return self.blocks.skips((n_tile, self.columns), k_tile, self.k_extent)


def sparse_product(nest: Nest, stage: Stage) -> SparseProduct | None:
    """Return a stage's product, or None if every schedule needs all of its reduction."""
    blocks = zero_blocks(stage.op)
    if blocks is None or stage.contraction is None:
        return None
    position = made_axis(stage.op, len(stage.footprint))
    axis, columns = stage.footprint[position], nest.types[stage.output].shape[position]
    if not _is_divided(axis, columns, nest.root_shape):
        return None
    return SparseProduct(blocks, axis, columns, nest.contractions[stage.contraction].k_extent)


def _is_divided(axis: AxisMap, columns: int, root_shape: tuple[int, ...]) -> bool:
    """Return True if tiles are whole or lie side by side from the first column on.

    Windows over the columns read some of them twice, and padding reads columns outside the weight.
    """
    if axis.dim is None:
        return axis == full(columns)
    apart = axis.offset == 0 and axis.per == 1 and axis.window == axis.scale
    return apart and axis.size(root_shape) <= columns
