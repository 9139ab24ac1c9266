"""Races of a program: two accesses to a word that no chain of semaphores orders.

The emulator runs such a program in one of its orders and does not notice. Every unit works in
order, and all of them side by side. So two accesses of different units to a word need semaphores
between them if one is a write. Nothing orders accesses of different cores. The replay
(``kernels/emulator/race.h``) keeps vector clocks (Lamport 1978, Mattern 1988). Per word it keeps
the last write and each unit's last read (after Flanagan and Freund, FastTrack, PLDI 2009).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from autotune.errors import ProgramError
from autotune.isa.assembly import instruction_text
from autotune.isa.fields import PARAMETERS
from autotune.isa.formats import ELEMENT_BYTES
from autotune.isa.opcodes import Opcode
from autotune.isa.program import Program, Role, field_index
from autotune.isa.verifier.proof import verify
from autotune.kernels.emulator.races import Replayed

Kind = Literal["RAW", "WAR", "WAW"]
KINDS: tuple[Kind, ...] = ("RAW", "WAR", "WAW")
"""Read after write, write after read, write after write; codes of the replay are the positions."""
SCRATCHPAD = "scratchpad"
EXECUTED_LIMIT = 1 << 26
"""Instructions of one core that are replayed: stamps, and 4 bytes for each, must fit."""
SHADOW_LIMIT_BYTES = 1 << 30
"""Shadow memory of one check."""
_VERBS: dict[Kind, tuple[str, str]] = {
    "RAW": ("reads", "is written"),
    "WAR": ("writes", "is read"),
    "WAW": ("writes", "is written"),
}


@dataclass(frozen=True, slots=True)
class Place:
    """An instruction of a program: its core, its index in the core's stream, its text."""

    core: int
    index: int
    text: str

    def __str__(self) -> str:
        return f"core {self.core}, instruction {self.index} ({self.text})"


@dataclass(frozen=True, slots=True)
class Race:
    """Two accesses that no chain of semaphores orders.

    ``first`` comes first in program order, or is of the lower core. ``core`` is that of ``second``.
    ``element`` is one that both share: a word of the scratchpad, or an element of the DRAM tensor
    ``memory`` in row-major order (the first of its word where a word holds several).
    """

    kind: Kind
    memory: str
    core: int
    first: Place
    second: Place
    element: int

    def __str__(self) -> str:
        now, before = _VERBS[self.kind]
        where = "word" if self.memory == SCRATCHPAD else "element"
        return (
            f"{self.kind} race on {self.memory}, {where} {self.element}: {self.second} {now} "
            f"what {before} by {self.first}; no semaphore orders them"
        )


def find_races(
    program: Program, parameters: Mapping[int, int] | None = None, limit: int = 16
) -> tuple[Race, ...]:
    """Return at most ``limit`` races in the order of the replay; none proves all schedules equal.

    Each pair of instructions appears once per kind and memory. ``parameters`` maps runtime
    parameters to values, for CASE. Raises ``ProgramError`` for a program that the verifier refuses
    (deadlocks among others), for a parameter without a value, and beyond ``EXECUTED_LIMIT`` or
    ``SHADOW_LIMIT_BYTES``.
    """
    if limit < 1:
        raise ProgramError(f"limit {limit}: the number of races to report is at least 1")
    verify(program)
    values = _parameter_values(program, parameters or {})
    shadowed = _shadowed(program)
    findings = Replayed(program, values, shadowed, limit, EXECUTED_LIMIT).run()
    return tuple(_race(program, *map(int, row)) for row in findings.tolist())


def _parameter_values(program: Program, by_number: Mapping[int, int]) -> npt.NDArray[np.int64]:
    place = field_index(Opcode.CASE)["parameter"]
    values = np.zeros(PARAMETERS, np.int64)
    for stream in program.streams:
        for instruction in stream:
            if instruction.values[0] != Opcode.CASE:
                continue
            number = int(instruction.values[place])
            if number not in by_number:
                raise ProgramError(
                    f"{program.name}: dispatches on parameter {number}, which has no value; pass "
                    f"parameters={{{number}: …}}"
                )
            values[number] = by_number[number]
    return values


def _shadowed(program: Program) -> dict[int, int]:
    """Return the words of every written tensor by number; other tensors cannot race."""
    words = {
        number: -(-int(np.prod(tensor.shape, dtype=object)) * tensor.format.bytes // ELEMENT_BYTES)
        for number, tensor in enumerate(program.tensors)
        if tensor.role is Role.OUTPUT
    }
    per_word = 2 if len(program.streams) == 1 else 4
    shadow_bytes = ELEMENT_BYTES * (
        4 * program.scratchpad_elements + per_word * sum(words.values())
    )
    if shadow_bytes > SHADOW_LIMIT_BYTES:
        raise ProgramError(
            f"{program.name}: the race check would shadow its scratchpad and outputs with {shadow_bytes} "
            f"bytes, more than {SHADOW_LIMIT_BYTES}; choose smaller tiles or split the group"
        )
    return words


def _race(program: Program, kind: int, memory: int, first: int, second: int, word: int) -> Race:
    earlier, later = _place(program, first), _place(program, second)
    name, element = SCRATCHPAD, word
    if memory >= 0:
        tensor = program.tensors[memory]
        name, element = tensor.name, word * ELEMENT_BYTES // tensor.format.bytes
    return Race(KINDS[kind], name, later.core, earlier, later, element)


def _place(program: Program, number: int) -> Place:
    """Return the instruction of this number among those of all cores."""
    core = 0
    while number >= len(program.streams[core]):
        number -= len(program.streams[core])
        core += 1
    return Place(core, number, instruction_text(program.streams[core][number]))
