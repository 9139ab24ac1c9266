"""Counts what a program does by walking every trip of every loop: the oracle of features."""

from __future__ import annotations

import itertools
import math
from collections import Counter

from autotune.cost_model.scratchpad.analysis import ScratchpadAnalysis
from autotune.isa.fields import MAX_RANK, NO_LEVEL
from autotune.isa.formats import ELEMENT_BYTES
from autotune.isa.opcodes import Opcode, Unit
from autotune.isa.program import Instruction, Program

UNITS = {Unit.LOAD, Unit.STORE, Unit.MATRIX, Unit.VECTOR}


def walk(program: Program) -> Counter[str]:
    """Instructions by unit, bytes by direction (padding left out), multiply-adds, over all cores."""
    counts: Counter[str] = Counter()
    for stream in program.streams:
        _walk(program, stream, counts)
    return counts


def estimated(of: ScratchpadAnalysis) -> Counter[str]:
    """The same by an analysis of one schedule."""
    counts: Counter[str] = Counter()
    for unit in (Unit.LOAD, Unit.STORE, Unit.MATRIX, Unit.VECTOR):
        count = of.total(lambda step: step.instructions, unit)
        counts[f"{unit.name.lower()}_instructions"] += round(float(count[0]))
    counts["load_bytes"] += round(float(of.loaded_bytes[0]))
    counts["store_bytes"] += round(float(of.stored_bytes[0]))
    counts["multiply_adds"] += round(float(of.multiply_adds[0]))
    return counts


def _walk(program: Program, stream: tuple[Instruction, ...], counts: Counter[str]) -> None:
    index = [0] * 16
    stack: list[tuple[int, int, int]] = []
    at = 0
    while stream[at].opcode is not Opcode.HALT:
        instruction = stream[at]
        if instruction.opcode is Opcode.LOOP:
            level = instruction.get("level")
            index[level] = 0
            stack.append((at, level, instruction.get("trips")))
        elif instruction.opcode is Opcode.END:
            start, level, trips = stack[-1]
            index[level] += 1
            if index[level] < trips:
                at = start
            else:
                index[level] = 0
                stack.pop()
        elif instruction.row.unit in UNITS:
            _count(program, instruction, index, counts)
        at += 1
    assert not stack


def _count(
    program: Program, instruction: Instruction, index: list[int], counts: Counter[str]
) -> None:
    unit = instruction.row.unit
    counts[f"{unit.name.lower()}_instructions"] += 1
    if unit in (Unit.LOAD, Unit.STORE):
        counts[f"{unit.name.lower()}_bytes"] += _bytes(program, instruction, index)
    if unit is Unit.MATRIX:
        counts["multiply_adds"] += math.prod(
            instruction.get(name) for name in ("m", "n1", "n0", "k2", "k1", "k0")
        )


def _bytes(program: Program, instruction: Instruction, index: list[int]) -> int:
    shape = program.tensors[instruction.get("tensor")].shape
    inside = 1
    for d in range(MAX_RANK):
        level, start = instruction.get(f"level{d}"), instruction.get(f"coord{d}")
        if level != NO_LEVEL:
            start += instruction.get(f"step{d}") * index[level]
        extent = shape[d] if d < len(shape) else 1
        steps = itertools.product(*_along(instruction, d))
        inside *= sum(0 <= start + sum(step) < extent for step in steps)
    return inside * ELEMENT_BYTES


def _along(instruction: Instruction, d: int) -> list[range]:
    """Coordinates that a transfer takes along dimension ``d`` of its tensor, from its first on: the sums
    of one of each; a gather's rectangle may run along it several times."""
    if instruction.opcode is not Opcode.GATHER:
        return [range(instruction.get(f"size{d}"))]
    rows = [[instruction.get(f"{x}{e}") for x in ("axis", "size", "hop")] for e in range(MAX_RANK)]
    return [range(0, size * hop, hop) for axis, size, hop in rows if axis == d and size > 1]
