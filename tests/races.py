"""Happens-before check of a program's execution: does a semaphore order every conflict?

Units start their instructions in order and may otherwise drift apart, so that two accesses of
different units to the same scratchpad element, one of them a write, must be ordered by a chain of
semaphores. The check replays the dynamic instruction stream with one vector clock per unit.
"""

from __future__ import annotations

from collections import defaultdict, deque

import numpy as np

from autotune.isa.access import FORMAT_FIELDS, MATMUL_DIMENSIONS, STATE_WORDS
from autotune.isa.program import Instruction, Program
from autotune.isa.table import (
    CHAIN_STAGES,
    ELEMENT_BYTES,
    INSTRUCTIONS,
    OPERANDS,
    Format,
    Opcode,
    StageKind,
    Unit,
)
from oracle import Interpreter

UNITS = 4
SIDE_USERS = {
    "side0": (StageKind.WITH0, StageKind.FROM0),
    "side1": (StageKind.WITH1, StageKind.FROM1),
}


class RaceDetector(Interpreter):
    """Collects conflicts instead of numbers; ``races`` are (instruction, earlier access) texts."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.races: list[str] = []

    def run(self) -> list[str]:  # type: ignore[override]
        for stream, credits in zip(self.program.streams, self.program.credits, strict=True):
            n = self.program.scratchpad_elements
            self.index, self.count, self.trips = {}, {}, {}
            self.clock = np.zeros((UNITS, UNITS), np.int64)
            self.wrote = np.zeros((UNITS, n), np.int64)
            self.read = np.zeros((UNITS, n), np.int64)
            self.tokens = defaultdict(deque)
            for semaphore, count in enumerate(credits):
                self.tokens[semaphore].extend(np.zeros(UNITS, np.int64) for _ in range(count))
            self._block(stream, 0, len(stream))
        return self.races

    def _execute(self, i: Instruction) -> None:
        unit = INSTRUCTIONS[i.opcode].unit
        if i.opcode in (Opcode.WAIT, Opcode.SIGNAL):
            unit = Unit(i.get("unit"))
            semaphores = [i.get("semaphore")]
            waits, signals = (semaphores, []) if i.opcode is Opcode.WAIT else ([], semaphores)
        else:
            waits = [i.get(f"wait{k}") for k in range(3) if i.get(f"wait{k}")]
            signals = [i.get(f"signal{k}") for k in range(3) if i.get(f"signal{k}")]
        if unit is Unit.CONTROL:
            return
        for semaphore in waits:
            self.clock[unit] = np.maximum(self.clock[unit], self.tokens[semaphore].popleft())
        self.clock[unit, unit] += 1
        for name, written in OPERANDS.get(i.opcode, ()):
            self._access(i, unit, name, written)
        for semaphore in signals:
            self.tokens[semaphore].append(self.clock[unit].copy())

    def _elements_at(
        self, sizes: list[int], dtype: np.dtype, first_byte: int, steps: list[int]
    ) -> np.ndarray:
        """The words of elements, in place of the elements."""
        at = np.full(sizes, first_byte)
        for d, (size, step) in enumerate(zip(sizes, steps, strict=True)):
            at += (step * np.arange(size)).reshape([-1 if e == d else 1 for e in range(len(sizes))])
        return at // ELEMENT_BYTES

    def _elements(self, i: Instruction, name: str) -> np.ndarray:
        """Words of the scratchpad that an operand touches."""
        field = FORMAT_FIELDS.get((i.opcode, name))
        format = Format.FP32 if field is None else Format(i.get(field))
        if not self._is_present(i, name):
            return np.zeros(0, np.int64)
        if i.opcode is Opcode.MATMUL:
            sizes, strides = self._matmul_extents(i, name)
            view = self._view(i, name, sizes, strides, format)
        elif name == "state":
            sizes, strides = [i.get("size0"), STATE_WORDS], [i.get("state_stride0"), 1]
            view = self._view(i, name, sizes, strides)
        else:
            view = self._rect(i, name, format)
        return np.unique(view)

    def _is_present(self, i: Instruction, name: str) -> bool:
        if name == "bias":
            return i.get("bias_axis") != 0
        if name == "r":
            return i.get("adds") != 0
        users = SIDE_USERS.get(name)
        return users is None or any(i.get(f"stage{k}_kind") in users for k in range(CHAIN_STAGES))

    def _matmul_extents(self, i: Instruction, name: str) -> tuple[list[int], list[int]]:
        if name == "bias":
            return [i.get("m" if i.get("bias_axis") == 1 else "n0")], [1]
        dims = MATMUL_DIMENSIONS[name]
        return [i.get(d) for d in dims], [i.get(f"{name}_{d}") for d in dims]

    def _access(self, i: Instruction, unit: Unit, name: str, written: bool) -> None:
        at = self._elements(i, name)
        for other in set(range(UNITS)) - {int(unit)}:
            seen = self.clock[unit, other]
            if (self.wrote[other, at] > seen).any():
                self.races.append(f"{i.opcode.name}.{name} against a write of {Unit(other).name}")
            if written and (self.read[other, at] > seen).any():
                self.races.append(f"{i.opcode.name}.{name} against a read of {Unit(other).name}")
        mine = self.clock[unit, unit]
        (self.wrote if written else self.read)[unit, at] = mine
