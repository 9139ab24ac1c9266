"""Loads and stores of up to a register of elements, whole or in part, of any stride."""

from __future__ import annotations

from collections.abc import Callable

from autotune.targets.native.codegen.writing.ir import vector
from autotune.targets.native.codegen.writing.vector_builder import VectorBuilder


def load_strip(
    v: VectorBuilder, pointer: str, stride: int, first: int, count: int, rest: float = 0.0
) -> str:
    """Elements ``first`` to ``first + count`` from ``pointer`` on; no others are touched. VectorBuilder
    without an element hold ``rest``; stride 0 fills every lane."""
    writer = v.writer
    if stride == 0:
        return splat(v, writer.load("float", pointer))
    at = writer.offset(pointer, first * stride)
    if count == v.lanes == 1 or (stride == 1 and count == v.lanes):
        return writer.load(v.floats, at)
    if stride == 1:
        return _load_pieces(v, at, count, v.constant(rest))
    total = v.constant(rest) if count < v.lanes else "poison"
    for lane in range(count):
        one = writer.load("float", writer.offset(at, lane * stride))
        total = writer.value(f"insertelement {v.floats} {total}, float {one}, i32 {lane}")
    return total


def store_strip(
    v: VectorBuilder, value: str, pointer: str, stride: int, first: int, count: int
) -> None:
    """The first ``count`` lanes to elements ``first`` to ``first + count``."""
    writer = v.writer
    at = writer.offset(pointer, first * stride)
    if count == v.lanes == 1 or (stride == 1 and count == v.lanes):
        writer.store(v.floats, value, at)
        return
    if stride == 1:
        for begin, size in pieces(count):
            part = extracted(v, value, begin, size)
            writer.store(vector(size), part, writer.offset(at, begin))
        return
    for lane in range(count):
        part = extracted(v, value, lane, 1)
        writer.store("float", part, writer.offset(at, lane * stride))


def splat(v: VectorBuilder, scalar: str) -> str:
    """A float in every lane."""
    if v.lanes == 1:
        return scalar
    one = v.writer.value(f"insertelement {v.floats} poison, float {scalar}, i32 0")
    return v.writer.value(
        f"shufflevector {v.floats} {one}, {v.floats} poison, <{v.lanes} x i32> zeroinitializer"
    )


def extracted(v: VectorBuilder, value: str, begin: int, size: int) -> str:
    """``size`` lanes of a register, from lane ``begin`` on."""
    if v.lanes == 1:
        return value
    if size == 1:
        return v.writer.value(f"extractelement {v.floats} {value}, i32 {begin}")
    mask = ", ".join(f"i32 {begin + lane}" for lane in range(size))
    given = f"{v.floats} {value}, {v.floats} poison, <{size} x i32> <{mask}>"
    return v.writer.value(f"shufflevector {given}")


def filled(v: VectorBuilder, value: str, count: int, rest: float) -> str:
    """A register with ``rest`` in the lanes behind the first ``count``."""
    mask = ", ".join(f"i32 {x if x < count else v.lanes + x}" for x in range(v.lanes))
    given = f"{v.floats} {value}, {v.floats} {v.constant(rest)}, <{v.lanes} x i32> <{mask}>"
    return v.writer.value(f"shufflevector {given}")


def across(v: VectorBuilder, total: str, combined: Callable[[VectorBuilder, str, str], str]) -> str:
    """The lanes of a register combined, half onto half: a float."""
    lanes = v.lanes
    while lanes > 1:
        lanes //= 2
        halves = VectorBuilder(v.writer, v.isa, lanes)
        low, high = extracted(v, total, 0, lanes), extracted(v, total, lanes, lanes)
        v, total = halves, combined(halves, low, high)
    return total


def pieces(count: int) -> list[tuple[int, int]]:
    """(first lane, lanes) of the powers of two that make up ``count``, largest first."""
    out, begin = [], 0
    while begin < count:
        size = 1 << ((count - begin).bit_length() - 1)
        out.append((begin, size))
        begin += size
    return out


def _load_pieces(v: VectorBuilder, pointer: str, count: int, total: str) -> str:
    for begin, size in pieces(count):
        part = v.writer.load(vector(size), v.writer.offset(pointer, begin))
        total = _inserted(v, total, part, begin, size)
    return total


def _inserted(v: VectorBuilder, whole: str, part: str, begin: int, size: int) -> str:
    if size == 1:
        return v.writer.value(f"insertelement {v.floats} {whole}, float {part}, i32 {begin}")
    kind = vector(size)
    widen = ", ".join(f"i32 {lane}" if lane < size else "i32 poison" for lane in range(v.lanes))
    wide = v.writer.value(
        f"shufflevector {kind} {part}, {kind} poison, <{v.lanes} x i32> <{widen}>"
    )
    lanes = range(v.lanes)
    mask = ", ".join(
        f"i32 {v.lanes + lane - begin if begin <= lane < begin + size else lane}" for lane in lanes
    )
    given = f"{v.floats} {whole}, {v.floats} {wide}, <{v.lanes} x i32> <{mask}>"
    return v.writer.value(f"shufflevector {given}")
