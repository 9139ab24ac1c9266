"""Joins a product of bytes and the vector run on its sums to one call, where nothing else reads these."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from autotune.isa.formats import Format
from autotune.isa.functions import When
from autotune.targets.native.analysis.copy_elision import Reads
from autotune.targets.native.analysis.tree import Leaf
from autotune.targets.native.binding.call import Call, Operand, Space
from autotune.targets.native.binding.joining import is_read_elsewhere, meet, spread, touches_of
from autotune.targets.native.binding.vector_runs import RunWriter
from autotune.targets.native.codegen.gemm.narrow_shape import NarrowShape
from autotune.targets.native.codegen.kernel_spec import KernelSpec
from autotune.targets.native.codegen.tile_runs.tile_run import TileRun
from autotune.targets.native.codegen.vector.run_weight import has_polynomial
from autotune.targets.native.codegen.vector.vector_run import Load, VectorRun

LONGEST = 40
"""Nodes of a run that joins: its code is written for every register of a tile."""


def with_run(product: Call, leaf: Leaf, run: RunWriter, behind: Call, reads: Reads) -> Call | None:
    """The call of a product, at ``leaf``, and of the run that comes next; None where they stay apart."""
    if not isinstance(product.kernel, KernelSpec) or not isinstance(behind.kernel, KernelSpec):
        return None
    narrow, body = product.kernel.constants, behind.kernel.constants
    if not isinstance(narrow, NarrowShape) or not isinstance(body, VectorRun):
        return None
    if narrow.product.accumulate is not When.NEVER or narrow.product.numbers:
        return None
    if len(body.body) > LONGEST or has_polynomial(body) or any(o.streamed for o in body.outputs):
        return None
    place = product.operands[narrow.product.operands.index("c")]
    sums = _sums(place, body, behind.operands)
    if sums is None or is_read_elsewhere(leaf, run, reads) or not _apart(leaf, product, run):
        return None
    moved = spread(narrow.product, body, sums)
    if moved is None:
        return None
    others = [operand for i, operand in enumerate(behind.operands) if i != sums]
    operands = [x for x in product.operands if x is not place]
    recipe = KernelSpec(TileRun(narrow, moved, sums), product.kernel.isa)
    return Call(recipe, (*operands, *others), packed=product.packed)


def _sums(place: Operand, run: VectorRun, operands: Sequence[Operand]) -> int | None:
    """The input of a run that is a product's sums as they are; None if there is none, or more of them."""
    found = [
        i
        for i in range(len(run.inputs))
        if replace(operands[i], strides=()) == replace(place, strides=(), format=Format.INT32)
    ]
    shifted = {node.operand for node in run.body if isinstance(node, Load) and node.offset}
    return found[0] if len(found) == 1 and found[0] not in shifted else None


def _apart(leaf: Leaf, product: Call, run: RunWriter) -> bool:
    """Whether the run neither stores to what the product reads, nor reads where its sums would be."""
    touches = touches_of(leaf)
    read = [t for name, t in touches.items() if name != "c"]
    for operand, touch in run.results.items():
        if operand.space is Space.SCRATCHPAD and any(meet(touch, t) for t in read):
            return False
        if operand.space is Space.TENSOR and any(
            x.space is Space.TENSOR and x.number == operand.number for x in product.operands
        ):
            return False
    sums = touches["c"]
    inputs = (t for x, t in run.arguments.items() if x.space is Space.SCRATCHPAD)
    return all(t.format is Format.INT32 or not meet(t, sums) for t in inputs)
