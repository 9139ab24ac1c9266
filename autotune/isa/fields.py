"""Fields of an instruction word, its header and its limits; rows are made of them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

WORD_BITS = 1536
WORD_BYTES = WORD_BITS // 8
MAX_RANK = 5
"""Dimensions of a rectangle that one instruction moves or computes on."""
NO_LEVEL = 15
"""Loop level that means 'does not depend on a loop'; levels count from 0, the outermost."""
MAX_LOOP_DEPTH = 14
SEMAPHORES = 256
"""Semaphore ids of one core; id 0 means 'none' in a wait or signal field."""
PARAMETERS = 256
"""Runtime parameters that a program may dispatch on."""
CHAIN_STAGES = 4
CHAIN_SIDES = 2


class FieldType(StrEnum):
    """How the bits of a field are read."""

    UNSIGNED = "unsigned"
    SIGNED = "signed"
    FLOAT = "float32"


@dataclass(frozen=True, slots=True)
class Field:
    """One field of an instruction word."""

    name: str
    bits: int
    doc: str
    type: FieldType = FieldType.UNSIGNED
    default: int | float = 0

    @property
    def low(self) -> int:
        """Smallest value the field holds (integer fields)."""
        return -(1 << (self.bits - 1)) if self.type is FieldType.SIGNED else 0

    @property
    def high(self) -> int:
        """Largest value the field holds (integer fields)."""
        return (1 << (self.bits - (self.type is FieldType.SIGNED))) - 1


HEADER = (
    Field("opcode", 8, "operation code"),
    *(Field(f"wait{i}", 8, "semaphore to take one from before starting, 0 none") for i in range(3)),
    *(Field(f"signal{i}", 8, "semaphore to add one to when done, 0 none") for i in range(3)),
)
