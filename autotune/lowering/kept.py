"""What zero blocks of weights leave of a nest: for every product the pieces of its reduction that the
current tile needs, and which loops cannot be hardware loops, as their trips need different ones."""

from __future__ import annotations

from collections.abc import Mapping

from autotune.fusion.axis_map import AxisMap
from autotune.fusion.nest import Nest, Stage
from autotune.graph.zero_blocks import Piece, ZeroBlocks, made_axis, zero_blocks
from autotune.lowering.tiles import Segment, axis_origin, axis_size
from autotune.schedule.schedule import NestSchedule


class Kept:
    """Of one nest under one schedule. Products that leave nothing out are not in it."""

    def __init__(self, nest: Nest, schedule: NestSchedule) -> None:
        self._nest, self._schedule = nest, schedule
        self._blocks = {
            stage.contraction: found
            for stage in nest.stages
            if stage.contraction is not None and (found := self._skipped(stage)) is not None
        }
        self.unrolled = frozenset(self._unrolled())

    def pieces(self, contraction: int, segments: Mapping[int, Segment]) -> tuple[Piece, ...] | None:
        """Pieces of a product's reduction for the current tile; None: all of it."""
        blocks = self._blocks.get(contraction)
        if blocks is None:
            return None
        axis = self._axis(contraction)
        columns = axis_origin(axis, segments).first, axis_size(axis, segments)
        return blocks.pieces(columns, *self._reduction(contraction))

    def _stage(self, contraction: int) -> Stage:
        return next(stage for stage in self._nest.stages if stage.contraction == contraction)

    def _axis(self, contraction: int) -> AxisMap:
        stage = self._stage(contraction)
        return stage.footprint[made_axis(stage.op, len(stage.footprint))]

    def _reduction(self, contraction: int) -> Piece:
        extent = self._nest.contractions[contraction].k_extent
        return self._schedule.k_tile[contraction], extent

    def _skipped(self, stage: Stage) -> ZeroBlocks | None:
        blocks = zero_blocks(stage.op)
        if blocks is None or stage.contraction is None:
            return None
        axis = stage.footprint[made_axis(stage.op, len(stage.footprint))]
        columns = self._nest.types[stage.output].shape[made_axis(stage.op, len(stage.footprint))]
        n = axis.size(self._schedule.tile), columns
        return blocks if blocks.skips(n, *self._reduction(stage.contraction)) else None

    def _unrolled(self) -> set[int]:
        """Root dimensions whose full tiles do not all need the same pieces."""
        found: set[int] = set()
        for contraction in self._blocks:
            dim = self._axis(contraction).dim
            if dim is None:
                continue
            size = self._schedule.tile[dim]
            starts = range(0, self._nest.root_shape[dim] - size + 1, size)
            tiles = ({dim: Segment(start, size, 1, None)} for start in starts)
            if len({self.pieces(contraction, tile) for tile in tiles}) > 1:
                found.add(dim)
        return found
