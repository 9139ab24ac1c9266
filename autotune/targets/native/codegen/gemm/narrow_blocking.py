"""How a narrow product is cut into panels and tiles of rows: by vectors, or by tile registers."""

from __future__ import annotations

from dataclasses import replace

from autotune.isa.formats import ELEMENT_BYTES
from autotune.targets.native.codegen.gemm.blocking import Blocking, best_blocking
from autotune.targets.native.codegen.gemm.loops import Loops
from autotune.targets.native.codegen.gemm.narrow_shape import NarrowShape, narrow_loops
from autotune.targets.native.codegen.gemm.tile_plan import tile_blocking, tile_plan
from autotune.targets.native.cpu.vector_isa import VectorIsa


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
    found = best_blocking(loops, fewer, width)
    return replace(found, coming=-(-found.coming * isa.dot.group // ELEMENT_BYTES))


def narrow_panel_width(shape: NarrowShape, isa: VectorIsa) -> int:
    """The NR to pack the factor in lanes with."""
    plan = tile_plan(replace(shape, product=replace(shape.product, panel=1)), isa)
    if plan is not None:
        return plan.width
    shape = replace(shape, product=replace(shape.product, panel=isa.lanes))
    return narrow_blocking(shape, narrow_loops(shape, isa)[0], isa, None).width
