"""What one DMA transfer costs: contiguous runs, bursts and row misses of a tile in DRAM."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from autotune.cost_model.tiling import Corner, Floats, Tiling
from autotune.fusion.footprint import Footprint
from autotune.isa.table import ELEMENT_BYTES
from autotune.targets.spec import DramSpec


@dataclass(frozen=True, slots=True)
class Transfer:
    """Of one tile, means over tiles of a kind [n]: bytes asked for, bytes moved in whole bursts,
    contiguous runs, DRAM rows opened, cycles on the channel."""

    useful_bytes: Floats
    moved_bytes: Floats
    runs: Floats
    rows: Floats
    cycles: Floats


def transfer(
    tiling: Tiling,
    footprint: Footprint,
    shape: tuple[int, ...],
    corner: Corner,
    chunk: tuple[int, int] | None,
    dram: DramSpec,
) -> Transfer:
    """A rectangle of a row-major tensor of ``shape``; ``chunk`` is (axis, dimension) where the
    extent of an axis is a reduction piece."""
    run = np.full(tiling.n, 1.0)
    elements = np.full(tiling.n, 1.0)
    aligned = np.zeros(tiling.n)
    whole = np.full(tiling.n, True)
    for axis in reversed(range(len(footprint))):
        inside: Floats | float
        if chunk is not None and axis == chunk[0]:
            inside = corner.sizes[chunk[1]].astype(np.float64)
        else:
            dim = footprint[axis].dim
            inside = tiling.inside(footprint[axis], shape[axis], dim in corner.rests)
        elements = elements * inside
        run = np.where(whole, run * inside, run)
        whole = whole & (inside == shape[axis])
    runs = elements / np.maximum(run, 1.0)
    run_bytes = run * ELEMENT_BYTES
    pitch = math.prod(shape[-1:]) * ELEMENT_BYTES
    aligned = (run_bytes % dram.burst_bytes == 0) & (pitch % dram.burst_bytes == 0)
    slack = np.where(aligned, 0.0, dram.burst_bytes - math.gcd(pitch, dram.burst_bytes))
    bursts = np.where(
        aligned, run_bytes / dram.burst_bytes, (run_bytes + slack) / dram.burst_bytes
    )
    moved = bursts * dram.burst_bytes * runs
    rows = _rows(run_bytes, runs, shape, dram)
    cycles = moved / dram.bytes_per_cycle + rows * dram.row_miss_cycles
    return Transfer(elements * ELEMENT_BYTES, moved, runs, rows, cycles)


def _rows(run_bytes: Floats, runs: Floats, shape: tuple[int, ...], dram: DramSpec) -> Floats:
    """DRAM rows a transfer opens: by its span where runs lie close, else one for each run."""
    pitch = max(1, shape[-1] if shape else 1) * ELEMENT_BYTES
    close = runs * pitch / dram.row_bytes + 1.0
    far = runs * (run_bytes / dram.row_bytes + 1.0)
    rows: Floats = np.minimum(close, far)
    return rows
