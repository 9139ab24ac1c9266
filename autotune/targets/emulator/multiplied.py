"""Formats that a program multiplies; an emulated machine refuses one that its array does not have."""

from __future__ import annotations

from autotune.errors import ProgramError
from autotune.isa.formats import Format
from autotune.isa.opcodes import Opcode
from autotune.isa.program import Program, fields_getter
from autotune.targets.spec import HardwareSpec

_FORMATS = fields_getter(Opcode.MATMUL, "a_format", "b_format")


def check_formats(program: Program, spec: HardwareSpec, name: str) -> None:
    """Return if the arrays of a machine multiply every format that the program does.

    Raises ``ProgramError`` with core, instruction, and formats of the machine called ``name``.
    """
    for core, stream in enumerate(program.streams):
        for place, instruction in enumerate(stream):
            if instruction.opcode is not Opcode.MATMUL:
                continue
            for format in map(Format, _FORMATS(instruction.values)):
                if not spec.multiplies(format):
                    raise ProgramError(_refusal(program, (core, place), format, spec, name))


def _refusal(
    program: Program, at: tuple[int, int], format: Format, spec: HardwareSpec, name: str
) -> str:
    has = ", ".join(one.name for one in Format if spec.multiplies(one))
    key = "bf16" if format is Format.BF16 else "int8"
    return (
        f"{program.name}: instruction {at[1]} of core {at[0]} multiplies {format.name}, the array of "
        f"{name} multiplies {has}; lower it for this target, or set matrix.{key}_macs_per_cell"
    )
