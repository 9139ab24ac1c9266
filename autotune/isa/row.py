"""One row of the instruction table."""

from __future__ import annotations

from dataclasses import dataclass

from autotune.isa.fields import HEADER, Field
from autotune.isa.opcodes import Opcode, Unit


@dataclass(frozen=True, slots=True)
class InstructionRow:
    """One instruction: unit, opcode, fields after the header, meaning."""

    opcode: Opcode
    unit: Unit
    fields: tuple[Field, ...]
    doc: str

    @property
    def all_fields(self) -> tuple[Field, ...]:
        """Header and own fields, in word order."""
        return HEADER + self.fields

    @property
    def bits(self) -> int:
        """Bits in use."""
        return sum(field.bits for field in self.all_fields)
