"""Loads and stores of narrow elements, up to a register of them, of any stride: fp32 between the two."""

from __future__ import annotations

from autotune.isa.formats import Format
from autotune.targets.native.codegen.writing.strips import load_strip, pieces
from autotune.targets.native.codegen.writing.vector_builder import VectorBuilder

ELEMENTS = {
    Format.FP32: "float",
    Format.BF16: "i16",
    Format.FP16: "i16",
    Format.INT8: "i8",
    Format.UINT8: "i8",
    Format.INT32: "float",
}
"""Type of an element in memory; integers of a word go by way of floats of the same bits."""
LIMITS = {Format.INT8: (-128.0, 127.0), Format.UINT8: (0.0, 255.0)}
"""Least and largest number of the formats that results are rounded to."""
MAGIC = 12582912.0
"""1.5 · 2^23: a small number added to it is rounded to nearest, ties to even, in the lowest bits."""


def load_narrow(
    v: VectorBuilder, pointer: str, stride: int, first: int, count: int, format: Format
) -> str:
    """Elements ``first`` to ``first + count`` from ``pointer`` on, as fp32; no others are touched.
    VectorBuilder without an element hold 0; stride 0 fills every lane."""
    if format is Format.INT32:
        words = v.bits(load_strip(v, pointer, stride, first, count))
        return v.writer.value(f"sitofp {v.integers} {words} to {v.floats}")
    narrow = loaded(v, pointer, stride, first, count, ELEMENTS[format])
    kind = _kind(v.lanes, ELEMENTS[format])
    if format is Format.FP16 and v.isa.widens_fp16:
        halves = v.writer.value(f"bitcast {kind} {narrow} to {_kind(v.lanes, 'half')}")
        return v.writer.value(f"fpext {_kind(v.lanes, 'half')} {halves} to {v.floats}")
    extend = "sext" if format is Format.INT8 else "zext"
    wide = v.writer.value(f"{extend} {kind} {narrow} to {v.integers}")
    if format is Format.BF16:
        return v.from_bits(v.writer.value(f"shl {v.integers} {wide}, {v.integer(16)}"))
    if format is Format.FP16:
        return _widened_fp16(v, wide)
    return v.writer.value(f"sitofp {v.integers} {wide} to {v.floats}")


def _widened_fp16(v: VectorBuilder, bits: str) -> str:
    """Return fp32 numbers of the FP16 in the lowest 16 bits, on a CPU that does not widen them."""
    digits = v.whole("and", bits, v.integer(0x7FFF))
    small = v.mul(v.from_whole(v.whole("and", bits, v.integer(0x3FF))), v.constant(2.0**-24))
    shifted = v.whole("shl", digits, v.integer(13))
    normal = v.from_bits(v.whole("add", shifted, v.integer(112 << 23)))
    special = v.from_bits(v.whole("add", shifted, v.integer(224 << 23)))
    number = v.from_whole(digits)
    wide = v.select(v.compare("oge", number, v.constant(0x7C00)), special, normal)
    wide = v.select(v.compare("olt", number, v.constant(0x400)), small, wide)
    sign = v.whole("shl", v.whole("and", bits, v.integer(0x8000)), v.integer(16))
    return v.from_bits(v.whole("or", v.bits(wide), sign))


def store_narrow(
    v: VectorBuilder, value: str, pointer: str, stride: int, first: int, count: int, format: Format
) -> None:
    """The first ``count`` lanes, rounded and saturated, to elements ``first`` to ``first + count``."""
    element = ELEMENTS[format]
    bits = _rounded(v, value, format)
    narrow = v.writer.value(f"trunc {v.integers} {bits} to {_kind(v.lanes, element)}")
    at = v.writer.offset(pointer, first * stride, element)
    if stride == 1 or v.lanes == 1:
        for begin, size in pieces(count):
            part = _part(v, narrow, begin, size, element)
            _store(v, part, v.writer.offset(at, begin, element), size, element)
        return
    for lane in range(count):
        part = _part(v, narrow, lane, 1, element)
        _store(v, part, v.writer.offset(at, lane * stride, element), 1, element)


def _rounded(v: VectorBuilder, value: str, format: Format) -> str:
    """Integers whose lowest bits are the nearest number that the format has."""
    match format:
        case Format.BF16:
            return _rounded_half(v, value)
        case Format.FP16:
            return _rounded_fp16(v, value)
        case _:
            return _rounded_byte(v, value, format)


