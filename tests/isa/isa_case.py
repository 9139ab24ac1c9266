"""Programs and Hypothesis strategies that the isa tests share."""

from __future__ import annotations

import struct
from dataclasses import replace
from pathlib import Path

from hypothesis import strategies as st

from autotune.isa.assembly import assemble
from autotune.isa.fields import NO_LEVEL, Field, FieldType
from autotune.isa.formats import Format
from autotune.isa.opcodes import Opcode
from autotune.isa.program import DramTensor, Instruction, Program, Role
from autotune.isa.table import INSTRUCTIONS

GOLDEN = Path(__file__).parent / "golden" / "matmul.tile"


def golden() -> Program:
    """A 64×96 by 96×64 matmul, bias and ReLU in the epilogue: three loops, double-buffered."""
    return assemble(GOLDEN.read_text(encoding="utf-8"))


def changed(program: Program, at: int, **fields: int | float) -> Program:
    """The program with fields of one instruction of core 0 changed."""
    stream = list(program.streams[0])
    stream[at] = stream[at].replace(**fields)
    return with_stream(program, *stream)


def with_stream(program: Program, *stream: Instruction) -> Program:
    """The program with another stream for core 0."""
    return replace(program, streams=(tuple(stream), *program.streams[1:]))


def position(program: Program, opcode: Opcode, occurrence: int = 0) -> int:
    """Where an opcode stands in the stream of core 0."""
    places = [i for i, word in enumerate(program.streams[0]) if word.opcode is opcode]
    return places[occurrence]


def same_bits(a: Program, b: Program) -> bool:
    """Equality that tells −0.0 from 0.0 and finds a NaN equal to itself."""
    return [[_bits(word) for word in stream] for stream in a.streams] == [
        [_bits(word) for word in stream] for stream in b.streams
    ] and replace(a, streams=((),) * len(a.streams)) == replace(b, streams=((),) * len(b.streams))


def _bits(instruction: Instruction) -> list[object]:
    return [
        struct.pack("<f", value) if isinstance(value, float) else value
        for value in instruction.values
    ]


def elements(word: Instruction, name: str, index: list[int], count: list[int]) -> set[int]:
    """Scratchpad elements of one operand along its first dimension, in one execution."""
    part = {key: word.get(f"{name}_{key}") for key in ("base", "step0", "slot", "stride0")}
    level, turn = word.get(f"{name}_level0"), word.get(f"{name}_turn")
    first = part["base"] + (part["step0"] * index[level] if level != NO_LEVEL else 0)
    first += part["slot"] * (count[turn] % 2) if turn != NO_LEVEL else 0
    return {first + i * part["stride0"] for i in range(word.get("size0"))}


def field_values(field: Field) -> st.SearchStrategy[int | float]:
    """Any value that the field holds, its limits and default often."""
    if field.type is FieldType.FLOAT:
        return st.floats(width=32, allow_nan=False)
    edges = st.sampled_from([field.low, field.high, int(field.default)])
    return edges | st.integers(field.low, field.high)


@st.composite
def instructions(draw: st.DrawFn, opcode: Opcode) -> Instruction:
    """An instruction of one opcode with any fields, legal to run or not."""
    fields = {
        field.name: draw(field_values(field))
        for field in INSTRUCTIONS[opcode].all_fields[1:]
        if draw(st.booleans())
    }
    return Instruction.make(opcode, **fields)


@st.composite
def programs(draw: st.DrawFn) -> Program:
    """Any program that can be written down; most of them are not safe to run."""
    text = st.text(st.characters(codec="utf-8"), max_size=8)
    shapes = st.lists(st.integers(1, 2**32 - 1), min_size=1, max_size=5).map(tuple)
    roles, formats = st.sampled_from(Role), st.sampled_from(Format)
    tensors = draw(
        st.lists(
            st.builds(DramTensor, text, shapes, roles, formats),
            max_size=3,
            unique_by=lambda tensor: tensor.name,
        )
    )
    some = st.sampled_from(Opcode).flatmap(instructions)
    streams = draw(st.lists(st.lists(some, max_size=4).map(tuple), min_size=1, max_size=2))
    credits = [tuple(draw(st.lists(st.integers(0, 255), max_size=4))) for _ in range(len(streams))]
    size = draw(st.integers(0, 2**32 - 1))
    return Program(draw(text), tuple(tensors), tuple(streams), tuple(credits), size)
