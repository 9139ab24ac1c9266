"""The panels of a narrow product: what a kernel's shape says of how its constant factor is packed.

Apart from ``NarrowPacked``, so that programs from disk load without what writes code.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from autotune.targets.native.analysis.affine import NOTHING, Affine
from autotune.targets.native.binding.narrow_packing import NarrowPacked
from autotune.targets.native.codegen.gemm.narrow_shape import NarrowShape, narrow_loops
from autotune.targets.native.codegen.gemm.shape import VectorAxis
from autotune.targets.native.codegen.gemm.tile_plan import tile_plan
from autotune.targets.native.cpu.vector_isa import VectorIsa

if TYPE_CHECKING:
    from autotune.targets.native.analysis.tree import Leaf


def narrow_packed(
    shape: NarrowShape,
    isa: VectorIsa,
    tensor: int = 0,
    at: Affine = NOTHING,
    leaf: Leaf | None = None,
) -> NarrowPacked | None:
    """The packed form of the factor in lanes, which begins ``at`` a place in a tensor that loops of
    ``leaf`` move; None where one moves it backwards."""
    assert shape.product.panel is not None
    moves = tuple((v, 1 if leaf is None else leaf.trips(v), step) for v, step in at.terms)
    if any(step < 0 for _, _, step in moves):
        return None
    name = "a" if shape.axis is VectorAxis.M else "b"
    names = ("m" if name == "a" else "n0", "k2", "k1", "k0")
    axes = tuple((getattr(shape.product, d), getattr(shape.product, f"{name}_{d}")) for d in names)
    _, groups = narrow_loops(shape, isa)
    shift, zero, other = 0, 0, 0
    if not shape.is_bf16:
        shift, zero = shape.lanes.as_read(False)
        takes_signs = isa.dot.group == 2 or tile_plan(shape, isa) is not None
        unsigned = None if takes_signs else isa.dot.unsigned
        _, other = shape.broadcast.as_read(unsigned)
    return NarrowPacked(
        tensor,
        at.first,
        moves,
        axes[0],
        axes[1:],
        shape.product.panel,
        groups.run,
        groups.group,
        shift,
        zero,
        other,
        shape.is_bf16,
    )
