"""Happens-before check of a program's execution: does a semaphore order every conflict?

Units start their instructions in order and may otherwise drift apart, so that two accesses of
different units to the same scratchpad element, one of them a write, must be ordered by a chain of
semaphores. The check replays the dynamic instruction stream with one vector clock per unit.
"""

from __future__ import annotations

from collections import defaultdict, deque

import numpy as np

from autotune.isa.program import Instruction, Program
from autotune.isa.table import INSTRUCTIONS, OPERANDS, Opcode, Unit
from oracle import Interpreter

UNITS = 4


class RaceDetector(Interpreter):
    """Collects conflicts instead of numbers; ``races`` are (instruction, earlier access) texts."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.races: list[str] = []

    def run(self) -> list[str]:  # type: ignore[override]
        for stream, credits in zip(self.program.streams, self.program.credits, strict=True):
            n = self.program.scratchpad_elements
            self.scratchpad = np.arange(n, dtype=np.float32)
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

    def _elements(self, i: Instruction, name: str) -> np.ndarray:
        if i.opcode is Opcode.MATMUL:
            dims = {
                "a": ("m", "k2", "k1", "k0"),
                "b": ("k2", "k1", "k0", "n1", "n0"),
                "c": ("m", "n1", "n0"),
                "r": ("m", "n1", "n0"),
            }
            if name == "bias":
                axis = i.get("bias_axis")
                size = [0, i.get("m"), i.get("n0")][axis]
                view = self._view(i, name, [size], [1]) if size else np.zeros(0, np.float32)
            elif name == "r" and not i.get("adds"):
                view = np.zeros(0, np.float32)
            else:
                sizes = [i.get(d) for d in dims[name]]
                view = self._view(i, name, sizes, [i.get(f"{name}_{d}") for d in dims[name]])
        else:
            view = self._rect(i, name)
        return np.unique(view.astype(np.int64))

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
