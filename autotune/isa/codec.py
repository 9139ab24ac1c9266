"""The binary form of a program: a checked container of 1536-bit words.

Layout, little-endian: magic ``ATTP``, u16 version, u16 zero; name; u32 scratchpad elements; u16
tensor count, each: name, u8 role, u8 format, u8 rank, u32 extents; u16 core count, each: u16 credit
count, u8 credits, u32 instruction count, words of 192 bytes; u32 CRC-32 of all before it. A name is
a u16 byte count and UTF-8. Bits of a word beyond its row's fields are zero.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass
from functools import cache

from autotune.errors import ProgramError
from autotune.isa.fields import HEADER, WORD_BYTES, FieldType
from autotune.isa.formats import Format
from autotune.isa.opcodes import Opcode
from autotune.isa.program import DramTensor, Instruction, Program, Role, fit
from autotune.isa.table import INSTRUCTIONS

MAGIC = b"ATTP"
VERSION = 3
_PREFIX = struct.Struct("<4sHH")
_CRC = struct.Struct("<I")
_U8, _U16, _U32 = struct.Struct("<B"), struct.Struct("<H"), struct.Struct("<I")
_FLOAT32 = struct.Struct("<f")
_ROLES = tuple(Role)


@dataclass(frozen=True, slots=True)
class _Slot:
    """Position of one field in the word."""

    shift: int
    mask: int
    type: FieldType
    sign: int


@cache
def _slots(opcode: Opcode) -> tuple[_Slot, ...]:
    slots = []
    shift = 0
    for field in INSTRUCTIONS[opcode].all_fields:
        sign = 1 << (field.bits - 1) if field.type is FieldType.SIGNED else 0
        slots.append(_Slot(shift, (1 << field.bits) - 1, field.type, sign))
        shift += field.bits
    return tuple(slots)


def encode_word(instruction: Instruction) -> bytes:
    """Encode one instruction as 192 bytes. Float32 bits are kept; a signalling NaN becomes quiet.

    Raises ``ProgramError`` for a value that its field cannot hold.
    """
    if instruction.values[0] not in Opcode._value2member_map_:
        raise ProgramError(f"unknown opcode {instruction.values[0]}")
    opcode = instruction.opcode
    fields = INSTRUCTIONS[opcode].all_fields
    if len(instruction.values) != len(fields):
        raise ProgramError(
            f"{opcode.name} has {len(fields)} fields, not {len(instruction.values)}; "
            "build it with Instruction.make"
        )
    word = 0
    for slot, field, raw in zip(_slots(opcode), fields, instruction.values, strict=True):
        value = fit(opcode, field, raw)
        if slot.type is FieldType.FLOAT:
            value = int.from_bytes(_FLOAT32.pack(value), "little")
        word |= (int(value) & slot.mask) << slot.shift
    return word.to_bytes(WORD_BYTES, "little")


def decode_word(data: bytes) -> Instruction:
    """Decode one instruction from 192 bytes.

    Raises ``ProgramError`` for an unknown opcode, or for bits set beyond the row's fields.
    """
    if len(data) != WORD_BYTES:
        raise ProgramError(f"an instruction word has {WORD_BYTES} bytes, not {len(data)}")
    word = int.from_bytes(data, "little")
    code = word & ((1 << HEADER[0].bits) - 1)
    if code not in Opcode._value2member_map_:
        raise ProgramError(f"unknown opcode {code}")
    opcode = Opcode(code)
    if word >> INSTRUCTIONS[opcode].bits:
        raise ProgramError(
            f"{opcode.name} has bits set beyond its {INSTRUCTIONS[opcode].bits} bits"
        )
    values: list[int | float] = []
    for slot in _slots(opcode):
        bits = (word >> slot.shift) & slot.mask
        if slot.type is FieldType.FLOAT:
            values.append(float(_FLOAT32.unpack(bits.to_bytes(4, "little"))[0]))
        else:
            values.append((bits ^ slot.sign) - slot.sign)
    return Instruction(tuple(values))


def encode(program: Program) -> bytes:
    """Encode the program as bytes; ``decode`` gives an equal program back.

    Raises ``ProgramError`` if a number or a name does not fit the container.
    """
    parts = [_PREFIX.pack(MAGIC, VERSION, 0), _name_bytes(program.name)]
    parts.append(_packed(_U32, program.scratchpad_elements, f"{program.name}: scratchpad elements"))
    parts.append(_packed(_U16, len(program.tensors), f"{program.name}: tensors"))
    for tensor in program.tensors:
        parts.append(_name_bytes(tensor.name))
        parts.append(bytes((_ROLES.index(tensor.role), tensor.format, len(tensor.shape))))
        parts += [
            _packed(_U32, extent, f"tensor {tensor.name!r}: extent") for extent in tensor.shape
        ]
    parts.append(_packed(_U16, len(program.streams), f"{program.name}: cores"))
    for core, (stream, credits) in enumerate(zip(program.streams, program.credits, strict=True)):
        parts.append(_U16.pack(len(credits)))
        parts += [
            _packed(_U8, count, f"{program.name}: credit of core {core}") for count in credits
        ]
        parts.append(_packed(_U32, len(stream), f"{program.name}: instructions of core {core}"))
        parts += [encode_word(instruction) for instruction in stream]
    body = b"".join(parts)
    return body + _CRC.pack(zlib.crc32(body))


def _packed(form: struct.Struct, value: int, what: str) -> bytes:
    limit = (1 << (8 * form.size)) - 1
    if not 0 <= value <= limit:
        raise ProgramError(f"{what} {value} does not fit the binary form (0 to {limit})")
    return form.pack(value)


def _name_bytes(name: str) -> bytes:
    try:
        data = name.encode()
    except UnicodeEncodeError:
        raise ProgramError(f"name {name!r} is not valid Unicode; rename it") from None
    return _packed(_U16, len(data), f"name {name[:32]!r}…: byte count") + data


def decode(data: bytes) -> Program:
    """Decode a program from the bytes of ``encode``.

    Raises ``ProgramError`` with byte offset and reason for anything else. The result is well
    formed, but not verified.
    """
    if len(data) < _PREFIX.size + _CRC.size:
        raise ProgramError(f"offset {len(data)}: the program is cut off; encode it again")
    magic, version, reserved = _PREFIX.unpack_from(data)
    if magic != MAGIC:
        raise ProgramError(f"offset 0: not a binary program (starts with {magic!r}, not {MAGIC!r})")
    if version != VERSION or reserved:
        raise ProgramError(
            f"offset 4: format version {version}.{reserved} is not {VERSION}.0; encode it again"
        )
    end = len(data) - _CRC.size
    stored, actual = _CRC.unpack_from(data, end)[0], zlib.crc32(memoryview(data)[:end])
    if stored != actual:
        raise ProgramError(
            f"offset {end}: checksum {stored:#010x} is not {actual:#010x}: damaged; encode it again"
        )
    return _Reader(data, _PREFIX.size, end).program()


class _Reader:
    """Reads the parts of a container in order; ``offset`` is the position of the next one."""

    def __init__(self, data: bytes, offset: int, end: int) -> None:
        self.data = data
        self.offset = offset
        self.end = end

    def program(self) -> Program:
        name = self.name()
        scratchpad_elements = self.number(_U32)
        tensors = tuple(self.tensor() for _ in range(self.number(_U16)))
        streams: list[tuple[Instruction, ...]] = []
        credits: list[tuple[int, ...]] = []
        for _ in range(self.number(_U16)):
            credits.append(tuple(self.take(self.number(_U16))))
            streams.append(self.stream())
        if self.offset != self.end:
            raise self.error(self.offset, f"{self.end - self.offset} bytes left over")
        try:
            return Program(name, tensors, tuple(streams), tuple(credits), scratchpad_elements)
        except ProgramError as error:
            raise self.error(self.end, str(error)) from None

    def tensor(self) -> DramTensor:
        start = self.offset
        name = self.name()
        role, form, rank = self.take(3)
        if role >= len(_ROLES):
            raise self.error(self.offset - 3, f"unknown tensor role {role}")
        if form >= len(Format):
            raise self.error(self.offset - 2, f"unknown tensor format {form}")
        shape = tuple(self.number(_U32) for _ in range(rank))
        try:
            return DramTensor(name, shape, _ROLES[role], Format(form))
        except ProgramError as error:
            raise self.error(start, str(error)) from None

    def stream(self) -> tuple[Instruction, ...]:
        count = self.number(_U32)
        if count * WORD_BYTES > self.end - self.offset:
            raise self.error(self.offset - 4, f"{count} instructions announced, but the data ends")
        return tuple(self.instruction() for _ in range(count))

    def instruction(self) -> Instruction:
        start = self.offset
        try:
            return decode_word(self.take(WORD_BYTES))
        except ProgramError as error:
            raise self.error(start, str(error)) from None

    def name(self) -> str:
        start = self.offset
        try:
            return self.take(self.number(_U16)).decode()
        except UnicodeDecodeError:
            raise self.error(start, "a name is not UTF-8") from None

    def number(self, form: struct.Struct) -> int:
        return int.from_bytes(self.take(form.size), "little")

    def take(self, count: int) -> bytes:
        start = self.offset
        if count > self.end - start:
            raise self.error(start, f"{count} bytes expected, {self.end - start} left")
        self.offset += count
        return self.data[start : self.offset]

    def error(self, offset: int, reason: str) -> ProgramError:
        return ProgramError(f"offset {offset}: {reason}")
