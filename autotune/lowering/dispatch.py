"""Programs of several classes of inputs as one: a runtime parameter chooses by CASE which of them runs.

Each program becomes the body of a CASE, one level deeper, with semaphores of its own. Tensors of one name, shape and
use are shared; those that differ get another name in the later program.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from autotune.errors import ProgramError
from autotune.isa.fields import NO_LEVEL, SEMAPHORES
from autotune.isa.opcodes import Opcode
from autotune.isa.program import DramTensor, Instruction, Program
from autotune.isa.table import INSTRUCTIONS

PARAMETER = 0
"""Runtime parameter that chooses; its value is the place of a program among those that were joined."""
_HEADER_SEMAPHORES = tuple(f"{way}{i}" for way in ("wait", "signal") for i in range(3))


@dataclass(frozen=True, slots=True)
class Dispatching:
    """One program of several. ``names`` are, for each of them, the tensors by the names that they had."""

    program: Program
    names: tuple[Mapping[str, str], ...]


def join(programs: Sequence[Program]) -> Dispatching:
    """Return programs as one, which runs the one whose place is the value of ``PARAMETER``.

    Raises ``ProgramError`` where they need more semaphores or deeper loops than a program may have.
    """
    tensors: list[DramTensor] = []
    names = [_placed(program, number, tensors) for number, program in enumerate(programs)]
    place = {tensor.name: index for index, tensor in enumerate(tensors)}
    cores = max(len(program.streams) for program in programs)
    streams, credits = [], []
    for core in range(cores):
        stream, counts = _joined_core(programs, names, place, core)
        streams.append(stream)
        credits.append(counts)
    joined = Program(
        " or ".join(dict.fromkeys(program.name for program in programs)),
        tuple(tensors),
        tuple(streams),
        tuple(credits),
        max(program.scratchpad_elements for program in programs),
    )
    return Dispatching(joined, tuple(names))


def _placed(program: Program, number: int, tensors: list[DramTensor]) -> dict[str, str]:
    """Add a program's tensors to the table; return their names there."""
    names = {}
    for tensor in program.tensors:
        taken = {one.name: one for one in tensors}
        name = tensor.name
        if taken.get(name, tensor) != tensor:
            name = f"{name}#{number}"
        if name not in taken:
            tensors.append(DramTensor(name, tensor.shape, tensor.role, tensor.format))
        names[tensor.name] = name
    return names


def _joined_core(
    programs: Sequence[Program],
    names: Sequence[Mapping[str, str]],
    place: Mapping[str, int],
    core: int,
) -> tuple[tuple[Instruction, ...], tuple[int, ...]]:
    """Return one core's stream and the counts that its semaphores begin with."""
    stream: list[Instruction] = []
    counts = [0]
    for number, program in enumerate(programs):
        if core >= len(program.streams):
            continue
        offset = len(counts) - 1
        rows = [place[names[number][tensor.name]] for tensor in program.tensors]
        own = program.streams[core]
        body = [_moved(one, rows, offset) for one in own if one.opcode is not Opcode.HALT]
        stream.append(
            Instruction.make(Opcode.CASE, parameter=PARAMETER, low=number, high=number, level=0)
        )
        stream += [*body, Instruction.make(Opcode.END, level=0)]
        counts += _counts(program, core)
    if len(counts) > SEMAPHORES:
        raise ProgramError(
            f"{programs[0].name}: the programs need {len(counts) - 1} semaphores together, there are "
            f"{SEMAPHORES - 1}; keep them apart"
        )
    return (*stream, Instruction.make(Opcode.HALT)), tuple(counts)


def _counts(program: Program, core: int) -> list[int]:
    """Return the first counts of the semaphores that a core's stream names, from number 1 on."""
    used = 0
    for one in program.streams[core]:
        _, semaphores = _fields(one.opcode)
        used = max([used, *(int(one.values[at]) for at in semaphores)])
    credits = program.credits[core][1:]
    return [*credits, *[0] * (used - len(credits))]


def _moved(one: Instruction, rows: Sequence[int], offset: int) -> Instruction:
    """Return an instruction one level deeper, with other places of its tensor and semaphores."""
    values = list(one.values)
    levels, semaphores = _fields(one.opcode)
    is_block = one.opcode in (Opcode.LOOP, Opcode.END, Opcode.CASE)
    for at in levels:
        if is_block or values[at] != NO_LEVEL:
            values[at] = int(values[at]) + 1
            if values[at] >= NO_LEVEL:
                raise ProgramError(f"loops are nested {NO_LEVEL} deep; keep the programs apart")
    for at in semaphores:
        values[at] = int(values[at]) + offset if values[at] else 0
    tensor = _tensor(one.opcode)
    if tensor is not None:
        values[tensor] = rows[int(values[tensor])]
    return Instruction(tuple(values))


@cache
def _fields(opcode: Opcode) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the places of an instruction's levels, and of its semaphores."""
    fields = list(enumerate(INSTRUCTIONS[opcode].all_fields))
    levels = (i for i, f in fields if f.bits == 4 and (f.default == NO_LEVEL or f.name == "level"))
    semaphores = (i for i, f in fields if f.name in (*_HEADER_SEMAPHORES, "semaphore"))
    return tuple(levels), tuple(semaphores)


@cache
def _tensor(opcode: Opcode) -> int | None:
    names = [field.name for field in INSTRUCTIONS[opcode].all_fields]
    return names.index("tensor") if "tensor" in names else None
