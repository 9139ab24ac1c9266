"""What joining a product and the run behind it to one call needs to know, for all kinds of products."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod

from autotune.targets.native.analysis.copy_elision import Moved, Reads
from autotune.targets.native.analysis.memory_access import MemoryAccess, accesses_of
from autotune.targets.native.analysis.tree import Leaf
from autotune.targets.native.binding.vector_runs import RunWriter
from autotune.targets.native.codegen.gemm.shape import GemmShape
from autotune.targets.native.codegen.vector.vector_run import VectorRun

Sizes = tuple[tuple[int, int], ...]
"""(extent, stride in the sums) of dimensions."""


def touches_of(leaf: Leaf) -> Mapping[str, MemoryAccess]:
    """What an instruction accesses, by operand."""
    return {touch.operand: touch for touch in accesses_of(leaf)}


def is_read_elsewhere(leaf: Leaf, run: RunWriter, reads: Reads) -> bool:
    """Whether anyone but the run may read the product's sums."""
    (written,) = (touch for touch in accesses_of(leaf) if touch.written)
    moved = Moved.of((leaf,))
    readers = (t for t in reads.reading if t.leaf.place not in run.places)
    return any(reads.gets(reader, written, moved) for reader in readers)


def meet(touch: MemoryAccess, other: MemoryAccess) -> bool:
    """Whether two accesses may share memory."""
    return touch.meets(other.low, other.high)


def spread(product: GemmShape, run: VectorRun, sums: int) -> VectorRun | None:
    """The run over [m, n1, n0] of the product; None where its dimensions are others."""
    sizes = (
        (product.m, product.c_m),
        (product.n1, product.c_n1),
        (product.n0, product.c_n0),
    )
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
    """An operand's strides by dimension of the product; None where one has no single step."""
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
