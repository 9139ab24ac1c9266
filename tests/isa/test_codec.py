"""decode(encode(x)) is x, and anything else is refused with offset and reason."""

import math
import struct
import zlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotune.errors import ProgramError
from autotune.isa.codec import MAGIC, decode, decode_word, encode, encode_word
from autotune.isa.fields import WORD_BYTES
from autotune.isa.formats import Format
from autotune.isa.opcodes import Opcode
from autotune.isa.program import DramTensor, Instruction, Program, Role
from autotune.isa.table import INSTRUCTIONS
from tests.isa.isa_case import golden, instructions, programs, same_bits, with_stream


def sealed(body: bytes) -> bytes:
    """``body`` with the checksum that belongs to it."""
    return body + struct.pack("<I", zlib.crc32(body))


@pytest.mark.parametrize("opcode", Opcode)
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_a_word_decodes_to_the_instruction_it_encodes(opcode, data) -> None:
    instruction = data.draw(instructions(opcode))
    word = encode_word(instruction)
    assert len(word) == WORD_BYTES
    assert encode_word(decode_word(word)) == word
    assert decode_word(word) == instruction


@settings(max_examples=60, deadline=None)
@given(program=programs())
def test_a_program_decodes_to_the_program_it_encodes(program) -> None:
    assert same_bits(decode(encode(program)), program)


def test_fields_lie_in_the_word_where_the_table_puts_them() -> None:
    word = int.from_bytes(
        encode_word(Instruction.make(Opcode.LOOP, trips=5, level=3, wait0=7)), "little"
    )
    assert word == Opcode.LOOP | 7 << 8 | 5 << 56 | 3 << 88


@pytest.mark.parametrize("value", [-0.0, 0.1, 1e-45, math.inf, -math.inf, 3.4e38])
def test_floats_keep_their_float32_bits(value) -> None:
    fill = Instruction.make(Opcode.FILL, p0=value)
    back = decode_word(encode_word(fill)).scalar("p0")
    assert np.float32(back).tobytes() == np.float32(value).tobytes()


def test_the_engine_table_holds_the_same_bits_as_the_word() -> None:
    program = golden()
    table = program.table(0)
    for row, instruction in zip(table, program.streams[0], strict=True):
        assert list(row[: len(instruction.values)]) == [
            struct.unpack("<I", struct.pack("<f", v))[0] if isinstance(v, float) else v
            for v in instruction.values
        ]


def test_numpy_numbers_become_plain_field_values() -> None:
    made = Instruction.make(Opcode.FILL, dst_base=np.int64(3), p0=1)
    assert [type(value) for value in made.values[-1:]] == [float]
    assert made == Instruction.make(Opcode.FILL, dst_base=3, p0=1.0)
    assert type(made.values[7]) is int


@pytest.mark.parametrize("fields", [{"dst_base": 1 << 26}, {"dst_base": 0.5}, {"p0": 1e39}])
def test_a_value_that_does_not_fit_is_refused_when_the_instruction_is_made(fields) -> None:
    with pytest.raises(ProgramError, match=r"FILL\.\w+ = .* does not fit"):
        Instruction.make(Opcode.FILL, **fields)


@pytest.mark.parametrize(
    ("program", "reason"),
    [
        (Program("p", (), ((),), ((300,),), 0), "credit of core 0 300 does not fit"),
        (Program("p", (), ((),), ((),), -1), "scratchpad elements -1 does not fit"),
        (Program("\ud800", (), ((),), ((),), 0), "not valid Unicode"),
        (Program("n" * 70000, (), ((),), ((),), 0), "70000 does not fit"),
        (Program("p", (DramTensor("t", (1 << 32,), Role.INPUT),), ((),), ((),), 0), "extent"),
        (Program("p", (), ((Instruction((99,)),),), ((),), 0), "unknown opcode 99"),
        (Program("p", (), ((Instruction((0, 1)),),), ((),), 0), "HALT has 7 fields, not 2"),
    ],
)
def test_what_the_container_cannot_hold_is_refused(program, reason) -> None:
    with pytest.raises(ProgramError, match=reason):
        encode(program)


def test_every_cut_of_a_program_is_refused_with_its_offset() -> None:
    data = encode(golden())
    for length in range(0, len(data), 7):
        with pytest.raises(ProgramError, match=r"^offset "):
            decode(data[:length])
        with pytest.raises(ProgramError, match=r"^offset "):
            decode(sealed(data[:length]))


def test_a_flipped_bit_is_found_by_the_checksum() -> None:
    data = bytearray(encode(golden()))
    data[200] ^= 4
    with pytest.raises(ProgramError, match=r"checksum .* damaged"):
        decode(bytes(data))


def test_an_unknown_tensor_format_is_refused_with_its_offset() -> None:
    tensor = DramTensor("t", (8,), Role.INPUT, Format.BF16)
    body = bytearray(encode(Program("p", (tensor,), ((),), ((),), 0))[:-4])
    place = body.index(b"t") + 2
    assert body[place] == Format.BF16
    body[place] = len(Format)
    with pytest.raises(ProgramError, match=f"offset {place}: unknown tensor format 6"):
        decode(sealed(bytes(body)))


def test_another_magic_is_refused() -> None:
    with pytest.raises(ProgramError, match="offset 0: not a binary program"):
        decode(b"\x7fELF" + encode(golden())[4:])


def test_another_version_is_refused() -> None:
    with pytest.raises(ProgramError, match="offset 4: format version 9"):
        decode(sealed(MAGIC + b"\x09\x00" + encode(golden())[6:-4]))


def test_bytes_left_over_are_refused() -> None:
    with pytest.raises(ProgramError, match="3 bytes left over"):
        decode(sealed(encode(golden())[:-4] + b"abc"))


def test_an_unknown_opcode_is_refused_with_the_offset_of_its_word() -> None:
    body = bytearray(encode(with_stream(golden(), Instruction.make(Opcode.HALT)))[:-4])
    body[-WORD_BYTES] = 77
    with pytest.raises(ProgramError, match=f"offset {len(body) - WORD_BYTES}: unknown opcode 77"):
        decode(sealed(bytes(body)))


def test_bits_beyond_the_fields_of_an_instruction_are_refused() -> None:
    word = bytearray(encode_word(Instruction.make(Opcode.HALT)))
    word[INSTRUCTIONS[Opcode.HALT].bits // 8] = 1
    with pytest.raises(ProgramError, match="HALT has bits set beyond its 56 bits"):
        decode_word(bytes(word))
