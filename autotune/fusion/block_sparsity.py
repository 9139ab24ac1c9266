"""Which products of a nest may leave zero blocks of their weights out: the schedule's counts and lowering
ask here, so that what is counted is what is left out."""

from __future__ import annotations

from dataclasses import dataclass

from autotune.fusion.nest import Nest, Stage
from autotune.operators.axis_map import AxisMap, full
from autotune.operators.block_sparsity import ZeroBlocks, made_axis, zero_blocks


@dataclass(frozen=True, slots=True)
class Skipping:
    """Of one product: its weight's blocks [K, N], the interval of the N's ``columns`` that a tile of
    the root makes, and the extent K of its reduction."""

    blocks: ZeroBlocks
    axis: AxisMap
    columns: int
    k_extent: int

    def leaves_out(self, n_tile: int, k_tile: int) -> bool:
        """Whether tiles of ``n_tile`` columns by pieces of ``k_tile`` leave anything out."""
        return self.blocks.skips((n_tile, self.columns), k_tile, self.k_extent)


def skipping(nest: Nest, stage: Stage) -> Skipping | None:
    """Of a stage's product; None where it needs all of its reduction whatever the schedule."""
    blocks = zero_blocks(stage.op)
    if blocks is None or stage.contraction is None:
        return None
    position = made_axis(stage.op, len(stage.footprint))
    axis, columns = stage.footprint[position], nest.types[stage.output].shape[position]
    if not _is_divided(axis, columns, nest.root_shape):
        return None
    return Skipping(blocks, axis, columns, nest.contractions[stage.contraction].k_extent)


def _is_divided(axis: AxisMap, columns: int, root_shape: tuple[int, ...]) -> bool:
    """Whether tiles are whole, or side by side from the first column on: a window over the columns
    needs some of them twice, and where it pads also some that the weight does not have."""
    if axis.dim is None:
        return axis == full(columns)
    apart = axis.offset == 0 and axis.per == 1 and axis.window == axis.scale
    return apart and axis.size(root_shape) <= columns
