"""What zero blocks of weights leave of a nest: for every product the pieces of its reduction that the
current tile needs, and which loops cannot be hardware loops, as their trips need different ones."""

from __future__ import annotations

from collections.abc import Mapping

from autotune.fusion.block_sparsity import Skipping, skipping
from autotune.fusion.nest import Nest, Stage
from autotune.lowering.tiles import Segment, axis_origin, axis_size
from autotune.operators.block_sparsity import Piece
from autotune.schedule.schedule import NestSchedule


class Kept:
    """Of one nest under one schedule. Products that leave nothing out are not in it."""

    def __init__(self, nest: Nest, schedule: NestSchedule) -> None:
        self._nest, self._schedule = nest, schedule
        self._skipped = {
            stage.contraction: found
            for stage in nest.stages
            if stage.contraction is not None and (found := self._left_out(stage)) is not None
        }
        self.unrolled = frozenset(self._unrolled())

    def pieces(self, contraction: int, segments: Mapping[int, Segment]) -> tuple[Piece, ...] | None:
        """Pieces of a product's reduction for the current tile; None: all of it."""
        skipped = self._skipped.get(contraction)
        if skipped is None:
            return None
        columns = axis_origin(skipped.axis, segments).first, axis_size(skipped.axis, segments)
        k_tile = self._schedule.k_tile[contraction]
        return skipped.blocks.pieces(columns, k_tile, skipped.k_extent)

    def _left_out(self, stage: Stage) -> Skipping | None:
        found = skipping(self._nest, stage)
        if found is None or stage.contraction is None:
            return None
        n_tile = found.axis.size(self._schedule.tile)
        k_tile = self._schedule.k_tile[stage.contraction]
        return found if found.leaves_out(n_tile, k_tile) else None

    def _unrolled(self) -> set[int]:
        """Root dimensions whose full tiles do not all need the same pieces."""
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
