"""The kinds of cases: what case number ``i`` of a seed is. Each is a function of a generator alone."""

from __future__ import annotations

import re
import struct
import zlib
from collections.abc import Callable
from dataclasses import replace

from autotune.isa.assembly import disassemble
from autotune.isa.codec import MAGIC, VERSION, encode
from autotune.isa.formats import Format
from autotune.isa.opcodes import Opcode
from autotune.isa.program import DramTensor, Instruction, Program, Role
from tests.fuzz.corpus import corpus
from tests.fuzz.draws import Rng, below, chance, changed_field, edge_value, pick, wrong_type
from tests.fuzz.judge import Subject
from tests.fuzz.sequences import sequence

Kind = Callable[[Rng], Subject]
_TOKEN = re.compile(r"\s+|[A-Za-z_.]\w*|-?\d+|.", re.DOTALL)


def _changed_bytes(rng: Rng, data: bytearray) -> None:
    at = below(rng, len(data))
    while not data[at] and chance(rng, 0.98):  # most bytes are zeros behind a word's fields
        at = below(rng, len(data))
    match below(rng, 12):
        case 0 | 1 | 2 | 3 | 4 | 5:
            data[at] ^= 1 << below(rng, 8)
        case 6:
            data[at] = pick(rng, (0, 1, 127, 128, 255))
        case 7:
            del data[at : at + 1 + below(rng, 300)]
        case 8:
            data[at:at] = rng.generator.bytes(1 + below(rng, 200))
        case 9:
            data[at : at + 4] = struct.pack("<I", pick(rng, (0, 1, 0xFFFF, 0xFFFF_FFFF)))
        case _:
            other = below(rng, len(data))
            data[at : at + 192] = data[other : other + 192]


def encoding(rng: Rng) -> bytes:
    """Random bytes, bare or in a right container; or a valid encoding with changed bytes, under a
    right checksum mostly."""
    begin = MAGIC + struct.pack("<HH", VERSION, 0)
    if chance(rng, 0.1):
        data = rng.generator.bytes(below(rng, 400))
        return data if chance(rng, 0.3) else _sealed(begin + data)
    data = bytearray(encode(pick(rng, corpus()))[:-4])
    for _ in range(1 + below(rng, 3)):
        if data:
            _changed_bytes(rng, data)
    return _sealed(bytes(data)) if chance(rng, 0.95) else bytes(data)


def _sealed(body: bytes) -> bytes:
    return body + struct.pack("<I", zlib.crc32(body))


def text(rng: Rng) -> str:
    """Random characters; or the text of a valid program with changed tokens, lines or characters."""
    if chance(rng, 0.05):
        end = pick(rng, (128, 0x110000))
        return "".join(chr(below(rng, end)) for _ in range(below(rng, 200)))
    lines = disassemble(pick(rng, corpus())).split("\n")
    for _ in range(1 + below(rng, 3)):
        _changed_lines(rng, lines)
    return "\n".join(lines)


def _changed_lines(rng: Rng, lines: list[str]) -> None:
    at, other = below(rng, len(lines)), below(rng, len(lines))
    match below(rng, 8):
        case 0:
            lines[at : at + 1] = []
            lines.append("")
        case 1:
            lines.insert(at, lines[other])
        case 2:
            lines[at], lines[other] = lines[other], lines[at]
        case 3:
            place = below(rng, len(lines[at]) + 1)
            lines[at] = lines[at][:place] + chr(below(rng, 300)) + lines[at][place:]
        case _:
            tokens = _TOKEN.findall(lines[at]) or [" "]
            place = below(rng, len(tokens))
            numbers = ("0", "1", "-1", "15", "65535", "4294967296", "1e400", "nan", "9" * 30)
            theirs = _TOKEN.findall(lines[other]) or ["_"]
            tokens[place] = pick(rng, numbers) if chance(rng, 0.5) else pick(rng, theirs)
            lines[at] = "".join(tokens)


def mutation(rng: Rng) -> Program:
    """A valid program with one change, sometimes two: of a field mostly."""
    program: Program = pick(rng, corpus())
    for _ in range(1 if chance(rng, 0.7) else 2):
        program = _changed(rng, program)
    return program


