"""Writes loads and stores of the lanes of one register: dense, strided or the first few; beside
ir.py, for generators."""

from __future__ import annotations

import struct

from autotune.targets.native.codegen.writing.ir import FunctionWriter, vector
from autotune.targets.native.cpu.vector_isa import VectorIsa


def constant(value: float) -> str:
    """An fp32 number as LLVM writes it: the bits of the double that equals it."""
    single = struct.unpack("<f", struct.pack("<f", value))[0]
    return f"0x{struct.unpack('<Q', struct.pack('<d', single))[0]:016X}"


def splat(value: float, isa: VectorIsa) -> str:
    """A constant in all lanes, with its type."""
    return f"splat (float {constant(value)})" if isa.lanes > 1 else constant(value)


def broadcast(writer: FunctionWriter, isa: VectorIsa, pointer: str) -> str:
    """One float from memory in all lanes."""
    kind = vector(isa.lanes)
    scalar = writer.load("float", pointer)
    single = writer.value(f"insertelement {kind} poison, float {scalar}, i64 0")
    zeros = f"<{isa.lanes} x i32> zeroinitializer"
    return writer.value(f"shufflevector {kind} {single}, {kind} poison, {zeros}")


def load_lanes(
    writer: FunctionWriter, isa: VectorIsa, pointer: str, count: int, stride: int = 1
) -> str:
    """The first ``count`` lanes from floats ``stride`` apart, zeros in the others. Reads no more."""
    kind = vector(isa.lanes)
    if stride == 1 and count == isa.lanes:
        return writer.load(kind, pointer)
    if stride == 1 and count > 1:
        bits = ", ".join(f"i1 {int(lane < count)}" for lane in range(isa.lanes))
        return writer.call(
            kind,
            f"llvm.masked.load.v{isa.lanes}f32.p0",
            ("ptr", pointer),
            ("i32", "4"),
            (f"<{isa.lanes} x i1>", f"<{bits}>"),
            (kind, "zeroinitializer"),
        )
    value = "zeroinitializer"
    for lane in range(count):
        scalar = writer.load("float", writer.offset(pointer, lane * stride))
        value = writer.value(f"insertelement {kind} {value}, float {scalar}, i64 {lane}")
    return value


def store_lanes(
    writer: FunctionWriter, isa: VectorIsa, value: str, pointer: str, count: int, stride: int = 1
) -> None:
    """Store the first ``count`` lanes to floats ``stride`` apart. Writes no more. A few dense lanes
    go in pieces of powers of two: AVX2's masked store takes 18 operations and more on AMD's."""
    kind, lane = vector(isa.lanes), 0
    if stride == 1 and count == isa.lanes:
        writer.store(kind, value, pointer)
        return
    while lane < count:
        piece = 1 if stride != 1 else 1 << ((count - lane).bit_length() - 1)
        place = writer.offset(pointer, lane * stride)
        if piece == 1:
            part = writer.value(f"extractelement {kind} {value}, i64 {lane}")
        else:
            picks = ", ".join(f"i32 {lane + i}" for i in range(piece))
            part = writer.value(
                f"shufflevector {kind} {value}, {kind} poison, <{piece} x i32> <{picks}>"
            )
        writer.store(vector(piece), part, place)
        lane += piece
