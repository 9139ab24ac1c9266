"""Cycles of a product whose sums stay in registers, in bulk: what ``work_counts.py`` takes a MATMUL for.

The same cost function as the generated kernels' blocking minimises (``codegen/gemm/blocking.py``), without what
tells its orders of loops apart.
"""

from __future__ import annotations

import functools

import numpy as np
import numpy.typing as npt

from autotune.schedule.table import Ints
from autotune.targets.native.codegen.gemm.blocking import (
    LATENCY,
    LOAD,
    PIPES,
    SCALAR_CYCLES,
    TILE_CYCLES,
    most_rows,
)
from autotune.targets.native.cpu.vector_isa import VectorIsa

Floats = npt.NDArray[np.float64]

WIDTHS = (1, 2, 3, 4, 6)
"""Vectors side by side that a panel may have."""
WIDE_LANES = 16
"""With so many lanes a machine has 32 registers, else 16."""


def product_cycles(vector: Ints, rows: Ints, depth: Ints, lanes: int) -> Floats:
    """Cycles of products of ``rows`` × ``depth`` by ``depth`` × ``vector`` elements, the latter in lanes;
    all of one shape."""
    most = _most_rows(32 if lanes >= WIDE_LANES else 16)
    v, r, k, place = _different(vector.ravel(), rows.ravel(), depth.ravel())
    best: Floats = np.full(len(v), np.inf)
    for width in WIDTHS:
        full, rest = np.divmod(v, width * lanes)
        last = np.maximum(1, -(-rest // lanes))
        cycles = full * _panel_cycles(np.full(len(v), width), r, k, most)
        cycles = cycles + np.where(rest > 0, _panel_cycles(last, r, k, most), 0.0)
        best = np.minimum(best, cycles)
    found: Floats = best[place].reshape(vector.shape)
    return found


def _different(vector: Ints, rows: Ints, depth: Ints) -> tuple[Ints, Ints, Ints, Ints]:
    """The sizes that occur, each once, and which of them each product has: there are few."""
    wide, deep = int(rows.max(initial=0)) + 1, int(depth.max(initial=0)) + 1
    assert (int(vector.max(initial=0)) + 1) * wide * deep < 1 << 63, "sizes of a tensor"
    key, place = np.unique((vector * wide + rows) * deep + depth, return_inverse=True)
    outer, k = np.divmod(key, deep)
    v, r = np.divmod(outer, wide)
    return v, r, k, place


@functools.cache
def _most_rows(registers: int) -> Ints:
    """By vectors side by side: rows whose sums fit beside their operands."""
    isa = VectorIsa("any", 1, registers)
    return np.array([1, *(most_rows(isa, width) for width in range(1, registers))], dtype=np.int64)


def _panel_cycles(width: Ints, rows: Ints, depth: Ints, most: Ints) -> Floats:
    """All rows by one panel: bound by FMAs, by loads, or by the FMAs' latency."""
    tiles = -(-rows // most[width])
    each = rows / tiles
    step = np.maximum(np.maximum(each * width, LOAD * (each + width)), PIPES * LATENCY) / PIPES
    tile: Floats = (step + each * SCALAR_CYCLES) * depth + TILE_CYCLES + 2 * each * width
    return tiles * tile
