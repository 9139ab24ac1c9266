"""How the units of a core overlap: packs a nest's steps for ``kernels/pipeline``, which lays them out.

Arrays have shape [n], one value per schedule; all schedules of a table are laid out in one call.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from autotune.cost_model.estimate import Best
from autotune.cost_model.steps.step import Step
from autotune.cost_model.steps.tiling import Floats, Tiling
from autotune.fusion.nest import Nest
from autotune.isa.opcodes import Unit
from autotune.kernels.pipeline.layout import lay_out
from autotune.kernels.tape.recorder import Traced, called
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


def flow(
    tiling: Tiling,
    steps: list[Step],
    spec: HardwareSpec,
    least: Floats,
    best: Best | None = None,
) -> Flow:
    """Lay out a nest on all cores that have work; they take turns on the DRAM channel.

    Schedules that cannot be among the ``best`` are left out: of those, Flow is the ``least`` cycles [n] that they take.
    """
    fixed, columns = _packed(tiling, steps)
    columns = (least, *columns)
    layout = Layout(spec, fixed, tuple(column.shape[:-1] for column in columns))
    if any(isinstance(column, Traced) for column in columns):
        return Flow(*called(layout, columns))
    return Flow(*layout.of(columns, None if best is None else Fewest.of(best)))


def _packed(tiling: Tiling, steps: list[Step]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Return what all schedules of a nest have in common, and the columns of each."""
    held = _held(tiling.nest)
    fixed = (
        _ints([_UNITS[step.unit] for step in steps]),
        _ints([-1 if step.unit is Unit.STORE else step.buffer for step in steps]),
        *_rows([_read_buffers(step, held) for step in steps]),
        _ints([_product_of(tiling, step, steps) for step in steps]),
        _ints([_reduction(tiling, step) for step in steps]),
        *_rows([step.effort.tiles.dims for step in steps]),
    )
    columns = (
        _columns([step.level for step in steps], tiling),
        _costs([_pieces(step) for step in steps], tiling),
        *_buffers(tiling),
        *_loops(tiling),
        *_dimensions(tiling, steps),
        tiling.depth,
        _shared(tiling),
        *_tile_costs(steps, tiling),
    )
    return fixed, columns


@dataclass(frozen=True, slots=True)
class Fewest:
    """The fewest ``cycles`` [k] of the schedules that were laid out so far, ascending; they change."""

    cycles: Floats

    @classmethod
    def of(cls, best: Best) -> Fewest:
        """Return the limit of cycles, as none was laid out."""
        return cls(np.full(best.count, float(best.limit)))


@dataclass(frozen=True, slots=True, eq=False)
class Layout:
    """A nest's fixed part, laid out for columns [m, n] that stand one below the other as bits; the first are the least
    cycles."""

    spec: HardwareSpec
    fixed: tuple[Any, ...]
    shapes: tuple[tuple[int, ...], ...]
    """Of each column, without the rows."""

    def __call__(self, words: Ints, fewest: Fewest | None = None) -> Floats:
        """Return cycles, interval and latency [3, n]; with the ``fewest``, only of schedules that may be among them."""
        at = 0
        columns: list[Any] = []
        for shape, kind in zip(self.shapes, KINDS, strict=True):
            size = math.prod(shape)
            columns.append(words[at : at + size].view(kind).reshape(*shape, -1))
            at += size
        return self.of(columns, fewest)

    def of(self, columns: Sequence[Any], fewest: Fewest | None) -> Floats:
        """The same of the columns themselves."""
        least, *rest = map(np.ascontiguousarray, columns)
        if fewest is None:
            return lay_out(self.spec, *self.fixed, *rest)
        best = np.argsort(least, kind="stable"), least, fewest.cycles
        arguments: tuple[Any, ...] = (*self.fixed, *rest, best)
        return lay_out(self.spec, *arguments)


KINDS = (
    *(np.float64, np.int64, np.float64, np.int64, np.int64, np.int64, np.int64, np.int64),
    *(np.int64, np.int64, np.int64, np.int64, np.float64, np.float64, np.float64, np.float64),
)
"""Types of the least cycles, and of the columns of ``lay_out`` in its order."""


def _ints(values: list[int]) -> Ints:
    return np.array(values, dtype=np.int64)


