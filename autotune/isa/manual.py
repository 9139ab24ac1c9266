"""The reference manual of the instruction set, generated from the table; kept as docs/isa.md.

``python -m autotune.isa.manual > docs/isa.md`` renews the file; a test compares the two.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from enum import IntEnum

from autotune.isa.fields import (
    HEADER,
    MAX_LOOP_DEPTH,
    MAX_RANK,
    NO_LEVEL,
    PARAMETERS,
    SEMAPHORES,
    WORD_BITS,
    Field,
    FieldType,
)
from autotune.isa.formats import ELEMENT_BYTES, Format
from autotune.isa.functions import BinaryFn, ReduceFn, StageKind, Transform, UnaryFn, When
from autotune.isa.notation import CODES, EPILOGUE_FUNCTIONS
from autotune.isa.opcodes import Unit
from autotune.isa.table import INSTRUCTIONS, OPERANDS, InstructionRow

UNIT_DOCS: dict[Unit, str] = {
    Unit.LOAD: "moves rectangles from DRAM to the scratchpad",
    Unit.STORE: "moves rectangles from the scratchpad to DRAM",
    Unit.MATRIX: "multiplies tiles",
    Unit.VECTOR: "element-wise operations and reductions on tiles",
    Unit.CONTROL: "loops, dispatch, semaphores, profile marks",
}
CODE_DOCS: dict[type[IntEnum], dict[IntEnum, str]] = {
    UnaryFn: {fn: fn.row.formula for fn in UnaryFn},
    BinaryFn: {fn: fn.row.formula for fn in BinaryFn},
    ReduceFn: {
        ReduceFn.SUM: "sum",
        ReduceFn.MAX: "maximum",
        ReduceFn.MIN: "minimum",
        ReduceFn.PROD: "product",
    },
    When: {
        When.NEVER: "never",
        When.ALWAYS: "in every run of the instruction",
        When.BY_LEVEL: "accumulate: unless `k_level` is in its first trip; "
        "epilogue: if `k_level` is in its last trip",
    },
    StageKind: {
        StageKind.NONE: "x",
        StageKind.UNARY: "fn(x), a UnaryFn with the stage's own p0 and p1",
        StageKind.WITH0: "fn(x, side0), a BinaryFn",
        StageKind.WITH1: "fn(x, side1), a BinaryFn",
        StageKind.FROM0: "fn(side0, x), a BinaryFn",
        StageKind.FROM1: "fn(side1, x), a BinaryFn",
    },
    Transform: {
        Transform.F4_INPUT: "Bᵀ of F(4, 3) at 0, ±3/4, ±3/2, ∞; p = 3/4, q = 3/2: rows p²q² 0 −p²−q² 0 1 0, "
        "0 −pq² −q² p 1 0, 0 pq² −q² −p 1 0, 0 −qp² −p² q 1 0, 0 qp² −p² −q 1 0, 0 p²q² 0 −p²−q² 0 1",
        Transform.F4_OUTPUT: "Aᵀ of F(4, 3): rows 1 1 1 1 1 0, 0 p −p q −q 0, 0 p² p² q² q² 0, "
        "0 p³ −p³ q³ −q³ 1",
        Transform.F2_INPUT: "Bᵀ of F(2, 3): rows 1 0 −1 0, 0 1 1 0, 0 −1 1 0, 0 1 0 −1",
        Transform.F2_OUTPUT: "Aᵀ of F(2, 3): rows 1 1 1 0, 0 1 −1 −1",
    },
    Format: {
        Format.FP32: "IEEE 754 binary32; 4 bytes",
        Format.BF16: "upper half of an fp32; rounding to nearest, ties to even; 2 bytes",
        Format.INT8: "two's complement; 1 byte",
        Format.UINT8: "unsigned; 1 byte",
        Format.INT32: "two's complement; 4 bytes",
        Format.FP16: "IEEE 754 binary16; rounding to nearest, ties to even, beyond 65,504 to infinity; 2 bytes",
    },
}

_INTRODUCTION = f"""# Tile instruction set

Generated from `autotune/isa/table.py` by `python -m autotune.isa.manual`; do not edit.

An instruction word has {WORD_BITS} bits, little-endian. Bit 0 is the least significant; fields
are packed in the order of the tables below, unused bits are 0.

The scratchpad consists of words of {ELEMENT_BYTES} bytes. Addresses, sizes and strides count
elements of the operand's format, which is float32 unless a field says otherwise. Narrow formats are
packed.

A program has a table of DRAM tensors and, for each core, one stream of instructions that ends with
HALT. A core hands each instruction to its unit's queue in stream order; queues run decoupled, each
one in order, synchronised by semaphores alone.

