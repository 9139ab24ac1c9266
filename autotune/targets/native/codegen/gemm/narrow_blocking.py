"""How a narrow product is cut into panels and tiles of rows: by vectors, or by tile registers."""

from __future__ import annotations

from dataclasses import replace

from autotune.isa.formats import ELEMENT_BYTES
from autotune.targets.native.codegen.gemm.blocking import Blocking, best_blocking
from autotune.targets.native.codegen.gemm.loops import Loops
from autotune.targets.native.codegen.gemm.narrow_shape import (
    NarrowShape,
    lanes_in_memory,
    narrow_loops,
)
from autotune.targets.native.codegen.gemm.packing import BUFFER_BYTES
from autotune.targets.native.codegen.gemm.tile_plan import tile_blocking, tile_plan
from autotune.targets.native.cpu.vector_isa import VectorIsa

COPIED_GROUP = 4
"""Bytes that a lane multiplies at once where panels are copied: fours as they are, pairs of bytes are widened."""


def narrow_blocking(
    shape: NarrowShape, loops: Loops, isa: VectorIsa, width: int | None
) -> Blocking:
    """The cheapest blocking: of every width, or of panels of ``width``."""
    plan = tile_plan(shape, isa)
    if plan is not None:
        return tile_blocking(plan, loops, isa)
    if shape.is_bf16:
        return best_blocking(loops, isa, width)
    spare = 0 if isa.dot.group == 4 else 1  # the product of pairs before it is added
    _, zero = shape.lanes.as_read(False)
    if zero:
        spare += isa.registers // 4  # sums of rows
    fewer = replace(isa, registers=isa.registers - spare)
    if shape.copies:
        found = best_blocking(loops, fewer, width, outside=False)
        return replace(found, coming=0)
    found = best_blocking(loops, fewer, width)
    return replace(found, coming=-(-found.coming * isa.dot.group // ELEMENT_BYTES))


def narrow_panel_width(shape: NarrowShape, isa: VectorIsa) -> int:
    """The NR to pack the factor in lanes with."""
    plan = tile_plan(replace(shape, product=replace(shape.product, panel=1)), isa)
    if plan is not None:
        return plan.width
    shape = replace(shape, product=replace(shape.product, panel=isa.lanes))
    return narrow_blocking(shape, narrow_loops(shape, isa)[0], isa, None).width


def copied_product(shape: NarrowShape, isa: VectorIsa) -> NarrowShape | None:
    """The product with panels that it copies to the stack; None where it cannot, or where a panel of one register
    is too large for the stack."""
    if shape.is_bf16 or isa.dot.group != COPIED_GROUP:
        return None
    shape = replace(shape, copies=True)
    if lanes_in_memory(shape) is None:
        return None
    _, groups = narrow_loops(shape, isa)
    most = BUFFER_BYTES // (ELEMENT_BYTES * groups.panel_words(isa.lanes)) * isa.lanes
    if most == 0:
        return None
    width = min(narrow_panel_width(shape, isa), most)
    return replace(shape, product=replace(shape.product, panel=width))