def _rows(lists: list[tuple[int, ...]]) -> tuple[Ints, Ints]:
    """Return where each list begins in the second array, and its end."""
    at = np.cumsum([0, *(len(one) for one in lists)])
    return at.astype(np.int64), _ints([*(x for one in lists for x in one), 0])


def _columns(values: list[Ints], tiling: Tiling) -> Ints:
    if not values:
        return np.zeros((0, tiling.n), dtype=np.int64)
    return np.stack([0 * tiling.ones + value for value in values])


def _costs(values: list[Ints | Floats | float], tiling: Tiling) -> Floats:
    return np.stack([0.0 * tiling.ones + value for value in values])


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
    slots, turns = [], []
    for buffer in tiling.nest.buffers:
        refilled: npt.NDArray[np.bool_] = np.zeros(tiling.n, dtype=bool)
        turn = _NO_LOOP * tiling.ones
        for d in tiling.content(buffer):
            refilled = refilled | (tiling.full[d] > 1)
            if d < tiling.rank:
                turn = np.maximum(turn, np.where(tiling.full[d] > 1, tiling.position[d], _NO_LOOP))
        slots.append(np.where(refilled, tiling.table.buffers, 1))
        if buffer.chunk is not None:  # it alternates from piece to piece
            k = tiling.k_dim(buffer.chunk[0])
            turn = np.where(tiling.parts[k] > 1, _NO_LOOP, turn)
        turns.append(turn)
    return _columns(slots, tiling), _columns(turns, tiling)


def _loops(tiling: Tiling) -> tuple[Ints, Ints, Ints]:
    """Return dimension, full tiles and rests of the loop at each depth [L, n]; the outermost one that cores share
    leaves its rest to them."""
    depth = sum(tiling.divided[: tiling.rank])
    dims, trips, rests = ([], [], [])
    for level in range(max(depth, 1)):
        dim, full, rest = 0 * tiling.ones, tiling.ones, 0 * tiling.ones
        for d in range(tiling.rank):
            if not tiling.divided[d]:
                continue
            here = tiling.position[d] == level
            dim = np.where(here, d, dim)
            full = np.where(here, tiling.full[d], full)
            rest = np.where(here, tiling.rest[d] > 0, rest)
        if level == 0 and depth:
            rest = np.where(tiling.active_cores > 1, 0, rest)
        dims.append(dim)
        trips.append(full)
        rests.append(rest)
    return _columns(dims, tiling), _columns(trips, tiling), _columns(rests, tiling)


def _shared(tiling: Tiling) -> Ints:
    """Return the cores that have work, the tiles of the outermost loop that they share, and 1 where one of them is a
    rest [3, n]."""
    rest = 0 * tiling.ones
    for d in range(tiling.rank):
        rest = np.where((tiling.position[d] == 0) & (tiling.rest[d] > 0), 1, rest)
    return _columns([tiling.active_cores, tiling.outer_parts, rest], tiling)


def _dimensions(tiling: Tiling, steps: list[Step]) -> tuple[Ints, Ints]:
    """Return full pieces and rests of every dimension [D, n]; of a reduction those that are not skipped."""
    full, rest = list(tiling.full), [rest > 0 for rest in tiling.rest]
    for step in steps:
        if step.unit is Unit.MATRIX and step.stage.contraction is not None:
            k = tiling.k_dim(step.stage.contraction)
            full[k] = np.maximum(np.rint(step.pieces).astype(np.int64) - rest[k], 1)
    return _columns(full, tiling), _columns(rest, tiling)


def _tile_costs(steps: list[Step], tiling: Tiling) -> tuple[Floats, ...]:
    """Return busy cycles, channel cycles and instructions of one run, and the cycles behind its last read, by
    kind of tile [S, K, n]."""
    tiles = [step.effort.tiles for step in steps]
    most = max(len(one.cycles) for one in tiles)

    def padded(kinds: Floats) -> Floats:
        return np.concatenate([kinds, np.zeros((most - len(kinds), tiling.n))])

    none = np.zeros((0, tiling.n))
    return (
        np.stack([padded(one.cycles) for one in tiles]),
        np.stack([padded(one.channel) for one in tiles]),
        np.stack([padded(one.instructions) for one in tiles]),
        np.stack([padded(none if one.behind is None else one.behind) for one in tiles]),
    )
