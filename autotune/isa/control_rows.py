"""Rows of the control instructions: loops, dispatch, semaphores, marks; part of the table."""

from __future__ import annotations

from autotune.isa.fields import Field, FieldType
from autotune.isa.opcodes import Opcode, Unit
from autotune.isa.row import InstructionRow

_UNIT = Field("unit", 3, "the queue that waits or signals")
_SEM = Field("semaphore", 8, "semaphore id, 1 to 255")

CONTROL_ROWS = (
    InstructionRow(Opcode.HALT, Unit.CONTROL, (), "End of the stream; waits for every unit."),
    InstructionRow(
        Opcode.LOOP,
        Unit.CONTROL,
        (
            Field("trips", 32, "how often the body runs, ≥ 1"),
            Field("level", 4, "nesting level: the number of loops around this one"),
        ),
        "Begin of a hardware loop; its body ends at the matching END.",
    ),
    InstructionRow(
        Opcode.END,
        Unit.CONTROL,
        (Field("level", 4, "level of the loop it closes"),),
        "End of the innermost open loop.",
    ),
    InstructionRow(
        Opcode.WAIT,
        Unit.CONTROL,
        (_UNIT, _SEM),
        "The queue `unit` takes one from `semaphore` before its next instruction.",
    ),
    InstructionRow(
        Opcode.SIGNAL,
        Unit.CONTROL,
        (_UNIT, _SEM),
        "The queue `unit` adds one to `semaphore` when all before it in the queue is done.",
    ),
    InstructionRow(
        Opcode.MARK,
        Unit.CONTROL,
        (Field("id", 16, "profile mark"),),
        "Counters of the instructions behind it in the stream, up to the next MARK, go to "
        "profile mark `id`.",
    ),
    InstructionRow(
        Opcode.CASE,
        Unit.CONTROL,
        (
            Field("parameter", 8, "runtime parameter"),
            Field("low", 32, "smallest value that enters", FieldType.SIGNED),
            Field("high", 32, "largest value that enters", FieldType.SIGNED),
            Field("level", 4, "nesting level: the number of blocks around this one"),
        ),
        "Dispatch: the body, up to the matching END, runs once if the runtime parameter lies in "
        "[low, high], and not at all otherwise.",
    ),
)
