"""How wide the panels of a constant factor are, which is packed when a program is loaded: between
blocking.py and binding, apart from the writers of code, which loading does without where all code
is kept."""

from __future__ import annotations

from dataclasses import replace

from autotune.isa.functions import When
from autotune.targets.native.codegen.gemm.blocking import (
    MIDDLE_BYTES,
    STREAMED_BYTES,
    best_blocking,
)
from autotune.targets.native.codegen.gemm.loops import Loops, loops_of, packed
from autotune.targets.native.codegen.gemm.shape import GemmShape
from autotune.targets.native.cpu.vector_isa import VectorIsa

MOST_STEPS, FEW_STEPS = 1024, 128
"""Of the reduction in a block: each passes c once more, 90 cycles a tile (Zen 3); so few are over
before a copy pays."""
FEW_PANELS = 8
"""Fewer, and the copy costs more than it saves."""
FEW_ROWS = 96
"""Fewer, and the other factor is not read often enough to matter."""
VECTORS = 2
"""Of a panel: its steps then are short enough to stay in an L1 cache with the most rows."""
ROW_VECTORS = 4
"""Of a panel that a single row passes by, at most: an L2 cache gives a vector a cycle, so that four sums hide the
latency of a multiply-add. Panels of eight took a third longer (Zen 5, docs/decisions/0107-single-rows.md)."""


def panel_width(shape: GemmShape, isa: VectorIsa) -> int:
    """The NR to pack the factor of ``vector_axis(shape)`` with: a multiple of the lanes."""
    if shape.group:
        return isa.lanes
    loops = packed(loops_of(replace(shape, panel=None)), isa.lanes)
    loops = replace(loops, lane_bytes=shape.panel_format.bytes)
    width = VECTORS * isa.lanes
    if goes_in_blocks(replace(shape, panel=width), loops, width):
        return width
    most = ROW_VECTORS * isa.lanes if _is_row_from_cache(loops) else None
    return best_blocking(loops, isa, most=most).width


def _is_row_from_cache(loops: Loops) -> bool:
    """Whether a single row passes by fp32 panels that an L2 cache keeps from one product to the next."""
    weights = loops.lane_bytes * loops.depth * loops.vector.size
    is_row = loops.row1.size * loops.row0.size == 1
    return is_row and not loops.widens and weights < STREAMED_BYTES


def goes_in_blocks(shape: GemmShape, loops: Loops, width: int) -> bool:
    """Whether blocks pay, and are possible: both factors plain matrices, the one in lanes in fp32 panels
    that are more than stay in an L2 cache; and nothing in c or at its place (a residual may be) that
    partial sums would overwrite. Else all panels may pass by a tile of rows, which stays in an L1
    cache: 28x28 of 512 to 128 channels take 7 % less (Zen 3)."""
    if (
        shape.panel is None
        or loops.widens
        or loops.group
        or len(loops.reductions) > 1
        or loops.reductions[0].broadcast != 1
    ):
        return False
    in_place = shape.accumulate is not When.NEVER or (shape.has_residual and not shape.adds_last)
    if loops.depth > MOST_STEPS and in_place:
        return False
    if 4 * loops.depth * loops.vector.size <= MIDDLE_BYTES:
        return False
    panels = -(-loops.vector.size // width)
    many = panels >= FEW_PANELS and loops.row0.size >= FEW_ROWS and loops.depth >= FEW_STEPS
    return many and loops.outer.size == 1 and loops.row1.size == 1