def _rounded_fp16(v: VectorBuilder, value: str) -> str:
    """Integers whose lowest 16 bits are the nearest FP16; every NaN becomes the quiet one of its sign."""
    near = v.abs(v.near_fp16(value))
    exponent = v.whole("ashr", v.bits(near), v.integer(13))
    bits = v.from_bits(v.whole("sub", exponent, v.integer(112 << 10)))
    steps = v.mul(v.at_most(near, v.constant(1.0)), v.constant(2.0**24))
    small = v.from_bits(v.writer.value(f"fptosi {v.floats} {steps} to {v.integers}"))
    bits = v.select(v.compare("olt", near, v.constant(2.0**-14)), small, bits)
    beyond = v.compare("ogt", near, v.constant(65504.0))
    bits = v.select(beyond, v.from_bits(v.integer(0x7C00)), bits)
    bits = v.select(v.compare("uno", value, value), v.from_bits(v.integer(0x7E00)), bits)
    sign = v.whole("and", v.whole("ashr", v.bits(value), v.integer(16)), v.integer(0x8000))
    return v.whole("or", v.bits(bits), sign)


def _rounded_half(v: VectorBuilder, value: str) -> str:
    """Integers whose lowest 16 bits are the nearest BF16; every NaN becomes the quiet one of its sign."""
    bits = v.whole("ashr", v.bits(v.near_bf16(value)), v.integer(16))
    quiet = v.whole("or", v.whole("and", bits, v.integer(0x8000)), v.integer(0x7FC0))
    where = v.compare("uno", value, value)
    return v.bits(v.select(where, v.from_bits(quiet), v.from_bits(bits)))


def _rounded_byte(v: VectorBuilder, value: str, format: Format) -> str:
    """Integers whose lowest 8 bits are the nearest number that the format has."""
    low, high = (v.constant(limit) for limit in LIMITS[format])
    if format is Format.INT8:
        value = v.select(v.compare("uno", value, value), v.constant(0.0), value)
    number = v.select(v.compare("ogt", value, low), value, low)  # 0 for NaN if that is the lowest
    return v.bits(v.add(v.at_most(number, high), v.constant(MAGIC)))


def _kind(lanes: int, element: str) -> str:
    return f"<{lanes} x {element}>" if lanes > 1 else element


def _store(v: VectorBuilder, value: str, pointer: str, size: int, element: str) -> None:
    v.writer.line(f"store {_kind(size, element)} {value}, ptr {pointer}, align 1")


def _part(v: VectorBuilder, value: str, begin: int, size: int, element: str) -> str:
    """``size`` lanes, from ``begin`` on."""
    if size == v.lanes:
        return value
    kind = _kind(v.lanes, element)
    if size == 1:
        return v.writer.value(f"extractelement {kind} {value}, i32 {begin}")
    mask = ", ".join(f"i32 {begin + lane}" for lane in range(size))
    return v.writer.value(f"shufflevector {kind} {value}, {kind} poison, <{size} x i32> <{mask}>")


def loaded(
    v: VectorBuilder, pointer: str, stride: int, first: int, count: int, element: str
) -> str:
    """Elements ``first`` to ``first + count`` from ``pointer`` on, as they are; lanes without one hold 0."""
    writer, kind = v.writer, _kind(v.lanes, element)
    at = writer.offset(pointer, first * stride, element)
    if v.lanes == 1 or (stride == 1 and count == v.lanes):
        return _load(v, at, kind)
    if stride == 0:
        one = writer.value(f"insertelement {kind} poison, {element} {_load(v, at, element)}, i32 0")
        zeros = f"<{v.lanes} x i32> zeroinitializer"
        return writer.value(f"shufflevector {kind} {one}, {kind} poison, {zeros}")
    total = "zeroinitializer"
    runs = pieces(count) if stride == 1 else [(lane, 1) for lane in range(count)]
    for begin, size in runs:
        part = _load(v, writer.offset(at, begin * stride, element), _kind(size, element))
        total = _inserted(v, total, part, begin, size, element)
    return total


def _load(v: VectorBuilder, pointer: str, kind: str) -> str:
    return v.writer.value(f"load {kind}, ptr {pointer}, align 1")


def _inserted(v: VectorBuilder, whole: str, part: str, begin: int, size: int, element: str) -> str:
    writer, kind = v.writer, _kind(v.lanes, element)
    if size == 1:
        return writer.value(f"insertelement {kind} {whole}, {element} {part}, i32 {begin}")
    own, lanes = _kind(size, element), range(v.lanes)
    widen = ", ".join(f"i32 {lane}" if lane < size else "i32 poison" for lane in lanes)
    wide = writer.value(f"shufflevector {own} {part}, {own} poison, <{v.lanes} x i32> <{widen}>")
    mask = ", ".join(
        f"i32 {v.lanes + lane - begin if begin <= lane < begin + size else lane}" for lane in lanes
    )
    given = f"{kind} {whole}, {kind} {wide}, <{v.lanes} x i32> <{mask}>"
    return writer.value(f"shufflevector {given}")
