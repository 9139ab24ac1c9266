"""Counts what a nest makes a CPU do, by ``WORK_KINDS``, from its steps; mirrors the native engine's loader.

Operands are read and written in their tensors: a transfer costs nothing unless it pads or samples, or
a view in another order is stored. What is counted is never priced here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from autotune.cost_model.cached.product_work import PARTS, product_work
from autotune.cost_model.cached.tensors import Views, held_bytes, packed_ahead
from autotune.cost_model.cached.transpositions import Transposition
from autotune.cost_model.cached.vector_counts import contiguous, count_vector_work
from autotune.cost_model.cached.work_kinds import (
    Floats,
    Quantity,
    Tally,
    beyond,
)
from autotune.cost_model.core_caches import core_caches
from autotune.cost_model.steps.block_sparsity import nonzero_tiles
from autotune.cost_model.steps.extents import Extent, product
from autotune.cost_model.steps.product_rows import product_rows
from autotune.cost_model.steps.step import Step
from autotune.cost_model.steps.strassen import quarter_of
from autotune.cost_model.steps.tiling import Tiles, Tiling
from autotune.fusion.nest import BY_FACTORS, Buffer, Nest, Stage
from autotune.isa.formats import ELEMENT_BYTES
from autotune.isa.opcodes import Unit
from autotune.operators.op import Family
from autotune.operators.winograd import FORMS
from autotune.schedule.block_sparsity import nonzero_work
from autotune.schedule.table import Ints
from autotune.targets.spec import HardwareSpec

PANEL_SHARE = 0.75
"""Of a cache that the factor in lanes has to itself."""
CROWDED_SHARE = 0.25
"""Of the last cache that a core surely finds its tensors in: others use it too."""


def count_work(tiling: Tiling, steps: list[Step], spec: HardwareSpec) -> Floats:
    """Counts [n, len(WORK_KINDS)] of the busiest core."""
    return _Work(tiling, steps, spec).counted()


class _Work:
    """The walk over the steps of a nest."""

    def __init__(self, tiling: Tiling, steps: list[Step], spec: HardwareSpec) -> None:
        self._tiling, self._steps, self._spec = tiling, steps, spec
        self._nest = tiling.nest
        self._tally = Tally(tiling.n)
        self._views = Views(self._nest)
        self._l1_bytes, self._l2_bytes = core_caches()
        self._busiest = busiest_share(tiling)

    def counted(self) -> Floats:
        tiling = self._tiling
        alone = np.ones(tiling.n)
        self._tally.add(
            alone,
            nest=1.0,
            sync=(tiling.active_cores > 1).astype(np.int64),
            borders=_borders(tiling),
            trips=self._trips(),
        )
        for step in self._steps:
            self._step(step)
        self._traffic()
        return self._tally.counts

    def _share(self, step: Step) -> Floats:
        """Part of a step's work that the busiest core does."""
        return np.where(step.level < 0, 1.0 / self._tiling.active_cores, self._busiest)

    def _trips(self) -> Floats:
        """Bodies of all loops that a core runs."""
        tiling = self._tiling
        bodies, total = np.zeros(tiling.n), np.ones(tiling.n)
        for level in range(tiling.rank):
            here = np.ones(tiling.n)
            for d in range(tiling.rank):
                here = np.where(tiling.position[d] == level, tiling.parts[d], here)
            total = total * here
            bodies = bodies + np.where(here > 1, total, 0.0)
        return bodies * self._busiest

    def _step(self, step: Step) -> None:
        match step.unit:
            case Unit.LOAD:
                self._load(step)
            case Unit.STORE:
                self._store(step)
            case Unit.MATRIX:
                self._product(step)
            case _:
                self._vector(step)

    def _load(self, step: Step) -> None:
        buffer, tiling = self._nest.buffers[step.buffer], self._tiling
        tiles = tiling.tiles(tiling.content(buffer))
        extents = self._extents(buffer, tiles)
        like = np.ones(tiles.count.shape)
        elements = tiles.count * like * product(extents)
        run = contiguous(extents, self._nest.types[buffer.tensor].shape, like)
        looked_up = step.stage.op.family is Family.GATHER and step.buffer == step.stage.result
        copied = like > 0 if buffer.sample or looked_up else self._padded(buffer, tiles)
        self._tally.add(
            self._share(step),
            copies=step.instructions * _part(tiles.count, copied),
            copied=step.touched * _part(elements, copied),
            copied_rows=step.touched * _part(elements, copied / run),
        )

    def _extents(self, buffer: Buffer, tiles: Tiles) -> list[Extent]:
        """Return the extents that one LOAD fills, for each kind of tile [c, n]; of a reduction its resident piece."""
        found = [self._tiling.axis_size(axis, tiles.sizes) for axis in buffer.footprint]
        if buffer.chunk is not None:
            contraction, position = buffer.chunk
            found[position] = tiles.sizes[self._tiling.k_dim(contraction)]
        return found

    def _padded(self, buffer: Buffer, tiles: Tiles) -> npt.NDArray[np.bool_]:
        """Kinds [c, n] of tiles which somewhere reach outside of the tensor, so that a LOAD has to
        fill them up. Whole tiles are one LOAD, rests others."""
        outside = np.zeros(tiles.count.shape, dtype=bool)
        shape = self._nest.types[buffer.tensor].shape
        for position, (axis, extent) in enumerate(zip(buffer.footprint, shape, strict=True)):
            if buffer.chunk is not None and buffer.chunk[1] == position:
                continue
            first, end = self._tiling.reach(axis, tiles)
            outside |= (np.asarray(first) < 0) | (np.asarray(end) > extent)
        return outside

    def _store(self, step: Step) -> None:
        stage, share = step.stage, self._share(step)
        turned = stage.output in self._views.turned
        if stage.view and self._views.source(stage).view and turned:
            self._turn(step, stage)
        elif stage.op.family is Family.CONCAT or (
            stage.view and (self._views.source(stage).view or self._views.reshaped(stage))
        ):
            self._tally.add(share, copies=step.instructions, copied=step.touched)
        elif turned:
            source = self._views.source(stage)
            if source.op.family in (Family.UNARY, Family.BINARY):
                self._turn(step, stage, computes=True)
                return
            out = [self._tiling.axis_size(axis, {}) for axis in source.footprint]
            self._tally.add(share, strided=step.touched * (_line(self._nest, source, out) == 1))

    def _turn(self, step: Step, stage: Stage, computes: bool = False) -> None:
        """A copy in another order of dimensions, or what is ``computed`` and stored in one."""
        tiling, types = self._tiling, self._nest.types
        held = sum(math.prod(types[x].shape) for x in (stage.output, stage.op.inputs[0]))
        out = [tiling.axis_size(axis, {}) for axis in stage.footprint]
        perm = stage.op.ints("perm") if stage.op.family is Family.TRANSPOSE else range(len(out))
        turned = Transposition(types[stage.output].shape, tuple(perm))
        elements = step.touched
        work = turned.work(out, self._spec.vector.lanes, np.ones(tiling.n), computes)
        held_bytes = float(held * ELEMENT_BYTES)
        self._tally.add(
            self._share(step),
            copies=step.instructions * (not computes),
            turned_far=elements * beyond(self._l2_bytes, held_bytes),
            turned_lost=elements
            * beyond(CROWDED_SHARE * self._spec.scratchpad.size_bytes, held_bytes),
            **{kind: elements * each for kind, each in work.items()},
        )

    def _runs(self, step: Step, tiles: Tiles) -> Floats:
        """How often the busiest core runs each kind of tile [c, n]."""
        each = step.count * step.pieces / np.maximum(tiles.count.sum(axis=0), 1)
        runs: Floats = tiles.count * each * self._share(step)
        return runs

    def _product(self, step: Step) -> None:
        stage, tiling = step.stage, self._tiling
        assert stage.contraction is not None
        k = tiling.k_dim(stage.contraction)
        tiles = tiling.tiles(_dims(stage) | {k})
        runs = self._runs(step, tiles)
        if (nonzero := nonzero_work(self._nest, tiling.table, stage)) is not None:
            runs = runs * np.where(tiling.parts[k] > 1, 1.0, nonzero.pieces)
            tiles = nonzero_tiles(tiling, stage, tiles, nonzero)
        vector, rows, depth, repeats = _sizes(tiling, stage, tiles)
        runs = runs * repeats
        packed = max(1, self._spec.matrix.macs_per_cell(stage.op.multiplied))
        steps = -(-depth // packed)  # a lane of 32 bits takes so many neighbours of the sum at once
        is_turned, lanes = stage.output in self._views.stored_turned, self._spec.vector.lanes
        out = [tiling.axis_size(axis, tiles.sizes) for axis in stage.footprint]
        line = _line(self._nest, stage, out) * np.ones(tiles.count.shape, dtype=np.int64)
        of_pixels = (line > 1) & (is_turned | (vector == 1))
        pipes = self._spec.matrix.rows
        work = product_work(vector, rows, steps, lanes, pipes)
        if of_pixels.any():
            lines = rows // line * product_work(line, vector, steps, lanes, pipes)
            work = np.where(of_pixels, lines, work)
        factor_bytes = ELEMENT_BYTES * steps * vector
        crowded = beyond(CROWDED_SHARE * self._spec.scratchpad.size_bytes, held_bytes(self._nest))
        near, middle = PANEL_SHARE * self._l1_bytes, PANEL_SHARE * self._l2_bytes
        self._tally.add(
            runs,
            **dict(zip(PARTS, work, strict=True)),
            product_turned=(work[0] + work[1]) * (is_turned != of_pixels),
            product_calls=1.0,
            panels_l2=factor_bytes * beyond(near, factor_bytes),
            panels_l3=factor_bytes * beyond(middle, factor_bytes),
            panels_far=factor_bytes * beyond(middle, factor_bytes) * crowded,
            packed=vector * depth * (not packed_ahead(self._nest, stage)),
            sums=vector * rows * (1.0 - 1.0 / tiling.parts[k]),
        )

    def _vector(self, step: Step) -> None:
        stage, tiling = step.stage, self._tiling
        if stage.op.family in BY_FACTORS:
            self._tally.add(self._share(step), passes=step.touched / self._spec.vector.lanes)
            return
        if stage.mask is not None and step is self._mask_of(stage):
            self._tally.add(self._share(step), copies=step.instructions, masked=step.touched)
            return
        if stage.contraction is not None:  # sums become float32 in place
            self._tally.add(self._share(step), passes=step.touched / self._spec.vector.lanes)
            return
        if stage.op.family is Family.TRANSPOSE:
            self._turn(step, stage)
            return
        tiles = tiling.tiles(_dims(stage))
        turned = any(x in self._views.turned for x in stage.inputs)
        self._tally.add(
            self._runs(step, tiles), **count_vector_work(tiling, stage, tiles, self._spec, turned)
        )

    def _mask_of(self, stage: Stage) -> Step:
        """The step that masks a stage's result comes behind its others."""
        return [s for s in self._steps if s.stage is stage and s.unit is Unit.VECTOR][-1]

    def _traffic(self) -> None:
        """Bytes between tiles and tensors, by the cache that all tensors together fit into."""
        held = held_bytes(self._nest)
        moved: Quantity = 0.0
        for step in self._steps:
            if step.useful_bytes is not None:
                moved = moved + step.useful_bytes * self._share(step)
        self._tally.add(
            moved,
            from_l2=beyond(self._l1_bytes, held),
            from_l3=beyond(self._l2_bytes, held),
            from_dram=beyond(self._spec.scratchpad.size_bytes, held),
        )


def _borders(tiling: Tiling) -> Floats:
    """Return the rows [n] of a result in which cores share the elements: where what two write touches, lines of memory go
    from one to the other and back. One where they share the outermost axis, 0 on one core."""
    rows = np.zeros(tiling.n)
    for d, extent in enumerate(tiling.nest.root_shape):
        outer = math.prod(tiling.nest.root_shape[:d])
        if extent > 1:
            rows = np.where((tiling.position[d] == 0) & (tiling.active_cores > 1), outer, rows)
    return rows


def busiest_share(tiling: Tiling) -> Floats:
    """Return what part [n] of a nest's work the busiest core does: cores take whole tiles, and the last one may be smaller."""
    if not tiling.rank:
        return np.ones(tiling.n)
    outermost = np.argmax(np.stack([at == 0 for at in tiling.position]), axis=0)
    rows, cores = np.arange(tiling.n), tiling.table.cores
    extent = np.array(tiling.extent[: tiling.rank], dtype=np.int64)[outermost]
    size, rest = (
        np.stack(each[: tiling.rank])[outermost, rows] for each in (tiling.size, tiling.rest)
    )
    each, more = np.divmod(tiling.outer_parts, cores)
    last = np.where((more == 1) & (rest > 0), rest, size) * (more > 0)
    share = (each * size + last) / extent
    return np.where((cores > 1) & (tiling.outer_parts > 1), share, 1.0)


def _dims(stage: Stage) -> frozenset[int]:
    return frozenset(axis.dim for axis in stage.footprint if axis.dim is not None)


def _part(weight: Quantity, chosen: npt.NDArray[np.bool_] | Floats) -> Floats:
    """What the kinds of tiles [c, n], by how far each is chosen, are of the whole weight [c, n]; [n]."""
    part: Floats = np.sum(weight * chosen, axis=0) / np.sum(weight * np.ones_like(chosen), axis=0)
    return part


def _line(nest: Nest, stage: Stage, out: Sequence[Extent]) -> Extent:
    """Return the pixels that lie side by side in a result of extents ``out`` and may be in lanes instead of channels.

    It is 1 for what is no product, and where weights are packed in panels: those of one group.

    They are a line; where every pixel of whole lines is read once, all of them.
    """
    op = stage.op
    if stage.contraction is None or op.family is not Family.CONV or op.int("group") == 1:
        return 1
    height, width = op.axes.sizes(out)
    is_pointwise = (
        math.prod((*op.axes.taps(nest.types[op.inputs[1]].shape), *op.ints("strides"))) == 1
    )
    is_whole = width == op.axes.sizes(nest.types[op.output].shape)[-1]
    return np.where(is_whole, height * width, width) if is_pointwise else width


def _sizes(tiling: Tiling, stage: Stage, tiles: Tiles) -> tuple[Ints, Ints, Ints, Ints]:
    """Elements in lanes, rows and depth of a product, and how many of them [c, n]."""
    assert stage.contraction is not None
    out = [tiling.axis_size(axis, tiles.sizes) for axis in stage.footprint]
    depth, op = tiles.sizes[tiling.k_dim(stage.contraction)], stage.op
    weight = tiling.nest.types[op.inputs[1]].shape
    found: tuple[Extent, Extent, Extent, Extent]
    match op.family:
        case Family.CONV:
            axes, channels = op.axes, out[op.axes.channel]
            rows = math.prod(axes.sizes(out))
            taps = math.prod(axes.taps(weight))
            # a tile holds part of the one group that there is, or some of several
            groups = np.maximum(1, channels // (weight[axes.out_channel] // op.int("group")))
            found = (channels // groups, rows, depth * taps, out[axes.batch] * groups)
        case Family.WINOGRAD:
            tile = FORMS[weight[0]].tile
            down, across = (-(-extent // tile) for extent in op.axes.sizes(out))
            found = (out[-1], out[0] * down * across, weight[1], depth)
        case Family.STRASSEN:
            of = quarter_of(tiling, stage, tiles)
            found = (of.columns, of.rows, of.depth, depth * of.blocks * of.repeats)
        case _:
            rows, repeats = product_rows(op, tiling.nest.types, out)
            found = (out[-1], rows, depth, repeats)
    like = np.ones(tiles.count.shape, dtype=np.int64)
    lanes, height, length, repeats = (like * value for value in found)
    return lanes, height, length, repeats
