"""Emits the loop tree of one nest for one core: the heart of tile-and-fuse."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from autotune.fusion.footprint import Footprint, input_footprint
from autotune.fusion.nest import Buffer, Epilogue, Nest, Side, Stage, k_axis
from autotune.graph.op import Family
from autotune.graph.tensor import TensorType
from autotune.isa.table import When
from autotune.isa.tile import Node, TileWriter, View, row_major
from autotune.kernels import movement, winograd
from autotune.lowering.operators import (
    activation,
    compute,
    compute_chain,
    compute_contraction,
    rearranged,
    winograd_back,
)
from autotune.lowering.tiles import (
    Origin,
    Reservation,
    Segment,
    Tile,
    dense,
    origin_of,
    reserve,
    sizes_of,
    storage,
)
from autotune.schedule.schedule import NestSchedule, split_dims

POINT = 3
"""Axis of the points in the scratch buffers of Winograd's convolution."""


class _Level(NamedTuple):
    """What is emitted at one depth of the loops: stages, each with the loads of that depth that it
    needs, then all loads of that depth."""

    stages: list[tuple[Stage, list[int]]]
    loads: list[int]


class NestEmitter:
    """Walks the split dimensions outer to inner and emits, at each level, the loads and stages
    whose footprints depend on no deeper one. Full tiles become a hardware loop, the remainder of a
    dimension is peeled, so every instruction's sizes are constants."""

    def __init__(
        self,
        nest: Nest,
        schedule: NestSchedule,
        types: Mapping[str, TensorType],
        tensor_index: Mapping[str, int],
        core: int,
    ) -> None:
        self.nest = nest
        self.schedule = schedule
        self.types = types
        self.tensor_index = tensor_index
        self.core = core
        self.split = split_dims(nest, schedule)
        self.places, self.elements = reserve(nest, schedule)
        self.segments: dict[int, Segment] = {
            d: Segment(0, n, 1, None) for d, n in enumerate(nest.root_shape)
        }
        self.tiles: dict[str, Tile] = {}
        self.loaded: dict[int, Tile] = {}
        self.dims = [buffer.dims for buffer in nest.buffers]
        self.load_level = {i: self._depth(nest.buffers[i].footprint) for i in nest.loads}
        self.plan = self._planned()

    def emit(self) -> tuple[Node, ...]:
        """The nest's nodes on this core; empty when its share is empty."""
        if not self.split and self.core > 0:
            return ()
        writer = TileWriter()
        if self.split and not self._segments_of(self.split[0], outermost=True):
            return ()
        self._level(writer, -1)
        return tuple(writer.nodes)

    def _depth(self, footprint: Footprint) -> int:
        """Position in the loop order of the deepest dimension a footprint depends on, or −1."""
        dims = {axis.dim for axis in footprint}
        return max((p for p, d in enumerate(self.split) if d in dims), default=-1)

    def _planned(self) -> list[_Level]:
        """What is emitted outside of all loops, and at every depth of them."""
        plan = [_Level([], []) for _ in range(len(self.split) + 1)]
        for stage in self.nest.stages:
            level = self._depth(stage.footprint)
            whole = [i for i in stage.loads if not self._in_pieces(i)]
            first = [i for i in whole if self.load_level[i] == level]
            plan[level + 1].stages.append((stage, first))
            for i in whole:
                plan[self.load_level[i] + 1].loads.append(i)
        return plan

    def _level(self, writer: TileWriter, position: int) -> None:
        here = self.plan[position + 1]
        for stage, loads in here.stages:
            self._loads(writer, loads)
            self._stage(writer, stage)
        self._loads(writer, here.loads)
        if position + 1 == len(self.split):
            return
        dim = self.split[position + 1]
        for segment in self._segments_of(dim, outermost=position == -1):
            self._segment(writer, position + 1, dim, segment)

    def _segments_of(self, dim: int, outermost: bool) -> list[Segment]:
        extent, size = self.nest.root_shape[dim], self.schedule.tile[dim]
        trips, rest = divmod(extent, size)
        first, last, cores = 0, trips, self.schedule.cores
        if outermost and cores > 1:
            units = trips + (rest > 0)
            first, last = self.core * units // cores, (self.core + 1) * units // cores
            rest = rest if last == units else 0
            last = min(last, trips)
        elif self.core > 0 and outermost:
            return []
        found = [Segment(first * size, size, last - first, None)] if last > first else []
        return [*found, Segment(trips * size, rest, 1, None)] if rest else found

    def _segment(self, writer: TileWriter, position: int, dim: int, segment: Segment) -> None:
        outer = self.segments[dim], dict(self.tiles), dict(self.loaded)
        if segment.trips > 1:
            inner = writer.inner()
            self.segments[dim] = Segment(segment.start, segment.size, segment.trips, writer.depth)
            self._level(inner, position)
            writer.close(inner, segment.trips)
        else:
            self.segments[dim] = segment
            self._level(writer, position)
        self.segments[dim], self.tiles, self.loaded = outer

    def _turn(self, index: int) -> int | None:
        """The innermost hardware loop that refills a buffer."""
        levels = [self.segments[d].level for d in self.dims[index]]
        return max((level for level in levels if level is not None), default=None)

    def _place(self, index: int, turn: int | None, sizes: tuple[int, ...]) -> View:
        place: Reservation = self.places[index]
        return dense(storage(index, place, turn), sizes)

    def _loads(self, writer: TileWriter, wanted: Sequence[int]) -> None:
        """Fill whole-footprint operands."""
        for index in wanted:
            if index not in self.loaded:
                self._load(writer, index, self._turn(index), None)

    def _in_pieces(self, index: int) -> bool:
        """Whether a loaded operand comes piece by piece along its reduction axis."""
        chunk = self.nest.buffers[index].chunk
        if chunk is None:
            return False
        return self.schedule.k_tile[chunk[0]] < self.nest.contractions[chunk[0]].k_extent

    def _load(
        self, writer: TileWriter, index: int, turn: int | None, piece: tuple[Origin, int] | None
    ) -> Tile:
        """Emit one DMA load; ``piece`` overrides origin and extent of the chunked axis."""
        buffer = self.nest.buffers[index]
        sizes = list(sizes_of(buffer.footprint, self.segments))
        origin = list(origin_of(buffer.footprint, self.segments))
        if piece is not None and buffer.chunk is not None:
            origin[buffer.chunk[1]], sizes[buffer.chunk[1]] = piece
        tile = Tile(self._place(index, turn, tuple(sizes)), tuple(origin))
        view = tile.view if sizes else dense(tile.view.storage, (1,))
        self._fill(writer, buffer, view, coordinates(origin))
        self.loaded[index] = tile
        return tile

    def _fill(
        self, writer: TileWriter, buffer: Buffer, view: View, at: list[tuple[int, int, int]]
    ) -> None:
        """From the coordinates ``at`` of the buffer's footprint on."""
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
        """The part of input ``index`` that the stage needs for the current tile."""
        op = stage.op
        buffer = stage.operands[index]
        need = input_footprint(op, index, stage.footprint, self.types)
        if buffer is not None and self.nest.buffers[buffer].sample:
            need = stage.footprint
        tile = self.tiles[op.inputs[index]] if buffer is None else self.loaded[buffer]
        return tile.part(origin_of(need, self.segments), sizes_of(need, self.segments))

    def _stage(self, writer: TileWriter, stage: Stage) -> None:
        if stage.view:
            self.tiles[stage.output] = self._renamed(stage)
        else:
            self._computed(writer, stage)
        if stage.mask is not None:
            tile = self.tiles[stage.output]
            movement.mask(
                writer,
                tile.view,
                coordinates(tile.origin),
                self.types[stage.output].shape,
                stage.mask,
            )
        if stage.output in self.nest.stores:
            tile = self.tiles[stage.output]
            view = tile.view if tile.view.rank else dense(tile.view.storage, (1,))
            movement.store(writer, view, self.tensor_index[stage.output], coordinates(tile.origin))

    def _renamed(self, stage: Stage) -> Tile:
        source = self.operand(stage, 0)
        origin = origin_of(stage.footprint, self.segments)
        sizes = sizes_of(stage.footprint, self.segments)
        if stage.op.family is not Family.RESHAPE:
            return Tile(rearranged(stage.op, source, sizes), origin)
        assert source.contiguous, f"{stage.op.name}: a reshape's view must be dense"
        view = View(source.storage, source.offset, source.terms, sizes, row_major(sizes))
        return Tile(view, origin)

    def _computed(self, writer: TileWriter, stage: Stage) -> None:
        sizes = sizes_of(stage.footprint, self.segments)
        turn = self._turn(stage.result)
        result = self._result(stage.result, turn, sizes)
        self.tiles[stage.output] = Tile(result, origin_of(stage.footprint, self.segments))
        if stage.op.family is Family.WINOGRAD:
            self._winograd(writer, stage, result)
            return
        if stage.op.family is Family.GATHER:
            at = coordinates(origin_of(stage.footprint, self.segments))
            table = self.tensor_index[stage.op.inputs[0]]
            movement.lookup(writer, result, self.operand(stage, 1), table, at)
            return
        if stage.contraction is not None:
            self._contract(writer, stage, stage.contraction, result)
            return
        operands = [self.operand(stage, i) for i in range(len(stage.op.inputs))]
        if stage.links:
            links = [
                (link.op, None if link.side is None else (link.side.tensor, self._side(link.side)))
                for link in stage.links
            ]
            compute_chain(writer, stage.op, links, result, operands)
            return
        temps = [self._temp(index) for index in stage.temps]
        compute(writer, stage.op, self.types, result, operands, temps)

    def _result(self, index: int, turn: int | None, sizes: tuple[int, ...]) -> View:
        """The first ``sizes`` elements of a buffer that may be wider than what is made in it."""
        held = sizes_of(self.nest.buffers[index].footprint, self.segments)
        if len(held) != len(sizes) or held == sizes:
            return self._place(index, turn, sizes)
        wide = self._place(index, turn, held)
        return View(wide.storage, wide.offset, wide.terms, sizes, wide.strides)

    def _temp(self, index: int) -> Tile:
        buffer = self.nest.buffers[index]
        sizes = sizes_of(buffer.footprint, self.segments)
        return Tile(
            self._place(index, self._turn(index), sizes),
            origin_of(buffer.footprint, self.segments),
        )

    def _winograd(self, writer: TileWriter, stage: Stage, result: View) -> None:
        """Tiles there, the products, tiles back with the epilogue."""
        assert stage.contraction is not None
        there, products = (self._temp(index).view for index in stage.temps)
        winograd.there(writer, there, self.operand(stage, 0))
        self._contract(writer, stage, stage.contraction, result)
        winograd_back(writer, result, products, self._epilogue(stage, When.ALWAYS))

    def _points(self, writer: TileWriter, stage: Stage, piece: tuple[Origin, int]) -> None:
        """The products of some points of Winograd's convolution."""
        origin, size = piece
        buffer = stage.operands[1]
        assert buffer is not None
        if self._in_pieces(buffer):
            turn = origin.terms[0][0] if origin.terms else self._turn(buffer)
            weight = self._load(writer, buffer, turn, piece).view
        else:
            weight = self.operand(stage, 1).slice(0, origin.first, size)
        parts = []
        for index in stage.temps:
            view = self._temp(index).view
            terms = tuple((level, step * view.strides[POINT]) for level, step in origin.terms)
            parts.append(view.slice(POINT, origin.first, size).moved(0, terms))
        winograd.products(writer, parts[1], weight, parts[0])

    def _contract(self, writer: TileWriter, stage: Stage, number: int, result: View) -> None:
        """Accumulate over pieces of the reduction: full pieces in a loop, the rest peeled."""
        extent, piece = self.nest.contractions[number].k_extent, self.schedule.k_tile[number]
        trips, rest = divmod(extent, piece)
        if trips > 1:
            inner = writer.inner()
            level = writer.depth
            by_level = {"accumulate": int(When.BY_LEVEL), "k_level": level}
            self._piece(
                inner,
                stage,
                number,
                result,
                (Origin(0, ((level, piece),)), piece),
                by_level,
                When.NEVER if rest else When.BY_LEVEL,
            )
            writer.close(inner, trips)
        else:
            self._piece(
                writer,
                stage,
                number,
                result,
                (Origin(0, ()), piece),
                {"accumulate": int(When.NEVER)},
                When.NEVER if rest else When.ALWAYS,
            )
        if rest:
            self._piece(
                writer,
                stage,
                number,
                result,
                (Origin(trips * piece, ()), rest),
                {"accumulate": int(When.ALWAYS)},
                When.ALWAYS,
            )

    def _piece(
        self,
        writer: TileWriter,
        stage: Stage,
        number: int,
        result: View,
        piece: tuple[Origin, int],
        reduction: dict[str, int],
        when: When,
    ) -> None:
        if stage.op.family is Family.WINOGRAD:
            self._points(writer, stage, piece)
            return
        level = piece[0].terms[0][0] if piece[0].terms else None
        views = []
        for index in range(2):
            buffer = stage.operands[index]
            if buffer is not None and self._in_pieces(buffer):
                turn = level if level is not None else self._turn(buffer)
                views.append(self._load(writer, buffer, turn, piece).view)
            else:
                views.append(self._k_part(stage, index, piece))
        compute_contraction(
            writer, stage.op, self.types, result, views, reduction, self._epilogue(stage, when)
        )

    def _k_part(self, stage: Stage, index: int, piece: tuple[Origin, int]) -> View:
        """The piece of a resident operand along its reduction axis."""
        view = self.operand(stage, index)
        axis = k_axis(stage.op, index, self.types[stage.op.inputs[index]].shape)
        assert axis is not None
        origin, size = piece
        if stage.op.family is Family.CONV and stage.op.int("group") > 1:
            return view
        terms = tuple((level, step * view.strides[axis]) for level, step in origin.terms)
        return view.slice(axis, origin.first, size).moved(0, terms)

    def _epilogue(self, stage: Stage, when: When) -> dict[str, object]:
        bias, residual, fn = stage.epilogue.bias, stage.epilogue.residual, stage.epilogue.fn
        if when is When.NEVER or stage.epilogue == Epilogue():
            return {}
        fields: dict[str, object] = {"epilogue": int(when)}
        if bias is not None:
            fields["view"] = self.loaded[bias].view
            fields["bias_axis"] = 2 if stage.op.family is Family.MATMUL else 1
        if residual is not None:
            fields["residual"] = self._side(residual)
        if fn is not None:
            fields.update(activation(fn))
        return fields

    def _side(self, side: Side) -> View:
        """The tile that an operator merged into a stage reads."""
        tile = self.tiles[side.tensor] if side.buffer is None else self.loaded[side.buffer]
        need = side.footprint
        return tile.part(origin_of(need, self.segments), sizes_of(need, self.segments))


def coordinates(origin: tuple[Origin, ...] | list[Origin]) -> list[tuple[int, int, int]]:
    """Per dimension: first coordinate, loop level, step."""
    return [(o.first, *(o.terms[0] if o.terms else (0, 0))) for o in origin] or [(0, 0, 0)]
