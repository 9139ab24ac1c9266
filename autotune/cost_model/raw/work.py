"""Work of a nest in kinds that a raw model prices: what each unit does, by spec rates, from nest, table and spec alone.

The line that raw models keep: a count may ceil a tile to an array's side, a vector's lanes or a burst, and divide by
a rate of the spec. Set-up, latency, overlap and waiting are in no count: prices and trees learn them from measurements.
"""

from __future__ import annotations

import math
from enum import IntEnum
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from autotune.cost_model.raw.counts import RawCounts, count_operations, count_products
from autotune.cost_model.steps.product_rows import product_rows
from autotune.fusion.nest import Buffer, Stage
from autotune.isa.functions import CostClass
from autotune.operators.axis_map import AxisMap, Footprint
from autotune.operators.contraction import channels_per_group
from autotune.operators.op import Family, Op
from autotune.operators.tensor import TensorType
from autotune.schedule.counts import stage_dims
from autotune.targets.spec import DATAFLOWS

Floats = npt.NDArray[np.float64]


class RawUnit(IntEnum):
    """Units whose work may overlap; ``CONTROL`` overlaps with none."""

    CONTROL = 0
    MATRIX = 1
    VECTOR = 2
    LOAD = 3
    STORE = 4


_KINDS: dict[str, RawUnit] = {
    "nests": RawUnit.CONTROL,
    "tiles": RawUnit.CONTROL,
    "calls": RawUnit.CONTROL,
    "products": RawUnit.MATRIX,
    "product_calls": RawUnit.MATRIX,
    **{f"array_passes_{dataflow}": RawUnit.MATRIX for dataflow in DATAFLOWS},
    **{f"array_steps_{dataflow}": RawUnit.MATRIX for dataflow in DATAFLOWS},
    "moved_calls": RawUnit.VECTOR,
    "vector_calls": RawUnit.VECTOR,
    "vector_steps": RawUnit.VECTOR,
    "vector_operations": RawUnit.VECTOR,
    "divide_steps": RawUnit.VECTOR,
    "transcendental_steps": RawUnit.VECTOR,
    "reduced_steps": RawUnit.VECTOR,
    "product_results": RawUnit.VECTOR,
    "loads": RawUnit.LOAD,
    "load_runs": RawUnit.LOAD,
    "load_bytes": RawUnit.LOAD,
    "load_bursts": RawUnit.LOAD,
    "load_pages": RawUnit.LOAD,
    "stores": RawUnit.STORE,
    "store_runs": RawUnit.STORE,
    "store_bytes": RawUnit.STORE,
    "store_bursts": RawUnit.STORE,
    "store_pages": RawUnit.STORE,
}

RAW_WORK: tuple[str, ...] = tuple(_KINDS)
"""Kinds of counted work, the columns of ``raw_work``."""
RAW_UNITS: npt.NDArray[np.int64] = np.array(list(_KINDS.values()), dtype=np.int64)
"""Unit [W] of each kind."""


class _Rates(NamedTuple):
    """What a spec says of sizes and rates; ones where there is no spec."""

    rows: float = 1.0
    cols: float = 1.0
    lanes: float = 1.0
    divide: float = 1.0
    transcendental: float = 1.0
    bandwidth: float = 1.0
    burst: float = 64.0
    page: float = 4096.0


def raw_work(of: RawCounts) -> Floats:
    """Return the counted work [n, W] of a nest's schedules on the busiest core."""
    rates, spec = _Rates(), of.spec
    if spec is not None:
        rates = _Rates(
            spec.matrix.rows,
            spec.matrix.cols,
            spec.vector.lanes,
            spec.vector.divide_cycles,
            spec.vector.transcendental_cycles,
            spec.dram.bytes_per_cycle,
            max(1, spec.dram.burst_bytes),
            max(1, spec.dram.row_bytes),
        )
    empty = np.zeros((len(RAW_WORK), len(of.table)))
    found = dict(zip(RAW_WORK, empty, strict=True))
    found["nests"] = of.ones
    found["tiles"] = of.tiles / _shared(of)
    for stage in of.nest.stages:
        if stage.contraction is not None:
            _add_product(of, stage, rates, found)
        elif not stage.view:
            _add_vector(of, stage, rates, found)
        if stage.output in of.nest.stores:
            _add_store(of, stage, rates, found)
    for buffer in of.loads:
        _add_load(of, buffer, rates, found)
    return np.stack([found[name] for name in RAW_WORK], axis=1)


Found = dict[str, Floats]


def _shared(of: RawCounts) -> Floats:
    """How many cores share the work evenly [n]: the outermost tiles over those of the busiest core."""
    return of.outer_parts / np.ceil(of.outer_parts / of.table.cores)


