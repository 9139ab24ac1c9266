"""How the units of a core overlap: packs a nest's steps for ``kernels/pipeline``, which lays them out.

Arrays have shape [n], one value per schedule; all schedules of a table are laid out in one call.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from autotune.cost_model.steps.step import Step
from autotune.cost_model.steps.tiling import Floats, Tiling
from autotune.fusion.nest import Nest
from autotune.isa.opcodes import Unit
from autotune.kernels.pipeline.layout import lay_out
from autotune.schedule.table import Ints
from autotune.targets.spec import HardwareSpec

_UNITS = {Unit.LOAD: 0, Unit.STORE: 1, Unit.MATRIX: 2, Unit.VECTOR: 3}
_NO_LOOP = -1


@dataclass(frozen=True, slots=True)
class Flow:
    """Estimated cycles of the whole nest, and of a trip of its innermost loop: of the busiest unit, and the
    sum of all."""

    cycles: Floats
    interval: Floats
    latency: Floats


def flow(tiling: Tiling, steps: list[Step], spec: HardwareSpec) -> Flow:
    """Lay out a nest on all cores that have work; they take turns on the DRAM channel."""
    held = _held(tiling.nest)
    reads = [_read_buffers(step, held) for step in steps]
    products = [_product_of(tiling, step, steps) for step in steps]
    kinds = [step.effort.tiles.dims for step in steps]
    cycles, interval, latency = lay_out(
        spec,
        _ints([_UNITS[step.unit] for step in steps]),
        _ints([-1 if step.unit is Unit.STORE else step.buffer for step in steps]),
        *_rows(reads),
        _ints(products),
        _ints([_reduction(tiling, step) for step in steps]),
        *_rows(kinds),
        _columns([step.level for step in steps], tiling.n),
        _costs([_pieces(step) for step in steps], tiling.n),
        *_buffers(tiling),
        *_loops(tiling),
        *_dimensions(tiling, steps),
        np.ascontiguousarray(tiling.depth, dtype=np.int64),
        _shared(tiling),
        *_tile_costs(steps, tiling.n),
    )
    return Flow(cycles, interval, latency)


def _ints(values: list[int]) -> Ints:
    return np.array(values, dtype=np.int64)


def _rows(lists: list[tuple[int, ...]]) -> tuple[Ints, Ints]:
    """Return where each list begins in the second array, and its end."""
    at = np.cumsum([0, *(len(one) for one in lists)])
    return at.astype(np.int64), _ints([*(x for one in lists for x in one), 0])


def _columns(values: list[Ints], n: int) -> Ints:
    found = np.zeros((len(values), n), dtype=np.int64)
    for row, value in zip(found, values, strict=True):
        row[:] = value
    return found


def _costs(values: list[Ints | Floats | float], n: int) -> Floats:
    found = np.zeros((len(values), n))
    for row, value in zip(found, values, strict=True):
        row[:] = value
    return found


def _read_buffers(step: Step, held: dict[str, int]) -> tuple[int, ...]:
    """Buffers that a step reads: loaded operands, and those that hold what other stages made."""
    if step.unit is Unit.LOAD:
        return ()
    stage = step.stage
    if step.unit is Unit.STORE:
        return (held[stage.output],)
    return tuple(dict.fromkeys((*stage.loads, *(held[x] for x in stage.inputs if x in held))))


def _held(nest: Nest) -> dict[str, int]:
    """Return the buffer of every tensor that a stage makes; a view is in its operand's."""
    held: dict[str, int] = {}
    for stage in nest.stages:
        held[stage.output] = stage.result
        if stage.view:
            loaded = stage.operands[0]
            held[stage.output] = held[stage.op.inputs[0]] if loaded is None else loaded
    return held


def _product_of(tiling: Tiling, step: Step, steps: list[Step]) -> int:
    """Return the product that a load brings pieces of a reduction for, or -1."""
    chunk = tiling.nest.buffers[step.buffer].chunk
    if step.unit is not Unit.LOAD or chunk is None:
        return -1
    for number, other in enumerate(steps):
        if other.unit is Unit.MATRIX and other.stage.contraction == chunk[0]:
            return number
    return -1


