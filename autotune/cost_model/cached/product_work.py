"""Work of a product whose sums stay in registers, in bulk: what ``work_counts.py`` takes a MATMUL for.

Panels are as wide as the generated kernels' blocking chooses (``codegen/gemm/blocking.py``): by its cost function,
without what tells its orders of loops apart. What each part of the work costs is fitted to the machine.
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


PARTS = ("product", "product_waits", "product_broadcasts", "product_tiles", "product_ends")
"""Kinds of work of a product's register tiles."""
BLOCKED_CYCLES: Floats = np.array([1.0, 1.0, SCALAR_CYCLES, TILE_CYCLES, 2.0])
"""Cycles of a unit of each by which kernels are blocked."""


def product_work(vector: Ints, rows: Ints, depth: Ints, lanes: int, pipes: int) -> Floats:
    """Return counts of ``PARTS`` [len(PARTS), ...] for products of ``rows`` × ``depth`` by ``depth`` × ``vector``
    elements, the latter in lanes; all of one shape. A core begins ``pipes`` multiply-adds of vectors per cycle."""
    most = _most_rows(32 if lanes >= WIDE_LANES else 16)
    v, r, k, place = _different(vector.ravel(), rows.ravel(), depth.ravel())
    least: Floats = np.full(len(v), np.inf)
    best: Floats = np.zeros((len(PARTS), len(v)))
    for width in WIDTHS:
        full, rest = np.divmod(v, width * lanes)
        panels = np.full(len(v), width), np.maximum(1, -(-rest // lanes))
        counts = full, np.minimum(rest, 1)
        cycles = BLOCKED_CYCLES @ _panels_work(counts, panels, r, k, most, PIPES)
        work = _panels_work(counts, panels, r, k, most, pipes)
        best = np.where(cycles < least, work, best)
        least = np.minimum(least, cycles)
    found: Floats = best[:, place].reshape(len(PARTS), *vector.shape)
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


def _panels_work(
    counts: tuple[Ints, Ints],
    widths: tuple[Ints, Ints],
    rows: Ints,
    depth: Ints,
    most: Ints,
    pipes: int,
) -> Floats:
    """``counts`` [n] of full panels and of narrower ones, all rows by each."""
    found: Floats = np.zeros((len(PARTS), len(rows)))
    for count, width in zip(counts, widths, strict=True):
        found += count * _panel_work(width, rows, depth, most, pipes)
    return found


def _panel_work(width: Ints, rows: Ints, depth: Ints, most: Ints, pipes: int) -> Floats:
    """All rows by one panel [len(PARTS), n]: bound by FMAs, by loads, or by the FMAs' latency."""
    tiles = -(-rows // most[width])
    each = rows / tiles
    sums = each * width
    bound = np.maximum(np.maximum(sums, LOAD * (each + width)), pipes * LATENCY)
    steps = tiles * depth
    waits = steps * (bound - sums) / pipes
    work: Floats = np.stack([steps * sums / pipes, waits, steps * each, 1.0 * tiles, tiles * sums])
    return work