def _changed(rng: Rng, program: Program) -> Program:
    if chance(rng, 0.1):
        return _changed_frame(rng, program)
    core = below(rng, len(program.streams))
    stream = list(program.streams[core])
    if not stream:
        return program
    at = below(rng, len(stream))
    if chance(rng, 0.9):
        if stream[at].values[0] in Opcode._value2member_map_:
            change = wrong_type if chance(rng, 0.01) else changed_field
            stream[at] = change(rng, stream[at])
    else:
        _moved(rng, stream, at)
    streams = (*program.streams[:core], tuple(stream), *program.streams[core + 1 :])
    return replace(program, streams=streams)


def _moved(rng: Rng, stream: list[Instruction], at: int) -> None:
    match below(rng, 3):
        case 0:
            del stream[at]
        case 1:
            stream.insert(below(rng, len(stream)), stream[at])
        case _:
            other = below(rng, len(stream))
            stream[at], stream[other] = stream[other], stream[at]


def _changed_frame(rng: Rng, program: Program) -> Program:
    """Something beside the instructions: scratchpad, credits, a tensor."""
    choice = below(rng, 3)
    if choice == 0:
        near = program.scratchpad_elements + pick(rng, (-1, 1, -16, 1 << 14))
        return replace(program, scratchpad_elements=pick(rng, (near, near, 0, -1, 1 << 40)))
    if choice == 1 or not program.tensors:
        credits = tuple(below(rng, 3) for _ in range(below(rng, 6)))
        if chance(rng, 0.2):
            credits = (0, pick(rng, (255, 256, -1, 1 << 70)))
        return replace(program, credits=(credits,) * len(program.streams))
    number = below(rng, len(program.tensors))
    tensors = list(program.tensors)
    tensors[number] = _changed_tensor(rng, tensors[number])
    return replace(program, tensors=tuple(tensors))


def _changed_tensor(rng: Rng, tensor: DramTensor) -> DramTensor:
    match below(rng, 4):
        case 0:
            return replace(tensor, role=pick(rng, list(Role)))
        case 1:
            return replace(tensor, format=pick(rng, list(Format)))
        case 2 if len(tensor.shape) < 5:
            return replace(tensor, shape=(*tensor.shape, 1 + below(rng, 3)))
        case _:
            shape = list(tensor.shape)
            d = below(rng, len(shape))
            huge = (1 << 24, (1 << 32) - 1, 1 << 38, 1 << 43, 1 << 62, 1 << 70)
            shape[d] = pick(rng, huge) if chance(rng, 0.1) else max(1, shape[d] + below(rng, 3) - 1)
            return replace(tensor, shape=tuple(shape))


def _anything(rng: Rng) -> Program:
    """Instructions of any opcode whose every field is drawn."""
    words = []
    for _ in range(1 + below(rng, 6)):
        blank = Instruction.make(pick(rng, list(Opcode)))
        fields = [edge_value(rng, field) for field in blank.row.all_fields[1:]]
        words.append(Instruction((blank.values[0], *fields)))
    halt = () if chance(rng, 0.1) else (Instruction.make(Opcode.HALT),)
    base = pick(rng, corpus())
    return replace(base, name="anything", streams=((*words, *halt),), credits=((),))


def instructions(rng: Rng) -> Program:
    """A sequence of instructions: at random altogether, or drawn so that many are accepted."""
    return _anything(rng) if chance(rng, 0.1) else sequence(rng)


KINDS: dict[str, Kind] = {
    "encodings": encoding,
    "texts": text,
    "sequences": instructions,
    "mutations": mutation,
}
TURNS = (
    "encodings",
    "mutations",
    "sequences",
    "texts",
    "mutations",
    "sequences",
    "mutations",
    "sequences",
)
"""Kinds of the cases, in turn."""


def case(seed: int, number: int, kind: str | None = None) -> tuple[str, Subject, Rng]:
    """Kind and subject of case ``number`` of a seed, and the generator to judge it with."""
    name = TURNS[number % len(TURNS)] if kind is None else kind
    return name, KINDS[name](Rng(seed, number, 0)), Rng(seed, number, 1)