def _reduction(tiling: Tiling, step: Step) -> int:
    """Return the dimension that a product reduces over; 0 for other steps."""
    if step.unit is not Unit.MATRIX or step.stage.contraction is None:
        return 0
    return tiling.k_dim(step.stage.contraction)


def _pieces(step: Step) -> Ints | Floats | float:
    return step.pieces if step.unit is Unit.MATRIX else 1.0


def _buffers(tiling: Tiling) -> tuple[Ints, Ints]:
    """Return slots of every buffer, as ``schedule.slots``, and the loop that it alternates in [B, n]."""
    count = len(tiling.nest.buffers)
    slots = np.ones((count, tiling.n), dtype=np.int64)
    turns = np.full((count, tiling.n), _NO_LOOP, dtype=np.int64)
    for index, buffer in enumerate(tiling.nest.buffers):
        refilled: npt.NDArray[np.bool_] = np.zeros(tiling.n, dtype=bool)
        for d in tiling.content(buffer):
            refilled |= tiling.full[d] > 1
            if d < tiling.rank:
                inner = np.where(tiling.full[d] > 1, tiling.position[d], _NO_LOOP)
                turns[index] = np.maximum(turns[index], inner)
        slots[index] = np.where(refilled, tiling.table.buffers, 1)
        if buffer.chunk is not None:  # it alternates from piece to piece
            k = tiling.k_dim(buffer.chunk[0])
            turns[index] = np.where(tiling.parts[k] > 1, _NO_LOOP, turns[index])
    return slots, turns


def _loops(tiling: Tiling) -> tuple[Ints, Ints, Ints]:
    """Return dimension, full tiles and rests of the loop at each depth [L, n]; the outermost one that cores share
    leaves its rest to them."""
    depth = int(tiling.depth.max(initial=-1)) + 1
    dims, rests = (np.zeros((max(depth, 1), tiling.n), dtype=np.int64) for _ in range(2))
    trips = np.ones((max(depth, 1), tiling.n), dtype=np.int64)
    for d in range(tiling.rank):
        if not tiling.divided[d]:
            continue
        rows = np.flatnonzero(tiling.position[d] >= 0)
        level = tiling.position[d][rows]
        dims[level, rows] = d
        trips[level, rows] = tiling.full[d][rows]
        rests[level, rows] = tiling.rest[d][rows] > 0
    if depth:
        rests[0] = np.where(tiling.active_cores > 1, 0, rests[0])
    return dims, trips, rests


def _shared(tiling: Tiling) -> Ints:
    """Return the cores that have work, the tiles of the outermost loop that they share, and 1 where one of them is a
    rest [3, n]."""
    rest = np.zeros(tiling.n, dtype=np.int64)
    for d in range(tiling.rank):
        rest = np.where((tiling.position[d] == 0) & (tiling.rest[d] > 0), 1, rest)
    return np.stack([tiling.active_cores, tiling.outer_parts, rest]).astype(np.int64)


def _dimensions(tiling: Tiling, steps: list[Step]) -> tuple[Ints, Ints]:
    """Return full pieces and rests of every dimension [D, n]; of a reduction those that are not skipped."""
    full = _columns(list(tiling.full), tiling.n)
    rest = _columns([rest > 0 for rest in tiling.rest], tiling.n)
    for step in steps:
        if step.unit is Unit.MATRIX and step.stage.contraction is not None:
            k = tiling.k_dim(step.stage.contraction)
            full[k] = np.maximum(np.rint(step.pieces).astype(np.int64) - rest[k], 1)
    return full, rest


def _tile_costs(steps: list[Step], n: int) -> tuple[Floats, ...]:
    """Return busy cycles, channel cycles and instructions of one run, and the cycles behind its last read, by
    kind of tile [S, K, n]."""
    tiles = [step.effort.tiles for step in steps]
    most = max(len(one.cycles) for one in tiles)
    packed = np.zeros((4, len(steps), most, n))
    for number, one in enumerate(tiles):
        packed[0, number, : len(one.cycles)] = one.cycles
        packed[1, number, : len(one.channel)] = one.channel
        packed[2, number, : len(one.instructions)] = one.instructions
        if one.behind is not None:
            packed[3, number, : len(one.behind)] = one.behind
    return tuple(packed)
