"""Outputs that a program stores in full; beside the emulator, which leaves their memory as it finds it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import combinations

from autotune.isa.fields import MAX_RANK, NO_LEVEL
from autotune.isa.opcodes import Opcode
from autotune.isa.program import Instruction, Program, Role, fields_getter

Side = tuple[int, int]
"""First coordinate and one past the last."""
Box = tuple[Side, ...]
BOX_LIMIT = 64
"""Boxes of one tensor that are compared in pairs; a program with more is not looked at."""
_READS = (Opcode.LOAD, Opcode.GATHER, Opcode.LOOKUP)
_PLACE = fields_getter(
    Opcode.STORE,
    *(f"{name}{d}" for d in range(MAX_RANK) for name in ("coord", "step", "level", "size")),
)


def stored_in_full(program: Program) -> frozenset[str]:
    """Return the OUTPUT tensors of which every element is stored and none is read.

    This must hold for any runtime parameters. The test is sufficient, not necessary: each store
    outside of CASEs must fill a box, and a tensor's boxes must lie apart and add up to it.
    """
    read = {
        one.get("tensor") for stream in program.streams for one in stream if one.opcode in _READS
    }
    boxes: dict[int, set[Box]] = {}
    for stream in program.streams:
        for store, trips in _stores(stream):
            number = store.get("tensor")
            box = _box(store, trips, program.tensors[number].shape)
            if box is not None:
                boxes.setdefault(number, set()).add(box)
    return frozenset(
        tensor.name
        for number, tensor in enumerate(program.tensors)
        if tensor.role is Role.OUTPUT
        and number not in read
        and _fill(boxes.get(number, set()), tensor.shape)
    )


def _stores(stream: tuple[Instruction, ...]) -> Iterator[tuple[Instruction, list[int]]]:
    """Yield every STORE that is always executed, with the trips of the loops around it."""
    trips: list[int] = []
    cases: list[int] = []
    for instruction in stream:
        match instruction.opcode:
            case Opcode.LOOP:
                trips.append(instruction.get("trips"))
            case Opcode.CASE:
                cases.append(len(trips))
                trips.append(1)
            case Opcode.END:
                trips.pop()
                if cases and cases[-1] == len(trips):
                    cases.pop()
            case Opcode.STORE if not cases:
                yield instruction, trips


def _box(store: Instruction, trips: list[int], shape: tuple[int, ...]) -> Box | None:
    """Return the box of its tensor that a STORE fills over all trips.

    None if it is empty, has gaps, or is no box because two dimensions move together.
    """
    place = _PLACE(store.values)
    sides: list[Side] = []
    levels: list[int] = []
    for d, extent in enumerate(shape):
        coordinate, step, level, size = place[4 * d : 4 * d + 4]
        reach = 0
        if step != 0 and level != NO_LEVEL and trips[level] > 1:
            if abs(step) > size:
                return None
            levels.append(level)
            reach = step * (trips[level] - 1)
        side = max(0, coordinate + min(0, reach)), min(extent, coordinate + max(0, reach) + size)
        if side[0] >= side[1]:
            return None
        sides.append(side)
    return tuple(sides) if len(set(levels)) == len(levels) else None


def _fill(boxes: set[Box], shape: tuple[int, ...]) -> bool:
    """Return True if boxes lie apart and add up to the whole."""
    if not 1 <= len(boxes) <= BOX_LIMIT:
        return False
    elements = sum(math.prod(high - low for low, high in box) for box in boxes)
    return elements == math.prod(shape) and not any(_meet(a, b) for a, b in combinations(boxes, 2))


def _meet(a: Box, b: Box) -> bool:
    return all(
        low < other_high and other_low < high
        for (low, high), (other_low, other_high) in zip(a, b, strict=True)
    )