def _calls(of: RawCounts, stage: Stage) -> tuple[Floats, Floats]:
    """Return how often a stage runs, and the elements that a run makes in the mean [n]."""
    runs = of.trips(stage_dims(stage))
    alone = of.level(stage_dims(stage)) < 0
    made = of.made[stage.output] / np.where(alone, of.cores, 1.0)
    return runs, np.maximum(made / runs, 1.0)


def _by_core(of: RawCounts, stage: Stage, runs: Floats) -> Floats:
    """Runs on the busiest core: what is outside of all loops runs on each."""
    return np.where(of.level(stage_dims(stage)) < 0, runs, runs / _shared(of))


def _add_product(of: RawCounts, stage: Stage, rates: _Rates, found: Found) -> None:
    assert stage.contraction is not None
    runs, each = _calls(of, stage)
    runs = _by_core(of, stage, runs)
    out = [of.extent(axis) for axis in stage.footprint]
    k = of.table.k_tile[:, stage.contraction] * of.ones
    taps = 1.0
    if stage.op.family in (Family.CONV, Family.WINOGRAD):
        axes = stage.op.axes
        rows, columns = out[axes.channel], np.prod(axes.sizes(out), axis=0)
        grouped = channels_per_group(stage.op, of.nest.types)
        if grouped is not None:
            rows = np.minimum(rows, grouped[1])
        if stage.op.family is Family.CONV:
            taps = float(math.prod(axes.taps(of.nest.types[stage.op.inputs[1]].shape)))
    elif stage.op.family is Family.STRASSEN:
        _, depth_of_half, _ = of.nest.types[stage.op.inputs[1]].shape
        rows, columns, taps = np.prod(out[:-1], axis=0) / 2, out[-1] / 2, float(depth_of_half)
    else:
        whole_out = [extent.astype(np.int64) for extent in out]
        joined, _ = product_rows(stage.op, of.nest.types, whole_out)
        rows, columns = joined * of.ones, out[-1]
    batch = np.maximum(np.prod(out, axis=0) / np.maximum(rows * columns, 1.0), 1.0)
    shrink = np.minimum(each / np.maximum(rows * columns * batch, 1.0), 1.0)
    pieces = of.pieces(stage.contraction)
    whole = max(math.prod(of.nest.types[stage.output].shape), 1)
    depth = count_products(stage.op, of.nest) / whole
    k = np.minimum(k * taps, depth)
    spec = of.spec
    per_cell = 1 if spec is None else max(1, spec.matrix.macs_per_cell(stage.op.multiplied))
    k = k / per_cell
    passes = {
        "os": (_folds(rows, rates.rows) * _folds(columns, rates.cols), k),
        "ws": (_folds(k, rates.rows) * _folds(rows, rates.cols), columns),
        "is": (_folds(k, rates.rows) * _folds(columns, rates.cols), rows),
    }
    count = runs * pieces * batch * shrink
    found["product_calls"] += runs * pieces * batch
    found["calls"] += runs * pieces
    for dataflow, (held, stream) in passes.items():
        found[f"array_passes_{dataflow}"] += count * held
        found[f"array_steps_{dataflow}"] += count * held * np.maximum(stream, 1.0)
    found["products"] += runs * each * depth / per_cell / (rates.rows * rates.cols)
    found["product_results"] += runs * np.ceil(each / rates.lanes)


def _folds(size: Floats, side: float) -> Floats:
    return np.ceil(size / side)


def _add_vector(of: RawCounts, stage: Stage, rates: _Rates, found: Found) -> None:
    runs, each = _calls(of, stage)
    runs = _by_core(of, stage, runs)
    inner = of.extent(stage.footprint[-1]) if stage.footprint else of.ones
    outer = np.maximum(each / inner, 1.0)
    whole = max(math.prod(of.nest.types[stage.output].shape), 1)
    ops = (stage.op, *(link.op for link in stage.links))
    operations = sum(count_operations(op, of.nest) for op in ops) / whole
    found["calls"] += runs * len(ops)
    found["vector_calls"] += runs * len(ops)
    found["moved_calls"] += runs * outer
    found["vector_steps"] += runs * np.ceil(each / rates.lanes) * len(ops)
    found["vector_operations"] += runs * each * operations / rates.lanes
    for kind, cost, cycles in (
        ("divide_steps", CostClass.DIVIDE, rates.divide),
        ("transcendental_steps", CostClass.TRANSCENDENTAL, rates.transcendental),
    ):
        count = sum(_functions(op, cost) for op in ops)
        found[kind] += count * cycles * runs * np.ceil(each / rates.lanes)
    if operations > 1:
        found["reduced_steps"] += runs * outer * np.ceil(inner / rates.lanes) * operations


