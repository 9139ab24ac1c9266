"""What one DMA transfer costs: contiguous runs, bursts and rows of a tile in DRAM.

Mirrors ``kernels/dram.h``, in expectation over where tiles begin within bursts and rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from autotune.cost_model.tiling import Corner, Floats, Tiling
from autotune.fusion.footprint import Footprint
from autotune.isa.table import ELEMENT_BYTES
from autotune.schedule.table import Ints
from autotune.targets.spec import HardwareSpec


@dataclass(frozen=True, slots=True)
class Transfer:
    """Of one tile, means over tiles of a kind [n]: bytes asked for, bytes moved in whole bursts,
    contiguous runs, cycles that the channel is taken, and scratchpad elements touched."""

    useful_bytes: Floats
    moved_bytes: Floats
    runs: Floats
    cycles: Floats
    touched: Floats


@dataclass(frozen=True, slots=True)
class _Axis:
    """One dimension of a rectangle: elements inside the tensor, bytes from one to the next, and
    the greatest common divisor of the places (bytes) at which tiles begin along it."""

    inside: Floats | Ints
    extent: int
    pitch_bytes: int
    grain_bytes: Ints | int


def transfer(
    tiling: Tiling,
    footprint: Footprint,
    shape: tuple[int, ...],
    corner: Corner,
    chunk: tuple[int, int] | None,
    spec: HardwareSpec,
) -> Transfer:
    """A rectangle of a row-major tensor of ``shape``; ``chunk`` is (axis, dimension) where the
    extent of an axis is a reduction piece."""
    axes = _axes(tiling, footprint, shape, corner, chunk)
    run_bytes = np.full(tiling.n, float(ELEMENT_BYTES))
    elements = np.ones(tiling.n)
    whole = np.ones(tiling.n, dtype=bool)
    grain = np.zeros(tiling.n, dtype=np.int64)
    for axis in reversed(axes):
        elements = elements * axis.inside
        run_bytes = np.where(whole, run_bytes * axis.inside, run_bytes)
        between = np.where(~whole & (axis.inside > 1), axis.pitch_bytes, 0)
        whole = whole & (axis.inside == axis.extent)
        grain = np.gcd(np.gcd(grain, between), axis.grain_bytes)
    runs = elements * ELEMENT_BYTES / np.maximum(run_bytes, 1.0)
    moved = _bursts(run_bytes, grain, spec.dram.burst_bytes) * spec.dram.burst_bytes * runs
    rows = _rows(axes, run_bytes, spec.dram.row_bytes)
    misses = np.ceil(rows / spec.dram.banks) * spec.dram.row_miss_cycles
    cycles = moved / spec.dram.bytes_per_cycle + np.where(elements > 0, misses, 0.0)
    return Transfer(elements * ELEMENT_BYTES, moved, runs, cycles, elements)


def _axes(
    tiling: Tiling, footprint: Footprint, shape: tuple[int, ...], corner: Corner,
    chunk: tuple[int, int] | None,
) -> list[_Axis]:
    axes = []
    pitch = ELEMENT_BYTES
    for position in reversed(range(len(footprint))):
        axis, extent = footprint[position], shape[position]
        if chunk is not None and position == chunk[0]:
            piece = tiling.size[chunk[1]]
            axes.append(_Axis(corner.sizes[chunk[1]], extent, pitch, piece * pitch))
        else:
            inside = tiling.inside(axis, extent, axis.dim in corner.rests)
            axes.append(_Axis(inside + tiling.zero, extent, pitch, _grain(tiling, axis.dim, axis.scale, axis.offset) * pitch))
        pitch *= extent
    return axes[::-1]


def _grain(tiling: Tiling, dim: int | None, scale: int, offset: int) -> Ints | int:
    """Elements that all beginnings of tiles along a dimension are multiples of; 0: all at 0."""
    if dim is None:
        return max(offset, 0)
    steps = np.where(tiling.parts[dim] > 1, scale * tiling.size[dim], 0)
    grain: Ints = np.gcd(steps, abs(offset))
    return np.where(tiling.parts[dim] > 1, grain, max(offset, 0))


def _bursts(run_bytes: Floats, grain: Ints, burst_bytes: int) -> Floats:
    """Mean bursts of a run that begins at any multiple of ``grain`` bytes: ⌈(phase + run) / burst⌉
    over the phases."""
    step = np.gcd(grain, burst_bytes)
    reached = np.ceil(run_bytes / step) * step
    bursts: Floats = (reached + burst_bytes - step) / burst_bytes
    return np.where(run_bytes > 0, bursts, 0.0)


def _rows(axes: list[_Axis], run_bytes: Floats, row_bytes: int) -> Floats:
    """Mean DRAM rows that a rectangle touches; runs with less than a row between them count as
    one sweep."""
    sweep, rows = run_bytes, np.ones(len(run_bytes))
    together: npt.NDArray[np.bool_] = np.ones(len(run_bytes), dtype=bool)
    for axis in reversed(axes):
        outside = (axis.pitch_bytes >= run_bytes) & (axis.inside > 1)
        together = together & (~outside | (axis.pitch_bytes - sweep < row_bytes))
        sweep = np.where(outside & together, sweep + (axis.inside - 1) * axis.pitch_bytes, sweep)
        rows = np.where(outside & ~together, rows * axis.inside, rows)
    return rows * ((sweep - ELEMENT_BYTES) / row_bytes + 1.0)
