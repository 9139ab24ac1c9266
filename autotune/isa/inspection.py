"""What the verifier looks at in the instructions of each opcode, by field position."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from operator import itemgetter

from autotune.isa.access import ACCESSES, Access
from autotune.isa.notation import LEVEL_POSITIONS
from autotune.isa.rules import RULES, Rule
from autotune.isa.table import INSTRUCTIONS, Opcode, Unit


@dataclass(frozen=True, slots=True)
class Inspection:
    """Getters and constants of one opcode: its queue, loop levels, scratchpad accesses, and the
    rule that its fields obey among themselves."""

    opcode: Opcode
    unit: int
    transfers: bool
    levels: Callable[..., tuple[int, ...]]
    accesses: tuple[Access, ...]
    rule: Rule | None


def _inspection(opcode: Opcode) -> Inspection:
    unit = INSTRUCTIONS[opcode].unit
    return Inspection(
        opcode,
        int(unit),
        unit in (Unit.LOAD, Unit.STORE),
        itemgetter(*LEVEL_POSITIONS[opcode]),
        ACCESSES[opcode],
        RULES.get(opcode),
    )


INSPECTIONS: dict[int | float, Inspection] = {
    int(opcode): _inspection(opcode) for opcode in ACCESSES
}
