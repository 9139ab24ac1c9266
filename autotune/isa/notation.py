"""Groups of an instruction's fields, for the text form and for checks; derived from the table.

Assembler, disassembler, verifier and manual go by these groups. None of them knows a field's
position by itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, IntEnum, auto

from autotune.isa.fields import CHAIN_STAGES, HEADER, MAX_RANK, Field
from autotune.isa.formats import Format
from autotune.isa.functions import BinaryFn, ReduceFn, StageKind, Transform, UnaryFn, When
from autotune.isa.opcodes import Opcode, Unit
from autotune.isa.program import field_index
from autotune.isa.table import INSTRUCTIONS, OPERANDS

CODES: dict[Opcode, dict[str, type[IntEnum]]] = {
    Opcode.WAIT: {"unit": Unit},
    Opcode.SIGNAL: {"unit": Unit},
    Opcode.LOAD: {"format": Format},
    Opcode.STORE: {"format": Format},
    Opcode.GATHER: {"format": Format},
    Opcode.LOOKUP: {"format": Format},
    Opcode.MATMUL: {
        "accumulate": When,
        "epilogue": When,
        "fn": UnaryFn,
        "a_format": Format,
        "b_format": Format,
    },
    Opcode.UNARY: {"fn": UnaryFn},
    Opcode.BINARY: {"fn": BinaryFn},
    Opcode.REDUCE: {"fn": ReduceFn},
    Opcode.CHAIN: {f"stage{i}_kind": StageKind for i in range(CHAIN_STAGES)},
    Opcode.ONLINE: {"accumulate": When},
    Opcode.CONVERT: {"dst_format": Format, "src_format": Format},
    Opcode.TRANSFORM: {"transform": Transform, "fn": UnaryFn},
}
"""Enumeration of each field that holds a code."""

STAGE_FUNCTIONS: dict[StageKind, type[IntEnum] | None] = {
    StageKind.NONE: None,
    StageKind.UNARY: UnaryFn,
    StageKind.WITH0: BinaryFn,
    StageKind.WITH1: BinaryFn,
    StageKind.FROM0: BinaryFn,
    StageKind.FROM1: BinaryFn,
}
"""Functions that a CHAIN's stage chooses from, by the stage's kind."""

EPILOGUE_FUNCTIONS = (UnaryFn.COPY, UnaryFn.RELU, UnaryFn.LEAKY_RELU, UnaryFn.CLIP)
"""Functions that MATMUL and TRANSFORM may apply to their result."""

ALWAYS_SHOWN: dict[Opcode, tuple[str, ...]] = {
    Opcode.LOOP: ("level", "trips"),
    Opcode.END: ("level",),
    Opcode.CASE: ("level", "parameter", "low", "high"),
    Opcode.LOAD: ("tensor",),
    Opcode.STORE: ("tensor",),
    Opcode.GATHER: ("tensor",),
    Opcode.LOOKUP: ("tensor",),
    Opcode.UNARY: ("fn",),
    Opcode.BINARY: ("fn",),
    Opcode.REDUCE: ("fn",),
    Opcode.TRANSFORM: ("transform",),
}
"""Fields that the disassembler writes even if they hold their default."""

OPERAND_PARTS = ("base", "step0", "level0", "step1", "level1", "slot", "turn")
"""Suffixes of an operand's fields, in word order."""
COORDINATE_PARTS = ("coord", "step", "level")
STAGE_PARTS = ("kind", "fn", "p0", "p1")
LEVEL_FIELDS = ("level", "k_level")
"""Fields that hold a loop level and stand for themselves."""
BLOCKS = (Opcode.LOOP, Opcode.CASE)
"""Opcodes closed by an END."""


class Syntax(Enum):
    """Text form of a group of fields."""

    NUMBER = auto()  # m=32, p0=0.5
    CODE = auto()  # fn=relu
    LEVEL = auto()  # k_level=i2
    LIST = auto()  # size=(32, 16)
    ADDRESS = auto()  # dst=[64 + 8*i1 + 4096@i0]
    POINT = auto()  # at=(32*i0, -1 + 4*i1)
    STAGE = auto()  # stage0=(unary, affine, 2.0, 1.0)


@dataclass(frozen=True, slots=True)
class FieldGroup:
    """One ``key=value`` of the text form, with its fields in word order."""

    key: str
    syntax: Syntax
    positions: tuple[int, ...]
    fields: tuple[Field, ...]
    codes: type[IntEnum] | None = None
    always: bool = False


def _single(opcode: Opcode, name: str) -> FieldGroup:
    position = field_index(opcode)[name]
    codes = CODES.get(opcode, {}).get(name)
    syntax = Syntax.NUMBER
    if codes is not None:
        syntax = Syntax.CODE
    elif name in LEVEL_FIELDS:
        syntax = Syntax.LEVEL
    field = INSTRUCTIONS[opcode].all_fields[position]
    always = name in ALWAYS_SHOWN.get(opcode, ())
    return FieldGroup(name, syntax, (position,), (field,), codes, always)


def _several(opcode: Opcode, key: str, syntax: Syntax, names: list[str]) -> FieldGroup | None:
    index = field_index(opcode)
    positions = tuple(index[name] for name in names if name in index)
    if not positions:
        return None
    fields = INSTRUCTIONS[opcode].all_fields
    return FieldGroup(key, syntax, positions, tuple(fields[p] for p in positions))


def _groups(opcode: Opcode) -> tuple[FieldGroup, ...]:
    prefixes = [prefix for prefix, _ in OPERANDS.get(opcode, ())]
    dims = range(MAX_RANK)
    candidates = [
        *(
            _several(opcode, x, Syntax.ADDRESS, [f"{x}_{p}" for p in OPERAND_PARTS])
            for x in prefixes
        ),
        *(
            _several(opcode, key, Syntax.LIST, [f"{key}{d}" for d in dims])
            for key in ("size", "extent", "axis", "hop", *(f"{x}_stride" for x in prefixes))
        ),
        _several(opcode, "at", Syntax.POINT, [f"{p}{d}" for d in dims for p in COORDINATE_PARTS]),
        *(
            _several(opcode, f"stage{i}", Syntax.STAGE, [f"stage{i}_{p}" for p in STAGE_PARTS])
            for i in range(CHAIN_STAGES)
        ),
    ]
    groups = [group for group in candidates if group is not None]
    taken = {position for group in groups for position in group.positions}
    for position, field in enumerate(INSTRUCTIONS[opcode].all_fields):
        if position >= len(HEADER) and position not in taken:
            groups.append(_single(opcode, field.name))
    return tuple(sorted(groups, key=lambda group: group.positions[0]))


GROUPS: dict[Opcode, tuple[FieldGroup, ...]] = {opcode: _groups(opcode) for opcode in INSTRUCTIONS}
"""Every field after the header belongs to exactly one group of its instruction."""


def _level_positions(opcode: Opcode) -> tuple[int, ...]:
    """Return the positions of the fields that name an enclosing loop."""
    if opcode in (*BLOCKS, Opcode.END):
        return ()
    positions: list[int] = []
    for group in GROUPS[opcode]:
        match group.syntax:
            case Syntax.LEVEL:
                positions += group.positions
            case Syntax.ADDRESS:
                positions += (group.positions[i] for i in (2, 4, 6))
            case Syntax.POINT:
                positions += group.positions[2::3]
            case _:
                pass
    return tuple(positions)


LEVEL_POSITIONS: dict[Opcode, tuple[int, ...]] = {op: _level_positions(op) for op in INSTRUCTIONS}
