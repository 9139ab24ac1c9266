"""Raw features of a schedule: counts of the graph, of its loops and of the spec, and no cost of any unit.

They exist for every target, also where nobody wrote an analytic model. Extents, tiles, loop order, footprints,
fetches and multiply-adds come from the nest and the schedule table alone (``schedule/counts.py``).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from autotune.cost_model.raw.counts import RawCounts, trivial_cycles, trivial_parts
from autotune.fusion.nest import MAX_RANK, Nest
from autotune.isa.formats import ELEMENT_BYTES
from autotune.operators.op import Family
from autotune.schedule.counts import scratchpad_elements, stage_dims
from autotune.schedule.table import Ints, ScheduleTable
from autotune.targets.spec import DATAFLOWS, HardwareSpec

Floats = npt.NDArray[np.float64]

_PRODUCTS, _LOADS = 2, 4
"""Contractions and loaded buffers with columns of their own; the others count in totals alone."""

Columns = list[Floats]


def _log(value: Floats | Ints | float) -> Floats:
    found: Floats = np.log(np.maximum(value, 1.0))
    return found


def _dimension(of: RawCounts, place: int) -> Columns:
    """A root dimension, counted from the innermost one."""
    d = of.nest.innermost - place
    if d < 0:
        return [of.ones * 0] * 4 + [of.ones * -1]
    return _tiled(of, d)


def _tiled(of: RawCounts, d: int) -> Columns:
    extent, tile = of.nest.root_shape[d], of.table.tile[:, d]
    rest = (extent % tile) / tile
    return [
        _log(of.ones * extent),
        _log(tile),
        _log(of.parts[:, d]),
        rest,
        of.ones * of.depth[:, d],
    ]


def _reduced(of: RawCounts) -> Columns:
    """The dimension that an online softmax reduces over."""
    return [of.ones * 0] * 3 if of.nest.reduced is None else _tiled(of, of.nest.reduced)[:3]


def _product(of: RawCounts, place: int) -> Columns:
    """A product's tile: rows (output channels), columns (pixels), reduction, and how evenly the first
    two fill the array."""
    if place >= len(of.products):
        return [of.ones * 0] * 9
    stage = of.products[place]
    assert stage.contraction is not None
    k = of.table.k_tile[:, stage.contraction] * of.ones
    out = [of.extent(axis) for axis in stage.footprint]
    batch = of.ones
    if stage.op.family in (Family.CONV, Family.WINOGRAD):
        axes = stage.op.axes
        rows, columns = out[axes.channel], np.prod(axes.sizes(out), axis=0)
        batch = out[axes.batch]
        if stage.op.family is Family.CONV:
            k = k * math.prod(axes.taps(of.nest.types[stage.op.inputs[1]].shape))
    elif stage.op.family is Family.STRASSEN:
        rows, columns = np.prod(out[:-1], axis=0) / 2, out[-1] / 2
        k = k * of.nest.types[stage.op.inputs[1]].shape[1]
    else:
        rows, columns = out[-2], out[-1]
        batch = np.prod(out[:-2], axis=0) if len(out) > 2 else batch
    pieces = of.pieces(stage.contraction)
    matrix = None if of.spec is None else of.spec.matrix
    fits = [
        of.ones if matrix is None else size / (np.ceil(size / side) * side)
        for size, side in (
            (rows, matrix.rows if matrix else 1),
            (columns, matrix.cols if matrix else 1),
        )
    ]
    runs = of.trips(stage_dims(stage)) * pieces
    return [
        _log(rows),
        _log(columns),
        _log(k),
        _log(batch),
        _log(pieces),
        _log(runs),
        *fits,
        of.ones,
    ]


def _load(of: RawCounts, place: int) -> Columns:
    """A loaded buffer: tensor, fill and run in bytes, fills, and tiles of padding outside the tensor."""
    if place >= len(of.loads):
        return [of.ones * 0] * 4
    buffer = of.loads[place]
    kind = of.nest.types[buffer.tensor]
    single = of.ones * kind.storage.bytes
    run = single if buffer.sample else of.run_bytes(buffer.footprint, kind)
    tensor = of.ones * kind.size_bytes
    return [_log(tensor), _log(of.tile_bytes(buffer)), _log(run), _log(of.fills(buffer))]


def _store(of: RawCounts) -> Columns:
    """The stored results: fill and run in bytes of the last one, and fills of all."""
    stages = [s for s in of.nest.stages if s.output in of.nest.stores]
    last = stages[-1]
    kind = of.nest.types[last.output]
    run = of.run_bytes(last.footprint, kind)
    elements = np.prod([of.extent(axis) for axis in last.footprint] or [of.ones], axis=0)
    fills = np.sum([of.trips(stage_dims(s)) for s in stages], axis=0)
    return [_log(kind.storage.bytes * elements), _log(run), _log(fills)]


def _choices(of: RawCounts) -> Columns:
    """What a schedule chooses beside extents."""
    largest = np.ceil(of.outer_parts / of.table.cores)
    return [
        of.ones * of.table.buffers,
        of.cores,
        of.outer_parts / (largest * of.cores),
        of.ones * of.table.im2col,
        of.depth.max(axis=1, initial=-1) + 1.0,
        _log(of.tiles),
    ]


def _totals(of: RawCounts) -> Columns:
    """Work and traffic of the whole nest."""
    fills = np.sum([of.ones * 0, *(of.fills(buffer) for buffer in of.loads)], axis=0)
    moved = of.loaded_bytes + of.stored_bytes
    held = ELEMENT_BYTES * scratchpad_elements(of.nest, of.table)
    size = 1 if of.spec is None else of.spec.scratchpad.size_bytes
    return [
        _log(of.multiply_adds),
        _log(of.vector_operations),
        _log(of.loaded_bytes),
        _log(of.stored_bytes),
        _log(fills),
        of.multiply_adds / np.maximum(moved, 1.0),
        of.vector_operations / np.maximum(moved, 1.0),
        _log(held),
        held / size,
        np.log(trivial_cycles(of)),
        *(share / trivial_cycles(of) for share in trivial_parts(of)),
    ]


def _kinds(of: RawCounts) -> Columns:
    """Operators by family, without views; then views, merged operators, loads and stores."""
    stages = [s for s in of.nest.stages if not s.view]
    links = [link.op for s in stages for link in s.links]
    count = Counter(op.family for op in (*(s.op for s in stages), *links))
    views = len(of.nest.stages) - len(stages)
    others = (views, len(links), len(of.nest.loads), len(of.nest.stores))
    return [of.ones * x for x in (*(count[family] for family in Family), *others)]


def _machine(of: RawCounts) -> Columns:
    """The spec's numbers; NaN where a target has none."""
    spec = of.spec
    if spec is None:
        return [of.ones * np.nan] * len(_MACHINE)
    return [of.ones * float(read(spec)) for read in _MACHINE.values()]


