"""Lists the steps of a nest in program order with their costs; pipeline and features read them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache, partial

import numpy as np

from autotune.cost_model.steps import strassen
from autotune.cost_model.steps.block_sparsity import nonzero_loads, nonzero_tiles, nonzero_transfers
from autotune.cost_model.steps.patches import with_patches
from autotune.cost_model.steps.stage_cost import StageCost, conversion_cost, mask_cost, stage_cost
from autotune.cost_model.steps.step import Effort, Step, TileCosts
from autotune.cost_model.steps.tiling import Floats, Tiles, Tiling, over_kinds
from autotune.cost_model.steps.transfers import rectangle_of, transfer
from autotune.cost_model.steps.winograd import back_cost, products_cost, there_cost
from autotune.fusion.nest import Stage
from autotune.isa.formats import Format
from autotune.isa.opcodes import Unit
from autotune.operators.axis_map import Footprint
from autotune.operators.op import Family
from autotune.schedule.block_sparsity import NonzeroWork, nonzero_work
from autotune.schedule.table import Ints
from autotune.targets.spec import HardwareSpec

Cost = Callable[[Tiling, Stage, Tiles, HardwareSpec], StageCost]
"""What a stage, or a part of it, costs on tiles."""


def steps_of(tiling: Tiling, spec: HardwareSpec) -> list[Step]:
    """Loads before the stage that needs them first, the stage, its mask, its store."""
    nest = tiling.nest
    loaded: set[int] = set()
    steps: list[Step] = []
    for stage in nest.stages:
        for index in stage.loads:
            if index not in loaded:
                loaded.add(index)
                steps.append(_load(tiling, stage, index, spec))
        steps.extend(_computed(tiling, stage, spec))
        if stage.output in nest.stores:
            steps.append(_store(tiling, stage, spec))
    return steps


def _stage_dims(stage: Stage) -> frozenset[int]:
    return frozenset(axis.dim for axis in stage.footprint if axis.dim is not None)


def _load(tiling: Tiling, stage: Stage, index: int, spec: HardwareSpec) -> Step:
    buffer = tiling.nest.buffers[index]
    level, pieces, chunk, dims = tiling.level(buffer.dims), tiling.ones, None, buffer.dims
    nonzero = None
    if buffer.chunk is not None:
        k = tiling.k_dim(buffer.chunk[0])
        nonzero = nonzero_loads(tiling, stage, index, tiling.parts[k] > 1)
        in_pieces = tiling.parts[k] > 1
        level = np.where(in_pieces, tiling.level(_stage_dims(stage)), level)
        pieces, chunk, dims = tiling.parts[k], (buffer.chunk[1], k), dims | {k}
    step = _moved(
        tiling,
        stage,
        index,
        Unit.LOAD,
        buffer.footprint,
        buffer.tensor,
        level,
        pieces,
        chunk,
        dims,
        spec,
        tuple(hop for _, hop in buffer.sample),
        nonzero,
    )
    if buffer.patches is None:
        return step
    tiles = tiling.tiles(dims)
    weight = tiles.count * _repeats(tiling, dims, level)
    return with_patches(step, tiling, buffer, tiles, weight, spec)


def _looked_up(tiling: Tiling, stage: Stage, spec: HardwareSpec) -> Step:
    """Rows that numbers choose: each is as far from the next as the table is long."""
    table = tiling.nest.types[stage.op.inputs[0]]
    hops = max(2, table.shape[0]), 1
    return _result(tiling, stage, Unit.LOAD, spec, hops, table.storage)


def _store(tiling: Tiling, stage: Stage, spec: HardwareSpec) -> Step:
    return _result(tiling, stage, Unit.STORE, spec)


def _result(
    tiling: Tiling,
    stage: Stage,
    unit: Unit,
    spec: HardwareSpec,
    hops: tuple[int, ...] = (),
    storage: Format | None = None,
) -> Step:
    """A stage's result, moved as a whole for every tile; ``storage`` is that of another tensor it comes
    from."""
    dims = _stage_dims(stage)
    return _moved(
        tiling,
        stage,
        stage.result,
        unit,
        stage.footprint,
        stage.output,
        tiling.level(dims),
        tiling.ones,
        None,
        dims,
        spec,
        hops,
        storage=storage,
    )


def _moved(
    tiling: Tiling,
    stage: Stage,
    index: int,
    unit: Unit,
    footprint: Footprint,
    tensor: str,
    level: Ints,
    pieces: Ints,
    chunk: tuple[int, int] | None,
    dims: frozenset[int],
    spec: HardwareSpec,
    hops: tuple[int, ...] = (),
    nonzero: NonzeroWork | None = None,
    storage: Format | None = None,
) -> Step:
    shape = tiling.nest.types[tensor].shape
    element_bytes = (storage or tiling.nest.types[tensor].storage).bytes
    held = tiling.nest.buffers[index]
    repeats = _repeats(tiling, dims, level)
    tiles = tiling.tiles(dims)
    rectangle = rectangle_of(tiling, footprint, shape, tiles, chunk, hops, element_bytes)
    weight = tiles.count * repeats
    count = over_kinds(weight)
    moved, times = nonzero_transfers(pieces, nonzero)
    trips = tiling.repeats(frozenset(), level) * pieces

    @cache
    def words() -> Floats:
        return _rectangle(tiling, footprint, tiles, chunk) / held.elements_per_word

    def effort() -> Effort:
        part = transfer(rectangle, tiling, footprint, chunk, trips, spec)
        # a scratchpad takes one line of all its banks per cycle
        turns = _turned(tiling, stage, tiles, spec) if unit is Unit.STORE else 1
        lines = np.ceil(words() * turns / spec.scratchpad.banks)
        busy = spec.dram.latency_cycles * times + np.maximum(part.cycles, lines) * moved
        return Effort(
            _total(weight, busy),
            _tile_costs(tiles, busy, part.cycles * moved, times),
            channel_cycles=_total(weight, part.cycles) * moved,
            moved_bytes=_total(weight, part.moved_bytes) * moved,
            runs=_total(weight, part.runs) * moved,
        )

    return Step(
        unit,
        stage,
        index,
        level,
        count / pieces,
        count * times,
        pieces if nonzero is None else np.where(pieces > 1, pieces * moved, pieces),
        effort,
        lambda: _total(weight, words()) * moved,
        _total(weight, rectangle.useful_bytes) * moved,
    )


def _tile_costs(
    tiles: Tiles,
    cycles: Floats | float,
    channel: Floats | float,
    instructions: Floats | Ints | float,
    behind: Floats | None = None,
) -> TileCosts:
    """Costs of one run, spread over all kinds of tiles [c, n]."""
    zeros = np.zeros(tiles.count.shape)
    return TileCosts(tiles.rested, zeros + cycles, zeros + channel, zeros + instructions, behind)


def _total(weight: Floats, value: Floats | Ints | float) -> Floats:
    """Over all kinds of tiles: ``weight`` [c, n] says how often there is one."""
    return over_kinds(weight * value)


def _turned(tiling: Tiling, stage: Stage, tiles: Tiles, spec: HardwareSpec) -> Ints | int:
    """Cycles per line for a store that reads a transposed tile: its neighbours lie in few banks."""
    if not stage.view or stage.op.family is not Family.TRANSPOSE:
        return 1
    sizes = [tiling.axis_size(axis, tiles.sizes) for axis in stage.footprint]
    perm = stage.op.ints("perm")
    pitches: list[Ints | int] = [1]
    for d in reversed(range(1, len(perm))):
        pitches.append(pitches[-1] * sizes[perm.index(d)])
    turned = [pitches[::-1][d] for d in perm]
    turns: Ints = tiling.ones
    for size, pitch in zip(sizes, turned, strict=True):
        here = np.minimum(np.gcd(pitch, spec.scratchpad.banks), size)
        turns = np.where(np.greater(size, 1), here, turns)
    return turns


def _rectangle(
    tiling: Tiling, footprint: Footprint, tiles: Tiles, chunk: tuple[int, int] | None
) -> Floats:
    """Elements of a tile, padding included."""
    elements = np.ones(tiling.n)
    for position, axis in enumerate(footprint):
        if chunk is not None and position == chunk[0]:
            elements = elements * tiles.sizes[chunk[1]]
        else:
            elements = elements * tiling.axis_size(axis, tiles.sizes)
    return elements


def _repeats(tiling: Tiling, dims: frozenset[int], level: Ints) -> Floats:
    """Over all cores: what lies outside every loop runs on each of them."""
    repeats = tiling.repeats(dims, level)
    return np.where(level < 0, repeats * tiling.active_cores, repeats).astype(np.float64)


def _computed(tiling: Tiling, stage: Stage, spec: HardwareSpec) -> Iterator[Step]:
    dims = _stage_dims(stage)
    level, one, vector = tiling.level(dims), tiling.ones, Unit.VECTOR
    if stage.op.family is Family.WINOGRAD:
        yield from _by_factors(tiling, stage, (there_cost, products_cost, back_cost), spec)
        return
    if stage.op.family is Family.STRASSEN:
        costs = strassen.sums_cost, strassen.products_cost, strassen.results_cost
        yield from _by_factors(tiling, stage, costs, spec)
        return
    if stage.contraction is not None:
        for temp in stage.narrowed.values():
            made = tiling.nest.buffers[temp].dims
            cost_of = partial(conversion_cost, tiling.nest.buffers[temp].footprint)
            yield _summed(tiling, stage, vector, tiling.level(made), one, made, cost_of, spec)
        yield _product(tiling, stage, stage.contraction, spec)
        if stage.op.zeros is not None:
            cost_of = partial(conversion_cost, stage.footprint)
            yield _summed(tiling, stage, vector, level, one, dims, cost_of, spec)
    elif stage.op.family is Family.GATHER:
        yield _looked_up(tiling, stage, spec)
    elif not stage.view:
        yield _summed(tiling, stage, vector, level, one, dims, stage_cost, spec)
    if stage.mask is not None:
        yield _summed(tiling, stage, vector, level, one, dims, mask_cost, spec)


def _product(tiling: Tiling, stage: Stage, contraction: int, spec: HardwareSpec) -> Step:
    """Count the pieces of its reduction; an online softmax's in each trip over it."""
    k, dims, reduced = tiling.k_dim(contraction), _stage_dims(stage), None
    if stage.reduced and tiling.nest.reduced is not None:
        reduced = tiling.nest.reduced
        dims |= {reduced}
    level, pieces = tiling.level(dims), tiling.parts[k]
    tiles = tiling.tiles(dims | {k})
    runs = tiles.count * _repeats(tiling, dims | {k}, level)
    count, weight = over_kinds(runs) / pieces, runs.astype(np.float64)
    if reduced is not None:
        tiles = tiles.resized(k, tiles.sizes[reduced])
    if (nonzero := nonzero_work(tiling.nest, tiling.table, stage)) is not None:
        weight = weight * nonzero_transfers(pieces, nonzero)[1]
        tiles = nonzero_tiles(tiling, stage, tiles, nonzero)
        pieces = np.where(pieces > 1, pieces * nonzero.share, pieces)
    cost = stage_cost(tiling, stage, tiles, spec)
    return _costing(stage, Unit.MATRIX, level, count, pieces, weight, cost, tiles)


