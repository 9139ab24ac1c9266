"""Programs of a network and its variants as one: the emulated machine dispatches on the class of the inputs.

Steps that make the same tensors, by whatever shapes, become one program, which the machine loads once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from autotune.errors import ProgramError
from autotune.isa.formats import Format
from autotune.isa.program import Program, Role
from autotune.isa.verifier.proof import verify
from autotune.lowering.dispatch import PARAMETER, Dispatching, join
from autotune.runtime.execution.program_table import GroupStep, ProgramTable, SharedCall
from autotune.targets.spec import HardwareSpec


def share_programs(
    general: ProgramTable, variants: Sequence[ProgramTable], spec: HardwareSpec
) -> tuple[ProgramTable, ...]:
    """Return the tables with one program for steps that make the same tensors, and differ.

    Every joined program is verified. Programs that need more semaphores or deeper loops than one has stay apart.
    """
    tables = (general, *variants)
    rows = [{step.group.outputs: step for step in table.group_steps} for table in tables]
    made: dict[tuple[int, ...], tuple[SharedCall, ...]] = {}
    calls: list[dict[tuple[str, ...], SharedCall]] = [{} for _ in tables]
    for outputs in rows[0]:
        places = [number for number, row in enumerate(rows) if outputs in row]
        steps = [rows[number][outputs] for number in places]
        programs = list({id(step.program): step.program for step in steps}.values())
        key = tuple(map(id, programs))
        if len(programs) > 1 and key not in made:
            made[key] = _calls(programs, spec)
        for number, step in zip(places, steps, strict=True):
            if made.get(key):
                calls[number][outputs] = made[key][key.index(id(step.program))]
    return tuple(_calling(table, own) for table, own in zip(tables, calls, strict=True))


def count_programs(tables: Sequence[ProgramTable]) -> int:
    """Return the programs that the tables run, each once."""
    steps = (step for table in tables for step in table.group_steps)
    return len({id(step.program if step.call is None else step.call.program) for step in steps})


def _calls(programs: Sequence[Program], spec: HardwareSpec) -> tuple[SharedCall, ...]:
    """Return how each of the programs is called as a part of one; nothing where they stay apart."""
    if any(tensor.format is not Format.FP32 for one in programs for tensor in one.tensors):
        return ()
    try:
        joined = join(programs)
        verify(joined.program, spec.scratchpad_elements)
    except ProgramError:
        return ()
    return tuple(_call(joined, place) for place in range(len(programs)))


def _call(joined: Dispatching, place: int) -> SharedCall:
    own = set(joined.names[place].values())
    idle = {
        tensor.name: np.zeros(tensor.shape, np.float32)
        for tensor in joined.program.tensors
        if tensor.role is not Role.OUTPUT and tensor.name not in own
    }
    return SharedCall(joined.program, joined.names[place], {PARAMETER: place}, idle)


def _calling(table: ProgramTable, calls: dict[tuple[str, ...], SharedCall]) -> ProgramTable:
    steps = (
        replace(step, call=calls.get(step.group.outputs)) if isinstance(step, GroupStep) else step
        for step in table.steps
    )
    return replace(table, steps=tuple(steps))
