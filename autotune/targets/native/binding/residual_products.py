"""Joins a product and the pass that adds a residual to its result to one call, where nothing else reads the result between.

Sums meet the residual in registers: the result is written once, and not read. A pass of its own moves three times as much as
the product writes, from and to wherever the caches have left it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from autotune.isa.functions import BinaryFn, UnaryFn, When
from autotune.isa.notation import EPILOGUE_FUNCTIONS
from autotune.targets.native.analysis.copy_elision import Reads
from autotune.targets.native.analysis.tree import Leaf
from autotune.targets.native.binding.call import Call, Operand, Space
from autotune.targets.native.binding.joining import is_read_elsewhere, meet, spread, touches_of
from autotune.targets.native.binding.vector_runs import RunWriter
from autotune.targets.native.codegen.gemm.shape import BiasAxis, GemmShape, VectorAxis, vector_axis
from autotune.targets.native.codegen.kernel_spec import KernelSpec
from autotune.targets.native.codegen.vector.vector_run import Binary, Load, Unary, VectorRun

COPY = Unary(UnaryFn.COPY, 2)
ADDITIONS = (Binary(BinaryFn.ADD, 0, 1), Binary(BinaryFn.ADD, 1, 0))


@dataclass(frozen=True, slots=True)
class _Addition:
    """A run that adds an input to another one, the ``sums``, and applies a function."""

    sums: int
    residual: int
    fn: Unary


def with_residual(
    product: Call, leaf: Leaf, run: RunWriter, behind: Call, reads: Reads
) -> Call | None:
    """The call of a product, at ``leaf``, and of the addition that comes next; None where they stay apart."""
    if not isinstance(product.kernel, KernelSpec) or not isinstance(behind.kernel, KernelSpec):
        return None
    shape, body = product.kernel.constants, behind.kernel.constants
    if not isinstance(shape, GemmShape) or not isinstance(body, VectorRun) or not _is_whole(shape):
        return None
    given = dict(zip(shape.operands, product.operands, strict=True))
    added = _addition(body, behind.operands, given["c"])
    if added is None:
        return None
    sums, result = given.pop("c"), behind.operands[-1]
    residual = behind.operands[added.residual]
    if sums.space is Space.TENSOR:
        if not _same_place(sums, result):
            return None
    elif is_read_elsewhere(leaf, run, reads):
        return None
    if not _lies_apart(result, (*given.values(), residual), leaf, run):
        return None
    moved = spread(shape, body, added.sums)
    joined = None if moved is None else _joined(shape, moved, added)
    if joined is None:
        return None
    given |= {"c": result, "r": residual}
    operands = tuple(given[name] for name in joined.operands)
    return Call(KernelSpec(joined, product.kernel.isa), operands, packed=product.packed)


def _is_whole(shape: GemmShape) -> bool:
    """Whether a product is finished by one call, with room for a residual in its end."""
    whole = shape.accumulate is When.NEVER and not shape.numbers
    return whole and not shape.has_residual and shape.fn is UnaryFn.COPY and not shape.group


def _addition(run: VectorRun, operands: Sequence[Operand], sums: Operand) -> _Addition | None:
    """What a run adds to the product's result, which lies at ``sums``; None if it does anything else."""
    if len(run.inputs) != 2 or len(run.outputs) != 1 or run.formats or len(run.body) not in (3, 4):
        return None
    first, second, plus, *rest = run.body
    fn = rest[0] if rest else COPY
    if {first, second} != {Load(0), Load(1)} or plus not in ADDITIONS or not isinstance(fn, Unary):
        return None
    if fn.x != COPY.x or fn.fn not in EPILOGUE_FUNCTIONS:
        return None
    (output,) = run.outputs
    if output.node != len(run.body) - 1 or output.streamed:
        return None
    found = [i for i in (0, 1) if _same_place(operands[i], sums)]
    return _Addition(found[0], 1 - found[0], fn) if len(found) == 1 else None


def _same_place(operand: Operand, other: Operand) -> bool:
    """Whether two operands begin at the same element."""
    return replace(operand, strides=()) == replace(other, strides=())


def _lies_apart(result: Operand, read: Sequence[Operand], leaf: Leaf, run: RunWriter) -> bool:
    """Whether a result shares no memory with what is ``read``: by the product at ``leaf``, but for its sums, and by the run."""
    if result.space is Space.TENSOR:
        return all(x.space is not Space.TENSOR or x.number != result.number for x in read)
    touches = [touch for name, touch in touches_of(leaf).items() if name != "c"]
    touches += [touch for x, touch in run.arguments.items() if x.space is Space.SCRATCHPAD]
    sums = touches_of(leaf)["c"]
    others = [touch for touch in touches if (touch.low, touch.high) != (sums.low, sums.high)]
    return not any(meet(wrote, touch) for wrote in run.results.values() for touch in others)


def _joined(shape: GemmShape, run: VectorRun, added: _Addition) -> GemmShape | None:
    """The product that ends with the addition. None where lanes would run along another axis, or where the residual's elements in
    lanes would not be neighbours."""
    (c_m, c_n1, c_n0), (r_m, r_n1, r_n0) = run.outputs[0].strides, run.inputs[added.residual]
    unpacked = replace(shape, panel=None, c_m=c_m, c_n1=c_n1, c_n0=c_n0)
    axis = vector_axis(unpacked)
    extent, step = (shape.m, r_m) if axis is VectorAxis.M else (shape.n0, r_n0)
    if axis is not vector_axis(shape) or (step != 1 and extent > 1):
        return None
    if shape.epilogue is When.NEVER:  # what it says of an end does not count
        unpacked = replace(unpacked, scale=1.0, bias=BiasAxis.NONE)
    return replace(
        unpacked,
        panel=shape.panel,
        r_m=r_m,
        r_n1=r_n1,
        r_n0=r_n0,
        epilogue=When.ALWAYS,
        adds=True,
        adds_last=True,
        fn=added.fn.fn,
        p0=added.fn.p0,
        p1=added.fn.p1,
    )
