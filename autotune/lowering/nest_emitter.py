"""Emits the loop tree of one nest for one core: tile-and-fuse."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from autotune.fusion.nest import BY_FACTORS, Nest, Stage
from autotune.isa.tile import Node, TileWriter, View, row_major
from autotune.kernels.emit import movement
from autotune.lowering import online_softmax
from autotune.lowering.contractions import contract, prepare
from autotune.lowering.resident_tiles import ResidentTiles, coordinates
from autotune.lowering.tiles import Segment, Tile, dense
from autotune.lowering.vector_operators import compute, compute_chain, rearranged
from autotune.operators.axis_map import Footprint
from autotune.operators.op import Family
from autotune.operators.tensor import TensorType
from autotune.schedule.fit import split_dims
from autotune.schedule.schedule import NestSchedule


class _Level(NamedTuple):
    """Code emitted at one loop depth: stages with the loads each triggers, all loads, set-up of
    deeper stages (``ahead``), and stages after the reduction loop (``behind``)."""

    stages: list[tuple[Stage, list[int]]]
    loads: list[int]
    ahead: list[Stage]
    behind: list[Stage]


class NestEmitter:
    """Emits a nest by walking its split dimensions, outer to inner.

    Each level has the loads and stages whose footprints depend on no deeper one. Full tiles become
    a hardware loop and a dimension's remainder is peeled, so every instruction's sizes are
    constants.
    """

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
        self.core = core
        self.resident = ResidentTiles(nest, schedule, types, tensor_index)
        self.split = split_dims(nest, schedule)
        self.reduces = nest.reduced in self.split
        self.load_level = {i: self._depth(nest.buffers[i].footprint) for i in nest.loads}
        self.plan = self._plan_levels()

    @property
    def elements(self) -> int:
        """Scratchpad elements that the nest takes."""
        return self.resident.elements

    def emit(self) -> tuple[Node, ...]:
        """Return the nest's nodes on this core; empty if the core has no share."""
        if not self.split and self.core > 0:
            return ()
        writer = TileWriter()
        if self.split and not self._segments_of(self.split[0], outermost=True):
            return ()
        self._level(writer, -1)
        return tuple(writer.nodes)

    def _depth(self, footprint: Footprint) -> int:
        """Return the deepest loop position that a footprint depends on, or −1."""
        dims = {axis.dim for axis in footprint}
        return max((p for p, d in enumerate(self.split) if d in dims), default=-1)

    def _plan_levels(self) -> list[_Level]:
        """Return the code outside of all loops, and at every depth of them."""
        plan = [_Level([], [], [], []) for _ in range(len(self.split) + 1)]
        for stage in self.nest.stages:
            level = len(self.split) - 1 if self._sums(stage) else self._depth(stage.footprint)
            whole = [i for i in stage.loads if not self.resident.in_pieces(i)]
            first = [i for i in whole if self.load_level[i] == level]
            if self.reduces and stage.output in self.nest.behind:
                plan[len(self.split) - 1].behind.append(stage)
            if self._sums(stage) or not self.reduces or stage.output not in self.nest.behind:
                plan[level + 1].stages.append((stage, first))
            for i in whole:
                plan[self.load_level[i] + 1].loads.append(i)
            if self._prepared_at(stage) < level:
                plan[self._prepared_at(stage) + 1].ahead.append(stage)
        return plan

    def _prepared_at(self, stage: Stage) -> int:
        """Return the depth at which all inputs of a contraction's preparation are resident."""
        if stage.narrowed:
            return max(self._depth(self.nest.buffers[i].footprint) for i in stage.temps)
        if stage.op.family not in BY_FACTORS:
            return self._depth(stage.footprint)
        return self._depth(self.nest.buffers[stage.temps[0]].footprint)

    def _level(self, writer: TileWriter, position: int) -> None:
        here = self.plan[position + 1]
        for stage, loads in here.stages:
            self.resident.load_whole(writer, loads)
            self._stage(writer, stage)
        self.resident.load_whole(writer, here.loads)
        for stage in here.ahead:
            prepare(writer, self.resident, stage)
        if position + 1 == len(self.split):
            return
        dim = self.split[position + 1]
        segments = self._segments_of(dim, outermost=position == -1)
        for stage in here.behind:
            if stage.reduced and segments[0].trips > 1:
                online_softmax.begin(writer, self.resident.result(stage))
        for segment in segments:
            self._segment(writer, position + 1, dim, segment)
        for stage in here.behind:
            if stage.reduced:
                self._finish_online(writer, stage)
            else:
                self._stage(writer, stage)

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
        segments = [Segment(first * size, size, last - first, None)] if last > first else []
        if dim in self.resident.nonzero.unrolled:
            segments = [Segment(tile * size, size, 1, None) for tile in range(first, last)]
        return [*segments, Segment(trips * size, rest, 1, None)] if rest else segments

    def _segment(self, writer: TileWriter, position: int, dim: int, segment: Segment) -> None:
        here = self.resident
        outer = here.segments[dim], dict(here.tiles), dict(here.loaded)
        if segment.trips > 1:
            inner = writer.inner()
            here.segments[dim] = Segment(segment.start, segment.size, segment.trips, writer.depth)
            self._level(inner, position)
            writer.close(inner, segment.trips)
        else:
            here.segments[dim] = segment
            self._level(writer, position)
            if dim in here.nonzero.unrolled:
                here.alternate(dim)
        here.segments[dim], here.tiles, here.loaded = outer

    def _sums(self, stage: Stage) -> bool:
        """Return True if a stage adds to its result in every trip of the nest's reduction loop."""
        return self.reduces and stage.reduced

    def _finish_online(self, writer: TileWriter, stage: Stage) -> None:
        """Emit the end of an online softmax's product, whose sums are complete."""
        tile = Tile(self.resident.result(stage), self.resident.origin(stage.footprint))
        self.resident.tiles[stage.output] = tile
        online_softmax.finish(writer, tile.view, self._state(stage.op.inputs[0]))
        self._leave(writer, stage, tile)

    def _state(self, weights: str) -> View:
        """Return maximum, sum and factor of the rows of an online softmax."""
        softmax = next(stage for stage in self.nest.stages if stage.output == weights)
        return self.resident.temp(softmax.temps[0]).view

    def _stage(self, writer: TileWriter, stage: Stage) -> None:
        if stage.view:
            tile = self._rename(stage)
        else:
            tile = Tile(self.resident.result(stage), self.resident.origin(stage.footprint))
        self.resident.tiles[stage.output] = tile
        if not stage.view:
            self._compute(writer, stage, tile.view)
        if not self._sums(stage):
            self._leave(writer, stage, tile)

    def _leave(self, writer: TileWriter, stage: Stage, tile: Tile) -> None:
        """Emit the end of a complete tile: padding around it, and its store to DRAM."""
        at = coordinates(tile.origin)
        if stage.mask is not None:
            movement.mask(writer, tile.view, at, self.types[stage.output].shape, stage.mask)
        if stage.output in self.nest.stores:
            view = tile.view if tile.view.rank else dense(tile.view.storage, (1,))
            movement.store(writer, view, self.resident.tensor_index[stage.output], at)

    def _rename(self, stage: Stage) -> Tile:
        source = self.resident.operand(stage, 0)
        origin = self.resident.origin(stage.footprint)
        sizes = self.resident.sizes(stage.footprint)
        if stage.op.family is not Family.RESHAPE:
            return Tile(rearranged(stage.op, source, sizes), origin)
        assert source.contiguous, f"{stage.op.name}: a reshape's view must be dense"
        view = View(source.storage, source.offset, source.terms, sizes, row_major(sizes))
        return Tile(view, origin)

    def _compute(self, writer: TileWriter, stage: Stage, result: View) -> None:
        here = self.resident
        if self.reduces and self.nest.reduced is not None:
            accumulation = online_softmax.Accumulation.of(here.segments[self.nest.reduced])
            if stage.reduced:
                state = self._state(stage.op.inputs[0])
                online_softmax.add(writer, here, stage, result, state, accumulation)
                return
            if any(x.reduced and x.op.inputs[0] == stage.output for x in self.nest.stages):
                online_softmax.weigh(
                    writer, result, here.operand(stage, 0), self._state(stage.output), accumulation
                )
                return
        if stage.contraction is not None:
            if self._prepared_at(stage) == self._depth(stage.footprint):
                prepare(writer, here, stage)
            contract(writer, here, stage, result)
            return
        if stage.op.family is Family.GATHER:
            table = here.tensor_index[stage.op.inputs[0]]
            at = coordinates(here.origin(stage.footprint))
            movement.lookup(writer, result, here.operand(stage, 1), table, at)
            return
        operands = [here.operand(stage, i) for i in range(len(stage.op.inputs))]
        if stage.links:
            links = [
                (link.op, None if link.side is None else (link.side.tensor, here.side(link.side)))
                for link in stage.links
            ]
            compute_chain(writer, stage.op, links, result, operands)
            return
        temps = [here.temp(index) for index in stage.temps]
        compute(writer, stage.op, self.types, result, operands, temps)
