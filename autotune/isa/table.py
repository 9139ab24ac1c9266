"""The instruction table: the one place from which codec, assembler, verifier, manual derive.

An instruction word is ``WORD_BITS`` wide. Every instruction starts with the same header (opcode,
up to three semaphores to wait for and three to signal); what follows is its row's fields, packed
in order from the least significant bit. Scratchpad operands and tensor coordinates are affine in
the indices of the enclosing hardware loops, so that a program does not grow with its trip counts.
"""

from __future__ import annotations

from autotune.isa.control_rows import CONTROL_ROWS
from autotune.isa.fields import (
    CHAIN_SIDES,
    CHAIN_STAGES,
    HEADER,
    MAX_LOOP_DEPTH,
    MAX_RANK,
    NO_LEVEL,
    PARAMETERS,
    SEMAPHORES,
    WORD_BITS,
    WORD_BYTES,
    Field,
    FieldType,
)
from autotune.isa.formats import ELEMENT_BYTES, Format
from autotune.isa.functions import BinaryFn, ReduceFn, StageKind, Transform, UnaryFn, When
from autotune.isa.matrix_rows import MATRIX_ROWS
from autotune.isa.opcodes import Opcode, Unit
from autotune.isa.row import InstructionRow
from autotune.isa.transfer_rows import TRANSFER_ROWS
from autotune.isa.vector_rows import VECTOR_ROWS

# The table's vocabulary, so that its readers import from one place.
__all__ = [
    "CHAIN_SIDES",
    "CHAIN_STAGES",
    "ELEMENT_BYTES",
    "HEADER",
    "INSTRUCTIONS",
    "MAX_LOOP_DEPTH",
    "MAX_RANK",
    "NO_LEVEL",
    "OPERANDS",
    "PARAMETERS",
    "SEMAPHORES",
    "WORD_BITS",
    "WORD_BYTES",
    "BinaryFn",
    "Field",
    "FieldType",
    "Format",
    "InstructionRow",
    "Opcode",
    "ReduceFn",
    "StageKind",
    "Transform",
    "UnaryFn",
    "Unit",
    "When",
]

INSTRUCTIONS: dict[Opcode, InstructionRow] = {
    row.opcode: row for row in (*CONTROL_ROWS, *TRANSFER_ROWS, *MATRIX_ROWS, *VECTOR_ROWS)
}

OPERANDS: dict[Opcode, tuple[tuple[str, bool], ...]] = {
    # (operand prefix, is written) of every instruction that touches the scratchpad
    Opcode.LOAD: (("dst", True),),
    Opcode.STORE: (("src", False),),
    Opcode.GATHER: (("dst", True),),
    Opcode.LOOKUP: (("dst", True), ("src", False)),
    Opcode.MATMUL: (("c", True), ("a", False), ("b", False), ("bias", False), ("r", False)),
    Opcode.UNARY: (("dst", True), ("src", False)),
    Opcode.BINARY: (("dst", True), ("lhs", False), ("rhs", False)),
    Opcode.FMA: (("dst", True), ("lhs", False), ("rhs", False)),
    Opcode.REDUCE: (("dst", True), ("src", False)),
    Opcode.FILL: (("dst", True),),
    Opcode.MASK: (("dst", True),),
    Opcode.CHAIN: (("dst", True), ("src", False), ("side0", False), ("side1", False)),
    Opcode.ONLINE: (("dst", True), ("state", True), ("src", False)),
    Opcode.CONVERT: (("dst", True), ("src", False)),
    Opcode.TRANSFORM: (("dst", True), ("src", False), ("bias", False), ("r", False)),
}
