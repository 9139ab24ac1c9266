"""What the verifier looks at in the instructions of each opcode, by field position."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from operator import itemgetter

from autotune.isa.access import ACCESSES, EXTENTS, Access
from autotune.isa.notation import CODES, EPILOGUE_FUNCTIONS, LEVEL_POSITIONS
from autotune.isa.program import field_index
from autotune.isa.table import INSTRUCTIONS, MAX_RANK, Opcode, UnaryFn


@dataclass(frozen=True, slots=True)
class Inspection:
    """Getters and constants of one opcode: loop levels, extents, scratchpad accesses, and
    (name, position, known codes) of each field that holds a code."""

    opcode: Opcode
    unit: int
    levels: Callable[..., tuple[int, ...]]
    extents: Callable[..., tuple[int, ...]]
    accesses: tuple[Access, ...]
    codes: tuple[tuple[str, int, frozenset[int]], ...]


def _inspection(opcode: Opcode) -> Inspection:
    index = field_index(opcode)
    codes = []
    for name, codes_of_field in CODES.get(opcode, {}).items():
        is_epilogue = opcode is Opcode.MATMUL and codes_of_field is UnaryFn
        known = EPILOGUE_FUNCTIONS if is_epilogue else tuple(codes_of_field)
        codes.append((name, index[name], frozenset(map(int, known))))
    return Inspection(
        opcode,
        int(INSTRUCTIONS[opcode].unit),
        itemgetter(*LEVEL_POSITIONS[opcode]),
        EXTENTS[opcode],
        ACCESSES[opcode],
        tuple(codes),
    )


INSPECTIONS: dict[int, Inspection] = {int(opcode): _inspection(opcode) for opcode in ACCESSES}


def _beyond(opcode: Opcode, rank: int) -> Callable[..., tuple[int, ...]]:
    """Coordinates and steps, and but for GATHER sizes, of the dimensions that a tensor of ``rank``
    does not have."""
    index = field_index(opcode)
    parts = ("coord", "step") if opcode is Opcode.GATHER else ("coord", "step", "size")
    return itemgetter(*(index[f"{part}{d}"] for part in parts for d in range(rank, MAX_RANK)))


BEYOND = {
    (int(opcode), rank): _beyond(opcode, rank)
    for opcode in (Opcode.LOAD, Opcode.STORE, Opcode.GATHER)
    for rank in range(1, MAX_RANK)
}
NOTHING_BEYOND = {
    (opcode, rank): (0,) * (2 * (MAX_RANK - rank)) + (1,) * (MAX_RANK - rank)
    if opcode != Opcode.GATHER
    else (0,) * (2 * (MAX_RANK - rank))
    for opcode, rank in BEYOND
}
