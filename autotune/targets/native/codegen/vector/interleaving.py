"""Copies that put vectors side by side, element by element: images into channels-last order, channels that
are shuffled between groups. elementwise.py hands them over; by itself it would store each element alone.

Some registers of neighbours in the operand, shuffled, are as many of neighbours in the result.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from autotune.targets.native.codegen.vector.vector_run import Load, VectorRun
from autotune.targets.native.codegen.writing.ir import FunctionWriter, vector
from autotune.targets.native.codegen.writing.micro_kernel import MicroKernel
from autotune.targets.native.codegen.writing.nest import Dim, merged
from autotune.targets.native.cpu.vector_isa import VectorIsa

COUNTS = (2, 3, 4, 8)
"""Vectors that are put side by side: a third of an element's time by itself (Zen 3, 4 and 3 of them)."""


@dataclass(frozen=True, slots=True)
class Interleaving:
    """result[..., n, k] = operand[..., k, n]: ``across`` is k, neighbours in the result, and ``along`` n,
    neighbours in the operand. Strides are the operand's and the result's; ``offset`` is the operand's."""

    outer: tuple[Dim, ...]
    across: Dim
    along: Dim
    offset: int


def interleaving(run: VectorRun, isa: VectorIsa) -> Interleaving | None:
    """The run as such a copy; None where it is none, or rows are shorter than a register."""
    if len(run.body) != 1 or not isinstance(run.body[0], Load) or len(run.outputs) != 1:
        return None
    if run.outputs[0].streamed or isa.lanes == 1 or run.formats:
        return None
    dims = merged(run.sizes, [*run.inputs, run.outputs[0].strides], leading=len(run.inputs))
    if len(dims) < 2:
        return None
    *outer, along, across = dims
    if across.size not in COUNTS or along.size < isa.lanes:
        return None
    if across.strides[1] != 1 or along.strides != (1, across.size) or across.strides[0] == 0:
        return None
    return Interleaving(tuple(outer), across, along, run.body[0].offset)


def interleaved(copy: Interleaving, isa: VectorIsa) -> MicroKernel:
    """The kernel of such a copy; operands are its operand and its result, which share no memory."""
    writer = FunctionWriter(2)
    source, target = writer.pointers
    _nest(writer, isa, copy, 0, writer.offset(source, copy.offset), target)
    return writer.finish()


def _nest(
    writer: FunctionWriter, isa: VectorIsa, copy: Interleaving, level: int, source: str, target: str
) -> None:
    if level < len(copy.outer):
        dim = copy.outer[level]
        loop = writer.begin(dim.size)
        here, there = _moved(writer, (source, target), loop.index, dim.strides)
        _nest(writer, isa, copy, level + 1, here, there)
        writer.end(loop)
        return
    step = (isa.lanes, isa.lanes * copy.across.size)
    loop = writer.begin(copy.along.size // isa.lanes)
    here, there = _moved(writer, (source, target), loop.index, step)
    _block(writer, isa, copy.across, here, there)
    writer.end(loop)
    if (
        copy.along.size % isa.lanes
    ):  # the last register once more from the end: it copies the same again
        last = copy.along.size - isa.lanes
        here, there = writer.offset(source, last), writer.offset(target, last * copy.across.size)
        _block(writer, isa, copy.across, here, there)


def _moved(
    writer: FunctionWriter, pointers: tuple[str, str], index: str, strides: Sequence[int]
) -> tuple[str, str]:
    here, there = (
        writer.offset(pointer, writer.value(f"mul nsw i64 {index}, {stride}"))
        for pointer, stride in zip(pointers, strides, strict=True)
    )
    return here, there


def _block(writer: FunctionWriter, isa: VectorIsa, across: Dim, source: str, target: str) -> None:
    """A register of every vector."""
    kind = vector(isa.lanes)
    places = [writer.offset(source, k * across.strides[0]) for k in range(across.size)]
    values = [writer.load(kind, place) for place in places]
    for i, value in enumerate(_side_by_side(writer, isa, values)):
        writer.store(kind, value, writer.offset(target, i * isa.lanes))


def _side_by_side(writer: FunctionWriter, isa: VectorIsa, values: list[str]) -> list[str]:
    """Registers' elements in turns. Powers of two by halves, whose shuffles are the cheapest."""
    count, lanes = len(values), isa.lanes
    if count == 1:
        return values
    if count % 2 == 0:
        even = _side_by_side(writer, isa, values[::2])
        odd = _side_by_side(writer, isa, values[1::2])
        turns = [(lane // 2 + lanes * (lane % 2)) for lane in range(2 * lanes)]
        return [
            _shuffled(writer, isa, x, y, [half + pick for pick in turns[:lanes]])
            for x, y in zip(even, odd, strict=True)
            for half in (0, lanes // 2)
        ]
    found = []
    for first in range(0, count * lanes, lanes):
        picks = [divmod(first + lane, count) for lane in range(lanes)]
        total = values[0]
        for k, value in enumerate(values[1:], start=1):
            mask = [
                lanes + n if of == k else (lane if k > 1 else n) if of < k else None
                for lane, (n, of) in enumerate(picks)
            ]
            total = _shuffled(writer, isa, total, value, mask)
        found.append(total)
    return found


def _shuffled(
    writer: FunctionWriter, isa: VectorIsa, x: str, y: str, picks: Sequence[int | None]
) -> str:
    kind = vector(isa.lanes)
    mask = ", ".join(f"i32 {'poison' if pick is None else pick}" for pick in picks)
    return writer.value(f"shufflevector {kind} {x}, {kind} {y}, <{isa.lanes} x i32> <{mask}>")