def _by_factors(
    tiling: Tiling, stage: Stage, costs: tuple[Cost, Cost, Cost], spec: HardwareSpec
) -> Iterator[Step]:
    """The operand's transform, once for all tiles of the result that need it; the products in pieces of their
    points; the results' transform."""
    assert stage.contraction is not None
    vector, one, dims = Unit.VECTOR, tiling.ones, _stage_dims(stage)
    there, level = tiling.nest.buffers[stage.temps[0]].dims, tiling.level(dims)
    k = tiling.k_dim(stage.contraction)
    pieces, points = tiling.parts[k], dims | {k}
    first, products, last = costs
    yield _summed(tiling, stage, vector, tiling.level(there), one, there, first, spec)
    yield _summed(tiling, stage, Unit.MATRIX, level, pieces, points, products, spec)
    yield _summed(tiling, stage, vector, level, one, dims, last, spec)


def _summed(
    tiling: Tiling,
    stage: Stage,
    unit: Unit,
    level: Ints,
    pieces: Ints | Floats,
    dims: frozenset[int],
    cost_of: Cost,
    spec: HardwareSpec,
) -> Step:
    tiles = tiling.tiles(dims)
    runs = tiles.count * _repeats(tiling, dims, level)
    count, cost = over_kinds(runs) / pieces, cost_of(tiling, stage, tiles, spec)
    return _costing(stage, unit, level, count, pieces, runs.astype(np.float64), cost, tiles)


def _costing(
    stage: Stage,
    unit: Unit,
    level: Ints,
    count: Floats,
    pieces: Ints | Floats,
    weight: Floats,
    cost: StageCost,
    tiles: Tiles,
) -> Step:
    """What tiles of every kind cost, each ``weight`` [c, n] times."""
    effort = Effort(
        _total(weight, cost.cycles),
        _tile_costs(tiles, cost.cycles, 0.0, cost.instructions, cost.behind),
        multiply_adds=_total(weight, cost.multiply_adds),
        lane_elements=_total(weight, cost.lane_elements),
    )
    return Step(
        unit,
        stage,
        stage.result,
        level,
        count,
        _total(weight, cost.instructions),
        pieces,
        lambda: effort,
        lambda: _total(weight, cost.touched),
    )