_MACHINE: dict[str, Callable[[HardwareSpec], float]] = {
    "spec_cores": lambda s: s.cores,
    "spec_rows": lambda s: s.matrix.rows,
    "spec_cols": lambda s: s.matrix.cols,
    "spec_dataflow": lambda s: DATAFLOWS.index(s.matrix.dataflow),
    "spec_matrix_setup": lambda s: s.matrix.setup_cycles,
    "spec_lanes": lambda s: s.vector.lanes,
    "spec_vector_setup": lambda s: s.vector.setup_cycles,
    "spec_divide": lambda s: s.vector.divide_cycles,
    "spec_transcendental": lambda s: s.vector.transcendental_cycles,
    "spec_scratchpad": lambda s: s.scratchpad.size_bytes,
    "spec_banks": lambda s: s.scratchpad.banks,
    "spec_bandwidth": lambda s: s.dram.bytes_per_cycle,
    "spec_burst": lambda s: s.dram.burst_bytes,
    "spec_row": lambda s: s.dram.row_bytes,
    "spec_row_miss": lambda s: s.dram.row_miss_cycles,
    "spec_latency": lambda s: s.dram.latency_cycles,
    "spec_dispatch": lambda s: s.control.dispatch_cycles,
    "spec_queue": lambda s: s.control.queue_depth,
}


@dataclass(frozen=True, slots=True)
class RawBlock:
    """Neighbouring columns that one function counts."""

    names: tuple[str, ...]
    count: Callable[[RawCounts], Columns]


def _slots(
    prefix: str, number: int, names: Sequence[str], count: Callable[[RawCounts, int], Columns]
) -> tuple[RawBlock, ...]:
    """One block for each of ``number`` dimensions, products or loads."""

    def at(place: int) -> Callable[[RawCounts], Columns]:
        return lambda of: count(of, place)

    return tuple(
        RawBlock(tuple(f"{prefix}{place}_{name}" for name in names), at(place))
        for place in range(number)
    )


BLOCKS: tuple[RawBlock, ...] = (
    *_slots("dim", MAX_RANK, ("extent", "tile", "parts", "rest", "depth"), _dimension),
    RawBlock(("reduced_extent", "reduced_tile", "reduced_parts"), _reduced),
    *_slots(
        "product",
        _PRODUCTS,
        (
            "rows",
            "columns",
            "depth",
            "batch",
            "pieces",
            "runs",
            "row_fit",
            "column_fit",
            "is_there",
        ),
        _product,
    ),
    *_slots("load", _LOADS, ("tensor", "fill", "run", "fills"), _load),
    RawBlock(("store_fill", "store_run", "store_fills"), _store),
    RawBlock(("buffers", "cores", "balance", "im2col", "loops", "tiles"), _choices),
    RawBlock(
        (
            "multiply_adds",
            "vector_operations",
            "loaded_bytes",
            "stored_bytes",
            "fills",
            "multiply_adds_per_byte",
            "operations_per_byte",
            "held_bytes",
            "held_share",
            "trivial",
            "trivial_products",
            "trivial_operations",
            "trivial_bytes",
        ),
        _totals,
    ),
    RawBlock(
        (*(f"count_{family}" for family in Family), "views", "links", "loads", "stores"), _kinds
    ),
    RawBlock(tuple(_MACHINE), _machine),
)

RAW_NAMES: tuple[str, ...] = tuple(name for block in BLOCKS for name in block.names)
"""Columns of ``raw_features``; extents, bytes, counts and work are natural logarithms."""


def raw_features(nest: Nest, table: ScheduleTable, spec: HardwareSpec | None = None) -> Floats:
    """Return raw features of every schedule of a table, float64 [n, F] in the order of ``RAW_NAMES``.

    Without a ``spec`` its columns are NaN, which trees take as a value of its own.
    """
    return raw_columns(RawCounts(nest, table, spec))


def raw_columns(of: RawCounts) -> Floats:
    """Return the features [n, F] of a counted nest."""
    columns = [column for block in BLOCKS for column in block.count(of)]
    return np.stack(columns, axis=1)
