"""Block sparsity of a nest being emitted: the pieces of each reduction that a tile needs.

Loops whose trips need different pieces cannot be hardware loops.
"""

from __future__ import annotations

from collections.abc import Mapping

from autotune.fusion.block_sparsity import SparseProduct, sparse_product
from autotune.fusion.nest import Nest, Stage
from autotune.lowering.tiles import Segment, axis_origin, axis_size
from autotune.operators.block_sparsity import Piece
from autotune.schedule.schedule import NestSchedule


class NonzeroPieces:
    """Nonzero pieces of a nest's products under one schedule; products that skip nothing are absent."""

    def __init__(self, nest: Nest, schedule: NestSchedule) -> None:
        self._nest, self._schedule = nest, schedule
        self._skipped = {
            stage.contraction: found
            for stage in nest.stages
            if stage.contraction is not None and (found := self._left_out(stage)) is not None
        }
        self.unrolled = frozenset(self._unrolled())

    def pieces(self, contraction: int, segments: Mapping[int, Segment]) -> tuple[Piece, ...] | None:
        """Return the pieces of a product's reduction for the current tile, or None for all of it."""
        skipped = self._skipped.get(contraction)
        if skipped is None:
            return None
        columns = axis_origin(skipped.axis, segments).first, axis_size(skipped.axis, segments)
        k_tile = self._schedule.k_tile[contraction]
        return skipped.blocks.pieces(columns, k_tile, skipped.k_extent)

    def _left_out(self, stage: Stage) -> SparseProduct | None:
        found = sparse_product(self._nest, stage)
        if found is None or stage.contraction is None:
            return None
        n_tile = found.axis.size(self._schedule.tile)
        k_tile = self._schedule.k_tile[stage.contraction]
        return found if found.skips(n_tile, k_tile) else None

    def _unrolled(self) -> set[int]:
        """Return the root dimensions whose full tiles need different pieces."""
        found: set[int] = set()
        for contraction, skipped in self._skipped.items():
            dim = skipped.axis.dim
            if dim is None:
                continue
            size = self._schedule.tile[dim]
            starts = range(0, self._nest.root_shape[dim] - size + 1, size)
            tiles = ({dim: Segment(start, size, 1, None)} for start in starts)
            if len({self.pieces(contraction, tile) for tile in tiles}) > 1:
                found.add(dim)
        return found
