"""Stores past the caches, for results that no one reads while they are there; beside elementwise.py.

An ordinary store first reads its line from memory: a third of an element-wise operator's traffic.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from autotune.isa.formats import Format
from autotune.targets.native.codegen.vector.vector_run import VectorRun
from autotune.targets.native.codegen.writing.ir import FunctionWriter
from autotune.targets.native.codegen.writing.nest import Dim
from autotune.targets.native.cpu.vector_isa import NEON, VectorIsa


def streamed_outputs(
    run: VectorRun, dims: Sequence[Dim], axis: Dim | None, isa: VectorIsa
) -> frozenset[int]:
    """The outputs, by number, whose registers along ``axis`` may be streamed: those that are to be,
    and lie dense with every line a whole number of registers behind the last. x86 only: LLVM makes
    nothing better of it on NEON."""
    if axis is None or isa.name.startswith(NEON.name) or axis.size < isa.lanes:
        return frozenset()
    found = set()
    for o, output in enumerate(run.outputs):
        at = len(run.inputs) + o
        apart = all(dim.strides[at] % isa.lanes == 0 for dim in dims if dim is not axis)
        if output.streamed and run.format(at) is Format.FP32 and axis.strides[at] == 1 and apart:
            found.add(o)
    return frozenset(found)


@contextmanager
def when_aligned(writer: FunctionWriter, isa: VectorIsa, pointers: Sequence[str]) -> Iterator[None]:
    """What is written inside runs if all pointers are at multiples of a register, and then the
    function ends; what is written behind runs if not. Streamed stores are seen by others in order
    only behind a fence."""
    places = [writer.value(f"ptrtoint ptr {pointer} to i64") for pointer in pointers]
    bits = places[0]
    for place in places[1:]:
        bits = writer.value(f"or i64 {bits}, {place}")
    low = writer.value(f"and i64 {bits}, {isa.bytes - 1}")
    aligned = writer.value(f"icmp eq i64 {low}, 0")
    inside, behind = writer.fresh(), writer.fresh()
    writer.branch(aligned, inside, behind)
    writer.block(inside)
    yield
    writer.line("fence seq_cst")
    writer.line("ret void")
    writer.block(behind)