**Loops** nest up to {MAX_LOOP_DEPTH} deep. A loop's *level* is the number of loops around it; a
level field of {NO_LEVEL} means *no loop* (`_` in the text form), and its step or slot has no
effect. A **CASE** nests and counts as a loop of one trip; one of the program's {PARAMETERS} runtime
parameters decides if it runs. Its writes do not count as writes behind it, and its body changes no
semaphore's count.

**Scratchpad addresses** are `base + step0 · index[level0] + step1 · index[level1]
+ slot · (count[turn] mod 2)`. `index` is a loop's current trip, from 0. `count` is the number of
trips begun since the program started, so double buffers keep alternating when a loop is entered
again. In text: `dst=[base + step0*i0 + step1*i1 + slot@i2]`.

**Rectangles** have up to {MAX_RANK} dimensions, `size0` to `size{MAX_RANK - 1}`, with one stride
per dimension and operand. Dimension d of a rectangle is dimension d of its tensor; dimensions that
the tensor lacks have size 1, coordinate 0 and step 0. A rectangle begins at
`coord_d + step_d · index[level_d]` in dimension d, `at=(…)` in text. Elements outside of the
tensor are padding: a load fills them with `pad`, a store leaves them out. A GATHER alone chooses by
`axis` and `hop` how its rectangle lies in the tensor.

**Transfers** convert between the tensor's format and the operand's.

**Semaphores** 1 to {SEMAPHORES - 1} of each core count up on a signal (`!4` in text) and down on a
wait (`?4`), which blocks the queue while the count is 0; they start with the program's credits and
end with them. One queue alone takes from a semaphore. Control instructions carry no waits or
signals of their own.
"""


def manual() -> str:
    """Return the manual as Markdown."""
    lines = [_INTRODUCTION, *_units(), *_header()]
    for row in INSTRUCTIONS.values():
        lines += _instruction(row)
    for enumeration in CODE_DOCS:
        lines += _codes(enumeration)
    return "\n".join(lines)


def _units() -> Iterator[str]:
    yield "## Units\n"
    yield "| unit | code | does | instructions |"
    yield "|---|---|---|---|"
    for unit in Unit:
        names = [f"`{row.opcode.name}`" for row in INSTRUCTIONS.values() if row.unit is unit]
        yield f"| {unit.name} | {int(unit)} | {UNIT_DOCS[unit]} | {' '.join(names)} |"
    yield ""


def _header() -> Iterator[str]:
    yield "## Header\n"
    yield "Every instruction begins with these fields.\n"
    yield from _fields(HEADER, 0, {})


def _instruction(row: InstructionRow) -> Iterator[str]:
    yield f"## {row.opcode.name}\n"
    operands = OPERANDS.get(row.opcode, ())
    access = ", ".join(f"{'writes' if written else 'reads'} {name}" for name, written in operands)
    yield (
        f"Opcode {int(row.opcode)}, unit {row.unit.name}, {row.bits} of {WORD_BITS} bits"
        f"{'; ' + access if access else ''}.\n"
    )
    yield f"{row.doc}\n"
    if row.fields:
        codes = CODES.get(row.opcode, {})
        yield from _fields(row.fields, sum(field.bits for field in HEADER), codes)


def _fields(
    fields: tuple[Field, ...], first_bit: int, codes: dict[str, type[IntEnum]]
) -> Iterator[str]:
    yield "| field | bits | type | default | meaning |"
    yield "|---|---|---|---|---|"
    for field in fields:
        last_bit = first_bit + field.bits - 1
        kind = field.type.value
        if field.type is not FieldType.FLOAT:
            kind = f"{kind} {field.bits}"
        if field.name in codes:
            kind = f"{kind}: {codes[field.name].__name__}"
        default = "none" if _is_level(field) else field.default
        yield f"| `{field.name}` | {first_bit}–{last_bit} | {kind} | {default} | {field.doc} |"
        first_bit = last_bit + 1
    yield ""


def _is_level(field: Field) -> bool:
    return field.bits == NO_LEVEL.bit_length() and field.default == NO_LEVEL


def _codes(enumeration: type[IntEnum]) -> Iterator[str]:
    yield f"## {enumeration.__name__}\n"
    if enumeration is UnaryFn:
        names = ", ".join(code.name for code in EPILOGUE_FUNCTIONS)
        yield f"In the epilogue of a MATMUL or TRANSFORM: {names} only.\n"
    yield "| name | code | meaning |"
    yield "|---|---|---|"
    for code in enumeration:
        yield f"| `{code.name.lower()}` | {int(code)} | {CODE_DOCS[enumeration][code]} |"
    yield ""


if __name__ == "__main__":
    sys.stdout.write(manual())