def _functions(op: Op, cost: CostClass) -> int:
    """Return how many functions of a class an operator takes of each element."""
    if op.family is Family.SOFTMAX:
        return int(cost is not CostClass.SIMPLE)
    return int(op.family in (Family.UNARY, Family.BINARY) and op.function.row.cost is cost)


def _mean_extent(of: RawCounts, axis: AxisMap) -> Floats:
    """Return the elements of a dimension in a tile, the mean over tiles; padding counts."""
    if axis.dim is None:
        return axis.window * of.ones
    count = of.parts[:, axis.dim]
    steps = of.nest.root_shape[axis.dim] - count
    mean: Floats = (axis.scale * steps + axis.window * count) / axis.per / count
    return mean


def _inside(of: RawCounts, footprint: Footprint, kind: TensorType) -> list[Floats]:
    """Return how much of a tensor's dimensions a tile has, the mean over tiles: rests are shorter, padding is outside."""
    found = []
    for axis, extent in zip(footprint, kind.shape, strict=True):
        count = of.ones if axis.dim is None else of.parts[:, axis.dim]
        below = max(0, -axis.offset)
        above = max(0, axis.offset + axis.size(of.nest.root_shape) - extent)
        inside = _mean_extent(of, axis) - (below + above) / count
        found.append(np.clip(inside, 1.0, extent))
    return found


def _transfer(
    of: RawCounts, extents: list[Floats], kind: TensorType, fill: Floats, rates: _Rates
) -> tuple[Floats, Floats, Floats]:
    """Return runs of neighbouring bytes of a fill, its cycles at whole bursts, and rows of DRAM it opens [n]."""
    size = float(kind.storage.bytes)
    run, whole, pitch, stride = of.ones * size, of.ones > 0, size, of.ones * 0
    for length, extent in zip(reversed(extents), reversed(kind.shape), strict=True):
        inside = np.minimum(length, extent)
        stride = np.where(~whole & (stride == 0) & (inside > 1), pitch, stride)
        run = np.where(whole, run * inside, run)
        whole = whole & (inside >= extent)
        pitch *= extent
    run = np.maximum(np.minimum(run, fill), size)
    pieces = np.maximum(fill / run, 1.0)
    aligned = (run % rates.burst == 0) | (pieces == 1.0)
    bursts = np.where(aligned, np.ceil(run / rates.burst), (run - size) / rates.burst + 1.0)
    opened = pieces * np.clip(
        np.maximum(stride, run) / rates.page, 1.0 / np.maximum(pieces, 1.0), 1.0
    )
    opened = opened * np.maximum(run / rates.page, 1.0)
    return pieces, pieces * bursts * rates.burst / rates.bandwidth, opened


def _add_load(of: RawCounts, buffer: Buffer, rates: _Rates, found: Found) -> None:
    kind = of.nest.types[buffer.tensor]
    fills = of.fills(buffer) / _shared(of)
    extents = _inside(of, buffer.footprint, kind)
    if buffer.chunk is not None:
        contraction, position = buffer.chunk
        whole = of.nest.contractions[contraction].k_extent
        extents[position] = whole / of.pieces(contraction)
    fill = kind.storage.bytes * np.prod([of.ones, *extents], axis=0)
    fill = np.minimum(fill, kind.size_bytes)
    if buffer.patches is not None and buffer.chunk is not None:
        pixels = [_mean_extent(of, axis) for axis in buffer.patches.pixels]
        taps = extents[buffer.chunk[1]] * buffer.patches.taps
        patches = np.prod([taps, *pixels], axis=0)
        fill = np.where(of.table.im2col == 1, kind.storage.bytes * patches, fill)
    found["loads"] += fills
    _add_moves(found, "load", fills, fill, _transfer(of, extents, kind, fill, rates), rates)


def _add_store(of: RawCounts, stage: Stage, rates: _Rates, found: Found) -> None:
    kind = of.nest.types[stage.output]
    runs, each = _calls(of, stage)
    runs = runs / _shared(of)
    fill = each * kind.storage.bytes
    extents = _inside(of, stage.footprint, kind)
    found["stores"] += runs
    _add_moves(found, "store", runs, fill, _transfer(of, extents, kind, fill, rates), rates)


def _add_moves(
    found: Found,
    direction: str,
    times: Floats,
    fill: Floats,
    transfer: tuple[Floats, Floats, Floats],
    rates: _Rates,
) -> None:
    """Count transfers of ``fill`` bytes that happen so many ``times``, each by ``_transfer``'s figures."""
    pieces, bursts, pages = transfer
    found["calls"] += times
    found[f"{direction}_runs"] += times * pieces
    found[f"{direction}_bytes"] += times * fill / rates.bandwidth
    found[f"{direction}_bursts"] += times * bursts
    found[f"{direction}_pages"] += times * pages
