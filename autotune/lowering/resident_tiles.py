"""Tiles in the scratchpad while a nest is emitted: those loaded and made so far, and their
parts."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from autotune.fusion.nest import Buffer, Nest, SideOperand, Stage
from autotune.fusion.patches import Patches
from autotune.isa.tile import TileWriter, View
from autotune.kernels.emit import movement
from autotune.lowering.block_sparsity import NonzeroPieces
from autotune.lowering.tiles import (
    Origin,
    Segment,
    Tile,
    dense,
    origin_of,
    reserve,
    second_slot,
    sizes_of,
    storage,
)
from autotune.operators.axes import inverse
from autotune.operators.axis_map import Footprint
from autotune.operators.tensor import TensorType
from autotune.schedule.fit import split_dims
from autotune.schedule.schedule import NestSchedule

Piece = tuple[Origin, int]
"""Origin and extent of a piece of a reduction."""


class ResidentTiles:
    """Resident tiles of one nest on one core.

    ``segments`` are the tiles of every root dimension that the emitted code covers. ``tiles`` holds
    the tensors made for them, ``loaded`` the filled buffers.
    """

    def __init__(
        self,
        nest: Nest,
        schedule: NestSchedule,
        types: Mapping[str, TensorType],
        tensor_index: Mapping[str, int],
    ) -> None:
        self.nest = nest
        self.schedule = schedule
        self.types = types
        self.tensor_index = tensor_index
        self.places, self.elements = reserve(nest, schedule)
        self.dims = nest.dims
        self.segments: dict[int, Segment] = {
            d: Segment(0, n, 1, None) for d, n in enumerate(nest.root_shape)
        }
        self.tiles: dict[str, Tile] = {}
        self.loaded: dict[int, Tile] = {}
        self.nonzero = NonzeroPieces(nest, schedule)
        self._second = self._alternating()

    def origin(self, footprint: Footprint) -> tuple[Origin, ...]:
        """Return the origin of a footprint for the current tiles."""
        return origin_of(footprint, self.segments)

    def sizes(self, footprint: Footprint) -> tuple[int, ...]:
        """Return the extents of a footprint for the current tiles."""
        return sizes_of(footprint, self.segments)

    def turn(self, index: int) -> int | None:
        """Return the innermost hardware loop that refills a buffer."""
        levels = [self.segments[d].level for d in self.dims[index]]
        return max((level for level in levels if level is not None), default=None)

    def load_whole(self, writer: TileWriter, indices: Sequence[int]) -> None:
        """Fill those whole-footprint operands that are not resident."""
        for index in indices:
            if index not in self.loaded:
                self._load(writer, index, self.turn(index), None)

    def in_pieces(self, index: int) -> bool:
        """Return True if a loaded operand comes piece by piece along its reduction axis."""
        chunk = self.nest.buffers[index].chunk
        if chunk is None:
            return False
        return self.schedule.k_tile[chunk[0]] < self.nest.contractions[chunk[0]].k_extent

    def load_piece(self, writer: TileWriter, index: int, piece: Piece) -> View:
        """Fill an operand with a piece of its reduction axis."""
        terms = piece[0].terms
        if index in self._second and not terms:  # slots by piece: none by the trip of a loop around
            self._second[index] = not self._second[index]
            return self._load(writer, index, None, piece).view
        turn = terms[0][0] if terms else self.turn(index)
        return self._load(writer, index, turn, piece).view

    def _load(self, writer: TileWriter, index: int, turn: int | None, piece: Piece | None) -> Tile:
        """Emit one DMA load; ``piece`` overrides origin and extent of the chunked axis."""
        buffer, patches = self.nest.buffers[index], self.patches(index)
        sizes = list(self.sizes(buffer.footprint))
        origin = list(self.origin(buffer.footprint))
        if piece is not None and buffer.chunk is not None:
            origin[buffer.chunk[1]], sizes[buffer.chunk[1]] = piece
        if patches is not None:
            tile = self._gather(writer, index, turn, sizes[patches.axes.channel], origin)
            self.loaded[index] = tile
            return tile
        tile = Tile(self._place(index, turn, tuple(sizes)), tuple(origin))
        self.loaded[index] = tile
        if piece is None and buffer.chunk is not None and self._is_weight(index):
            nonzero = self.nonzero.pieces(buffer.chunk[0], self.segments)
            if nonzero is not None:
                self._fill_nonzero(writer, buffer, tile, nonzero)
                return tile
        view = tile.view if sizes else dense(tile.view.storage, (1,))
        self._fill(writer, buffer, view, coordinates(origin))
        return tile

    def _fill_nonzero(
        self, writer: TileWriter, buffer: Buffer, tile: Tile, nonzero: Sequence[tuple[int, int]]
    ) -> None:
        """Only the parts of a weight that its product reads."""
        assert buffer.chunk is not None
        axis = buffer.chunk[1]
        for first, size in nonzero:
            origin = list(tile.origin)
            origin[axis] = Origin(first, ())
            self._fill(writer, buffer, tile.view.slice(axis, first, size), coordinates(origin))

    def patches(self, index: int) -> Patches | None:
        """Return the patches that a buffer holds instead of a rectangle, if this schedule has
        them."""
        return self.nest.buffers[index].patches if self.schedule.im2col else None

    def _gather(
        self, writer: TileWriter, index: int, turn: int | None, channels: int, origin: list[Origin]
    ) -> Tile:
        """Emit the DMA that makes patches of the image from ``origin`` on; their view has the
        dimensions of ``Patches.sizes``."""
        buffer, patches = self.nest.buffers[index], self.patches(index)
        assert patches is not None
        sizes = patches.sizes(self.sizes(patches.pixels), channels)
        stored = self._place(index, turn, tuple([sizes[d] for d in patches.order]))
        view = stored.permute(inverse(patches.order))
        tensor = self.tensor_index[buffer.tensor]
        movement.patches(writer, view, tensor, coordinates(origin), patches, buffer.pad)
        return Tile(view, tuple(origin))

    def _fill(
        self, writer: TileWriter, buffer: Buffer, view: View, at: list[tuple[int, int, int]]
    ) -> None:
        """Fill a buffer from the coordinates ``at`` of its footprint on."""
        tensor = self.tensor_index[buffer.tensor]
        if not buffer.sample:
            movement.load(writer, view, tensor, at, buffer.pad)
            return
        hops = [hop for _, hop in buffer.sample]
        places = [
            (start + hop * first, level, hop * step)
            for (start, hop), (first, level, step) in zip(buffer.sample, at, strict=True)
        ]
        movement.sample(writer, view, tensor, places, hops, buffer.pad)

    def operand(self, stage: Stage, index: int) -> View:
        """Return the part of input ``index`` that the stage needs for the current tile."""
        buffer, need = stage.operands[index], self.nest.need(stage, index)
        tile = self.tiles[stage.op.inputs[index]] if buffer is None else self.loaded[buffer]
        return tile.part(self.origin(need), self.sizes(need))

    def factor(self, stage: Stage, index: int) -> View:
        """Return the part of a factor that a product needs: for integers in their own format."""
        narrow = stage.narrowed.get(index)
        return self.operand(stage, index) if narrow is None else self.temp(narrow).view

    def side(self, side: SideOperand) -> View:
        """Return the tile that a merged operator reads."""
        tile = self.tiles[side.tensor] if side.buffer is None else self.loaded[side.buffer]
        return tile.part(self.origin(side.footprint), self.sizes(side.footprint))

    def temp(self, index: int) -> Tile:
        """Return a scratch buffer."""
        footprint = self.nest.buffers[index].footprint
        view = self._place(index, self.turn(index), self.sizes(footprint))
        return Tile(view, self.origin(footprint))

    def result(self, stage: Stage) -> View:
        """Return the view that a stage makes its output in.

        It covers the first elements of a buffer that may be wider, or all of one that was loaded in
        another shape.
        """
        index, sizes = stage.result, self.sizes(stage.footprint)
        turn = self.turn(index)
        extents = self.sizes(self.nest.buffers[index].footprint)
        if len(extents) != len(sizes) or math.prod(extents) == math.prod(sizes):
            return self._place(index, turn, sizes)
        wide = self._place(index, turn, extents)
        return View(wide.storage, wide.offset, wide.terms, sizes, wide.strides)

    def alternate(self, dim: int) -> None:
        """Switch to the other slots for the next tile along ``dim``, whose loop is unrolled."""
        for index in self._second:
            if dim in self.dims[index] and not self._in_nonzero_pieces(index):
                self._second[index] = not self._second[index]

    def _alternating(self) -> dict[int, bool]:
        """Return the double buffers that no hardware loop refills, by the use of their second slot.

        They hold weights whose pieces are unrolled, or depend on unrolled loops alone.
        """
        split = frozenset(split_dims(self.nest, self.schedule))
        return {
            index: False
            for index, place in enumerate(self.places)
            if place.double
            and (
                self._in_nonzero_pieces(index)
                or (
                    not self.in_pieces(index)
                    and self.dims[index] & split
                    and self.dims[index] & split <= self.nonzero.unrolled
                )
            )
        }

    def _is_weight(self, index: int) -> bool:
        return any(stage.operands[1:2] == (index,) for stage in self.nest.stages)

    def _in_nonzero_pieces(self, index: int) -> bool:
        chunk = self.nest.buffers[index].chunk
        if chunk is None or not self.in_pieces(index):
            return False
        return self.nonzero.pieces(chunk[0], self.segments) is not None

    def _place(self, index: int, turn: int | None, sizes: tuple[int, ...]) -> View:
        if self._second.get(index, False):
            return dense(second_slot(index, self.places[index]), sizes)
        return dense(storage(index, self.places[index], turn), sizes)


def coordinates(origin: tuple[Origin, ...] | list[Origin]) -> list[tuple[int, int, int]]:
    """Return first coordinate, loop level and step per dimension."""
    return [(o.first, *(o.terms[0] if o.terms else (0, 0))) for o in origin] or [(0, 0, 0)]
