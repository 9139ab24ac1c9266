"""A static bound of the work that a program is: what takes too long is skipped, and counted."""

from __future__ import annotations

import math

from autotune.isa.access import EXTENT_FIELDS
from autotune.isa.opcodes import Opcode, Unit
from autotune.isa.program import Instruction, Program, fields_getter
from autotune.isa.table import INSTRUCTIONS

OVERHEAD = 20
"""What an instruction or a trip costs beside its elements, in elements."""
_EXTENTS = {opcode: fields_getter(opcode, *names) for opcode, names in EXTENT_FIELDS.items()}


def _elements(instruction: Instruction) -> int:
    extents = _EXTENTS.get(instruction.opcode)
    return math.prod(extents(instruction.values)) if extents else 1


def work(program: Program, numbers: bool) -> int:
    """Elements that a run of a verified program computes or moves at most; without numbers, only
    those that transfers look at."""
    total = 0
    for stream in program.streams:
        runs = [1]
        for instruction in stream:
            opcode = instruction.opcode
            total += runs[-1] * OVERHEAD
            if opcode in (Opcode.LOOP, Opcode.CASE):
                trips = instruction.get("trips") if opcode is Opcode.LOOP else 1
                runs.append(runs[-1] * trips)
            elif opcode is Opcode.END:
                total += runs.pop() * OVERHEAD
            elif numbers or INSTRUCTIONS[opcode].unit in (Unit.LOAD, Unit.STORE):
                total += runs[-1] * _elements(instruction)
    return total


def tensor_bytes(program: Program) -> int:
    """Bytes of all tensors."""
    return sum(math.prod(tensor.shape) * tensor.format.bytes for tensor in program.tensors)
