"""What one DMA transfer costs: contiguous runs, bursts and rows of a tile in DRAM.

Mirrors ``kernels/emulator/dram.h``, in expectation over where tiles begin within bursts and rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt

from autotune.cost_model.steps.bursts import TileLine
from autotune.cost_model.steps.tiling import Floats, Tiles, Tiling
from autotune.isa.formats import ELEMENT_BYTES
from autotune.operators.axis_map import AxisMap, Footprint
from autotune.schedule.table import Ints
from autotune.targets.spec import HardwareSpec


@dataclass(frozen=True, slots=True)
class Transfer:
    """Transfer of one tile, as means over tiles of a kind [c, n]: bytes in whole bursts, contiguous runs,
    cycles of the channel."""

    moved_bytes: Floats
    runs: Floats
    cycles: Floats


@dataclass(frozen=True, slots=True)
class _Axis:
    """One dimension of a rectangle: elements inside the tensor, bytes from one to the next, the
    greatest common divisor of the places (bytes) at which tiles begin along it; ``line`` makes its tiles."""

    inside: Floats | Ints | float
    extent: int
    pitch_bytes: int
    grain_bytes: Ints | int
    hop: int
    line: Callable[[], TileLine]


@dataclass(frozen=True, slots=True)
class TransferShape:
    """A tile in its row-major tensor, by dimension; ``elements`` of it that lie inside are means over
    tiles of a kind [c, n]."""

    axes: list[_Axis]
    elements: Floats
    element_bytes: int

    @property
    def useful_bytes(self) -> Floats:
        """What is asked of DRAM."""
        return self.elements * self.element_bytes


def rectangle_of(
    tiling: Tiling,
    footprint: Footprint,
    shape: tuple[int, ...],
    tiles: Tiles,
    chunk: tuple[int, int] | None,
    hops: tuple[int, ...] = (),
    element_bytes: int = ELEMENT_BYTES,
) -> TransferShape:
    """Return the rectangle of a tensor of ``shape``, of so many bytes an element; ``chunk`` is (axis, dimension) where the extent of an axis is a
    reduction piece; ``hops`` from one element taken to the next, per axis."""
    hops = hops or (1,) * len(shape)
    axes = _axes(tiling, footprint, shape, tiles, chunk, hops, element_bytes)
    elements = np.ones(tiles.count.shape)
    for axis in reversed(axes):
        elements = elements * axis.inside
    return TransferShape(axes, elements, element_bytes)


def transfer(
    rectangle: TransferShape,
    tiling: Tiling,
    footprint: Footprint,
    chunk: tuple[int, int] | None,
    trips: Ints,
    spec: HardwareSpec,
) -> Transfer:
    """One rectangle between DRAM and the scratchpad; ``footprint`` and ``chunk`` are what it was made
    of, ``trips`` how often it is moved."""
    axes, elements, size = rectangle.axes, rectangle.elements, rectangle.element_bytes
    run_bytes = np.full(elements.shape, float(size))
    whole = np.ones(elements.shape, dtype=bool)
    for axis in reversed(axes):
        whole = whole & (axis.hop == 1)
        run_bytes = np.where(whole, run_bytes * axis.inside, run_bytes)
        whole = whole & (axis.inside == axis.extent)
    runs = elements * size / np.maximum(run_bytes, 1.0)
    moved = _bursts(axes, run_bytes, spec.dram.burst_bytes) * spec.dram.burst_bytes * runs
    rows = _rows(axes, run_bytes, size, spec.dram.row_bytes)
    misses = (
        _miss_rounds(tiling, footprint, chunk, axes, rows, trips, spec) * spec.dram.row_miss_cycles
    )
    cycles = moved / spec.dram.bytes_per_cycle + np.where(elements > 0, misses, 0.0)
    return Transfer(moved, runs, cycles)


def _axes(
    tiling: Tiling,
    footprint: Footprint,
    shape: tuple[int, ...],
    tiles: Tiles,
    chunk: tuple[int, int] | None,
    hops: tuple[int, ...],
    element_bytes: int,
) -> list[_Axis]:
    axes = []
    dense = element_bytes
    for position in reversed(range(len(footprint))):
        axis, extent, hop = footprint[position], shape[position], hops[position]
        pitch = dense * abs(hop)
        if chunk is not None and position == chunk[0]:
            piece = tiling.size[chunk[1]]
            line = partial(_line, tiling, AxisMap(chunk[1], 1, 0, 1), extent, tiles)
            axes.append(_Axis(tiles.sizes[chunk[1]], extent, pitch, piece * pitch, hop, line))
        else:
            inside = tiling.inside(axis, extent, tiles)
            grain = _grain(tiling, axis) * pitch
            line = partial(_line, tiling, axis, extent, tiles)
            axes.append(_Axis(inside, extent, pitch, grain, hop, line))
        dense *= extent
    return axes[::-1]


def _line(tiling: Tiling, axis: AxisMap, extent: int, tiles: Tiles) -> TileLine:
    """Return the tiles along a dimension of ``extent`` elements."""
    kinds, dim = np.zeros(len(tiles.count), dtype=bool), axis.dim
    if dim is None:
        one, window = tiling.ones, axis.window * tiling.ones
        return TileLine(extent, axis.offset, 0 * one, one, window, window, kinds)
    if dim in tiles.rest:
        kinds = tiles.rest[dim][:, 0]
    size, rest = tiling.size[dim], np.maximum(tiling.rest[dim], 1)
    return TileLine(
        extent,
        axis.offset,
        axis.start(size),
        tiling.full[dim],
        axis.extent(size),
        axis.extent(rest),
        kinds,
    )


def _grain(tiling: Tiling, axis: AxisMap) -> Ints | int:
    """Elements that all beginnings of tiles along a dimension are multiples of; 0: all at 0."""
    dim, offset = axis.dim, axis.offset
    if dim is None:
        return max(offset, 0)
    steps = np.where(tiling.parts[dim] > 1, axis.start(tiling.size[dim]), 0)
    if not offset:
        return steps
    grain: Ints = np.gcd(steps, abs(offset))
    return np.where(tiling.parts[dim] > 1, grain, max(offset, 0))


def _bursts(axes: list[_Axis], run_bytes: Floats, burst_bytes: int) -> Floats:
    """Mean bursts of a run. What lies outside of it shifts its begin by multiples of a power of two, ``grain``;
    the tiles along the dimension that it ends in begin where they do."""
    grain = np.full(run_bytes.shape, burst_bytes, dtype=np.int64)
    found = np.zeros(run_bytes.shape)
    left = run_bytes > 0
    for axis in axes:
        ends = left & (run_bytes > axis.pitch_bytes) & (axis.hop == 1)
        left = left & ~ends
        apart = ends & ((axis.grain_bytes & (grain - 1)) != 0)
        found = np.where(ends, _at_grain(run_bytes, grain, burst_bytes), found)
        if apart.any():
            found = np.where(
                apart, axis.line().bursts(axis.pitch_bytes, grain, apart, burst_bytes), found
            )
        grain = grain | np.where(axis.inside > 1, axis.pitch_bytes, 0) | axis.grain_bytes
        grain = grain & -grain
    return np.where(left, _at_grain(run_bytes, grain, burst_bytes), found)


def _at_grain(run_bytes: Floats, grain: Ints, burst_bytes: int) -> Floats:
    """Mean bursts of runs that begin at any multiple of ``grain``: ⌈(phase + run) / burst⌉ over the phases."""
    bursts: Floats = (np.ceil(run_bytes / grain) * grain + burst_bytes - grain) / burst_bytes
    return bursts


def _rows(axes: list[_Axis], run_bytes: Floats, element_bytes: int, row_bytes: int) -> Floats:
    """Mean DRAM rows that a rectangle touches; runs with less than a row between them count as
    one sweep."""
    sweep, rows = run_bytes, np.ones(run_bytes.shape)
    together: npt.NDArray[np.bool_] = np.ones(run_bytes.shape, dtype=bool)
    for axis in reversed(axes):
        outside = (axis.pitch_bytes >= run_bytes) & (axis.inside > 1)
        together = together & (~outside | (axis.pitch_bytes - sweep < row_bytes))
        sweep = np.where(outside & together, sweep + (axis.inside - 1) * axis.pitch_bytes, sweep)
        rows = np.where(outside & ~together, rows * axis.inside, rows)
    return rows * ((sweep - element_bytes) / row_bytes + 1.0)


def _miss_rounds(
    tiling: Tiling,
    footprint: Footprint,
    chunk: tuple[int, int] | None,
    axes: list[_Axis],
    rows: Floats,
    trips: Ints,
    spec: HardwareSpec,
) -> Floats:
    """How often a transfer waits for rows to open: once per ``banks`` rows, and of few rows only
    if one of them is not open still: one that the tile before it had not reached, or that a
    transfer of another tensor has closed since, of which there are as many as loops around say."""
    advance = np.full(tiling.n, np.inf)
    depth = -tiling.ones
    for position, axis in enumerate(footprint):
        if chunk is not None and position == chunk[0]:
            dim, step = chunk[1], axes[position].pitch_bytes * tiling.size[chunk[1]]
            deeper = tiling.parts[dim] > 1
            advance, depth = np.where(deeper, step, advance), np.where(deeper, 99, depth)
        elif axis.dim is not None:
            step = axes[position].pitch_bytes * axis.start(tiling.size[axis.dim])
            deeper = tiling.position[axis.dim] > depth
            advance = np.where(deeper, step, advance)
            depth = np.where(deeper, tiling.position[axis.dim], depth)
    dram = spec.dram
    others = tiling.transfers / trips - 1.0
    closed = 1.0 - (1.0 - 1.0 / dram.banks) ** (others * np.minimum(rows, dram.banks))
    if tiling.tensor_rows(dram.row_bytes) <= dram.banks:
        closed = np.zeros(rows.shape)  # consecutive rows lie in different banks
    fresh = np.minimum(1.0, advance / dram.row_bytes)
    few = np.where(np.isinf(advance), 1.0, 1.0 - (1.0 - fresh) * (1.0 - closed))
    rounds: Floats = np.where(rows > dram.banks, np.ceil(rows / dram.banks), few)
    return rounds
