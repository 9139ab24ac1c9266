"""What one DMA transfer costs: contiguous runs, bursts and rows of a tile in DRAM.

Mirrors ``kernels/emulator/dram.h``, in expectation over where tiles begin within bursts and rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

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
    """One dimension of a rectangle: elements inside the tensor, bytes from one to the next, and
    the greatest common divisor of the places (bytes) at which tiles begin along it."""

    inside: Floats | Ints | float
    extent: int
    pitch_bytes: int
    grain_bytes: Ints | int
    hop: int


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
    spec: HardwareSpec,
) -> Transfer:
    """One rectangle between DRAM and the scratchpad; ``footprint`` and ``chunk`` are what it was made
    of."""
    axes, elements, size = rectangle.axes, rectangle.elements, rectangle.element_bytes
    run_bytes = np.full(elements.shape, float(size))
    whole = np.ones(elements.shape, dtype=bool)
    grain = np.zeros(elements.shape, dtype=np.int64)
    for axis in reversed(axes):
        whole = whole & (axis.hop == 1)
        run_bytes = np.where(whole, run_bytes * axis.inside, run_bytes)
        between = np.where(~whole & (axis.inside > 1), axis.pitch_bytes, 0)
        whole = whole & (axis.inside == axis.extent)
        grain = _common(grain, between, axis.grain_bytes, spec.dram.burst_bytes)
    runs = elements * size / np.maximum(run_bytes, 1.0)
    moved = _bursts(run_bytes, grain, spec.dram.burst_bytes) * spec.dram.burst_bytes * runs
    rows = _rows(axes, run_bytes, size, spec.dram.row_bytes)
    misses = _miss_rounds(tiling, footprint, chunk, axes, rows, spec) * spec.dram.row_miss_cycles
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
            axes.append(_Axis(tiles.sizes[chunk[1]], extent, pitch, piece * pitch, hop))
        else:
            inside = tiling.inside(axis, extent, tiles)
            grain = _grain(tiling, axis) * pitch
            axes.append(_Axis(inside, extent, pitch, grain, hop))
        dense *= extent
    return axes[::-1]


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


def _common(grain: Ints, between: Ints, begins: Ints | int, burst_bytes: int) -> Ints:
    """Return what has the same greatest common divisor with a burst as all three together.

    A burst is a power of two nearly always: then the lowest bit that any of them has is the divisor,
    and NumPy's gcd, at 20 ns an element, is not needed.
    """
    power = burst_bytes & (burst_bytes - 1) == 0
    common: Ints = grain | between | begins if power else np.gcd(np.gcd(grain, between), begins)
    return common


def _bursts(run_bytes: Floats, grain: Ints, burst_bytes: int) -> Floats:
    """Mean bursts of a run that begins at any multiple of ``grain`` bytes (see ``_common``):
    ⌈(phase + run) / burst⌉ over the phases."""
    if burst_bytes & (burst_bytes - 1) == 0:
        held = grain | burst_bytes
        step = held & -held
    else:
        step = np.gcd(grain, burst_bytes)
    reached = np.ceil(run_bytes / step) * step
    bursts: Floats = (reached + burst_bytes - step) / burst_bytes
    return np.where(run_bytes > 0, bursts, 0.0)


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
    spec: HardwareSpec,
) -> Floats:
    """How often a transfer waits for rows to open: once per ``banks`` rows, and of few rows only
    if one of them is not open still: one that the tile before it had not reached, or that a
    transfer of another tensor has closed since."""
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
    others = len(tiling.nest.loads) + len(tiling.nest.stores) - 1
    closed = 1.0 - (1.0 - 1.0 / dram.banks) ** (others * np.minimum(rows, dram.banks))
    if tiling.tensor_rows(dram.row_bytes) <= dram.banks:
        closed = np.zeros_like(closed)  # consecutive rows lie in different banks
    fresh = np.minimum(1.0, advance / dram.row_bytes)
    few = np.where(np.isinf(advance), 1.0, 1.0 - (1.0 - fresh) * (1.0 - closed))
    rounds: Floats = np.where(rows > dram.banks, np.ceil(rows / dram.banks), few)
    return rounds
