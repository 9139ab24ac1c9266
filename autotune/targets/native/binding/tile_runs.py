"""Joins a product of bytes and the vector run on its sums to one call, where nothing else reads these."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

from autotune.isa.formats import Format
from autotune.isa.functions import When
from autotune.targets.native.analysis.copy_elision import Moved, Reads
from autotune.targets.native.analysis.memory_access import MemoryAccess, accesses_of
from autotune.targets.native.analysis.tree import Leaf
from autotune.targets.native.binding.call import Call, Operand, Space
from autotune.targets.native.binding.vector_runs import RunWriter
from autotune.targets.native.codegen.gemm.narrow_shape import NarrowShape
from autotune.targets.native.codegen.kernel_spec import KernelSpec
from autotune.targets.native.codegen.tile_runs.tile_run import TileRun
from autotune.targets.native.codegen.vector.run_weight import has_polynomial
from autotune.targets.native.codegen.vector.vector_run import Load, VectorRun

LONGEST = 40
"""Nodes of a run that joins: its code is written for every register of a tile."""
Sizes = tuple[tuple[int, int], ...]
"""(extent, stride in the sums) of dimensions."""


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
    if sums is None or _is_read(leaf, run, reads) or not _apart(leaf, product, run):
        return None
    spread = _spread(narrow, body, sums)
    if spread is None:
        return None
    others = [operand for i, operand in enumerate(behind.operands) if i != sums]
    operands = [x for x in product.operands if x is not place]
    recipe = KernelSpec(TileRun(narrow, spread, sums), product.kernel.isa)
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


def _is_read(leaf: Leaf, run: RunWriter, reads: Reads) -> bool:
    """Whether anyone but the run may read the product's sums."""
    (written,) = (touch for touch in accesses_of(leaf) if touch.written)
    moved = Moved.of((leaf,))
    readers = (t for t in reads.reading if t.leaf.place not in run.places)
    return any(reads.gets(reader, written, moved) for reader in readers)


def _apart(leaf: Leaf, product: Call, run: RunWriter) -> bool:
    """Whether the run neither stores to what the product reads, nor reads where its sums would be."""
    touches = {touch.operand: touch for touch in accesses_of(leaf)}
    read = [t for name, t in touches.items() if name != "c"]
    for operand, touch in run.results.items():
        if operand.space is Space.SCRATCHPAD and any(_meet(touch, t) for t in read):
            return False
        if operand.space is Space.TENSOR and any(
            x.space is Space.TENSOR and x.number == operand.number for x in product.operands
        ):
            return False
    sums = touches["c"]
    inputs = (t for x, t in run.arguments.items() if x.space is Space.SCRATCHPAD)
    return all(t.format is Format.INT32 or not _meet(t, sums) for t in inputs)


def _meet(touch: MemoryAccess, other: MemoryAccess) -> bool:
    return touch.meets(other.low, other.high)


def _spread(narrow: NarrowShape, run: VectorRun, sums: int) -> VectorRun | None:
    """The run over [m, n1, n0] of the product; None where its dimensions are others."""
    s = narrow.product
    sizes = ((s.m, s.c_m), (s.n1, s.c_n1), (s.n0, s.c_n0))
    chosen = _dimensions(sizes, tuple(zip(run.sizes, run.inputs[sums], strict=True)))
    if chosen is None:
        return None
    inputs = [_strides(each, run.sizes, chosen) for each in run.inputs]
    outputs = [_strides(each.strides, run.sizes, chosen) for each in run.outputs]
    if any(each is None for each in (*inputs, *outputs)):
        return None
    return replace(
        run,
        sizes=tuple(n for n, _ in sizes),
        inputs=tuple(each for each in inputs if each is not None),
        outputs=tuple(
            replace(output, strides=each)
            for output, each in zip(run.outputs, outputs, strict=True)
            if each is not None
        ),
    )


def _dimensions(product: Sizes, run: Sizes) -> tuple[tuple[int, ...], ...] | None:
    """By dimension of the product the run's that make it up, the innermost first."""
    left = sorted((stride, d) for d, (n, stride) in enumerate(run) if n > 1)
    found: list[tuple[int, ...]] = []
    for extent, stride in product:
        chosen: list[int] = []
        while prod(run[d][0] for d in chosen) < extent:
            wanted = stride * prod(run[d][0] for d in chosen)
            following = next((d for step, d in left if step == wanted and d not in chosen), None)
            if following is None:
                return None
            chosen.append(following)
        if prod(run[d][0] for d in chosen) != extent:
            return None
        left = [(step, d) for step, d in left if d not in chosen]
        found.append(tuple(chosen))
    return None if left else tuple(found)


def _strides(
    strides: Sequence[int], sizes: Sequence[int], chosen: Sequence[tuple[int, ...]]
) -> tuple[int, ...] | None:
    """An operand's strides by dimension of the product; None where those that make one up do not join."""
    found: list[int] = []
    for dims in chosen:
        step = strides[dims[0]] if dims else 0
        reached = step
        for d in dims:
            if strides[d] != reached:
                return None
            reached *= sizes[d]
        found.append(step)
    return tuple(found)
