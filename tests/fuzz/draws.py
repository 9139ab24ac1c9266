"""Values at the edges of what fields and tensors hold; every kind of case draws from here."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from autotune.isa.fields import HEADER, Field, FieldType
from autotune.isa.formats import Format
from autotune.isa.program import DramTensor, Instruction, Role
from autotune.isa.table import INSTRUCTIONS

HEADER_LENGTH = len(HEADER)
FLOATS = (
    0.0,
    -0.0,
    1.0,
    -1.5,
    0.5,
    3.4e38,
    -3.4e38,
    1e-45,
    300.0,
    float("inf"),
    float("-inf"),
    float("nan"),
)
WRONG = (1.5, True, None, "1", 1 << 80, -(1 << 80), 1, float("nan"))
"""What no field, or no field of the other type, may hold; only Python code can put them there."""


class Rng:
    """A numpy generator whose small numbers are drawn by the thousand: one by one they cost more
    than all the rest of a case."""

    __slots__ = ("generator", "words")

    def __init__(self, *seed: int) -> None:
        self.generator = np.random.Generator(np.random.SFC64(seed))
        self.words: list[int] = []

    def word(self) -> int:
        """32 random bits."""
        if not self.words:
            self.words = self.generator.integers(1 << 32, size=512).tolist()
        return self.words.pop()


def chance(rng: Rng, probability: float) -> bool:
    """True with this probability."""
    return rng.word() < probability * 0x1_0000_0000


def below(rng: Rng, end: int) -> int:
    """A whole number in [0, end), end at most 2^32."""
    return rng.word() * end >> 32


def pick(rng: Rng, choices: Sequence[Any]) -> Any:
    """One of several."""
    return choices[below(rng, len(choices))]


def edge_value(rng: Rng, field: Field) -> int | float:
    """A value that the field's bits hold: its limits, 0, 1, its default, small ones, powers of two
    and their neighbours, or any."""
    if field.type is FieldType.FLOAT:
        return pick(rng, FLOATS)
    low, high = field.low, field.high
    choice = below(rng, 8)
    if choice < 5:
        power = (1 << below(rng, field.bits)) * (-1 if low and chance(rng, 0.5) else 1)
        value = (low, high, int(field.default), below(rng, 9), power + below(rng, 3) - 1)[choice]
    else:
        value = (0, 1, low + below(rng, high - low + 1))[choice - 5]
    return min(max(value, low), high)


def changed_field(rng: Rng, instruction: Instruction) -> Instruction:
    """The instruction with one field changed; one whose opcode was changed before may have fewer
    values than its opcode has fields."""
    values: list[int | float] = list(instruction.values)
    fields = INSTRUCTIONS[instruction.opcode].all_fields[: len(values)]
    own = range(HEADER_LENGTH, len(fields))
    place = pick(rng, own) if own and chance(rng, 0.85) else 1 + below(rng, HEADER_LENGTH - 1)
    if fields[place].type is FieldType.FLOAT or chance(rng, 0.7):
        values[place] = edge_value(rng, fields[place])
    else:
        near = int(values[place]) + pick(rng, (-1, 1, 2))
        values[place] = min(max(near, fields[place].low), fields[place].high)
    return Instruction(tuple(values))


def wrong_type(rng: Rng, instruction: Instruction) -> Instruction:
    """The instruction with a value that its field cannot hold at all."""
    values: list[Any] = list(instruction.values)
    values[below(rng, len(values))] = pick(rng, WRONG)
    return Instruction(tuple(values))


def tensor(rng: Rng, number: int) -> DramTensor:
    """A small tensor of any rank, format and role; now and then one with a huge extent."""
    shape = [pick(rng, (1, 1, 2, 3, 5, 8)) for _ in range(1 + below(rng, 5))]
    if chance(rng, 0.03):
        shape[below(rng, len(shape))] = pick(rng, (1 << 16, 1 << 24, (1 << 32) - 1))
    return DramTensor(f"t{number}", tuple(shape), pick(rng, list(Role)), pick(rng, list(Format)))


def contents(rng: Rng, declared: DramTensor) -> bytes:
    """Bytes of a tensor: any bits (NaN, infinities, subnormals), or moderate numbers."""
    count = math.prod(declared.shape)
    if declared.format is Format.FP32 and chance(rng, 0.5):
        return rng.generator.standard_normal(count, np.float32).tobytes()
    return rng.generator.bytes(count * declared.format.bytes)
