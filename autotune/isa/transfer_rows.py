"""Rows of the instructions that move rectangles between DRAM and scratchpad; part of the table."""

from __future__ import annotations

from autotune.isa.field_groups import SIZES, axes, coordinates, format_of, operand, strides, tensor
from autotune.isa.fields import Field, FieldType
from autotune.isa.opcodes import Opcode, Unit
from autotune.isa.row import InstructionRow

TRANSFER_ROWS = (
    InstructionRow(
        Opcode.LOAD,
        Unit.LOAD,
        (
            tensor(),
            *operand("dst", "destination"),
            *SIZES,
            *strides("dst"),
            *coordinates(),
            Field("pad", 32, "value outside the tensor", FieldType.FLOAT),
            format_of("format", "the destination; converts where the tensor has another one"),
        ),
        "Copy a rectangle of a DRAM tensor into the scratchpad, padding what lies outside.",
    ),
    InstructionRow(
        Opcode.STORE,
        Unit.STORE,
        (
            tensor(),
            *operand("src", "source"),
            *SIZES,
            *strides("src"),
            *coordinates(),
            format_of("format", "the source; converts where the tensor has another one"),
        ),
        "Copy a scratchpad rectangle to a DRAM tensor; parts outside the tensor are left out.",
    ),
    InstructionRow(
        Opcode.GATHER,
        Unit.LOAD,
        (
            tensor(),
            *operand("dst", "destination"),
            *SIZES,
            *strides("dst"),
            *coordinates(),
            *axes(),
            Field("pad", 32, "value outside the tensor", FieldType.FLOAT),
            format_of("format", "the destination; converts where the tensor has another one"),
        ),
        "Copy elements of a DRAM tensor into the scratchpad, each rectangle dimension along any "
        "tensor dimension with any hop: patches (im2col), channel blocks, sampling, broadcast "
        "(hop 0). What lies outside is padding. `coord`, `step` and `level` go by tensor "
        "dimension.",
    ),
    InstructionRow(
        Opcode.LOOKUP,
        Unit.LOAD,
        (
            tensor(),
            *operand("dst", "destination"),
            *operand("src", "numbers, one per row"),
            *SIZES,
            *strides("dst"),
            *strides("src", 1),
            *coordinates(),
            Field("pad", 32, "value outside the tensor, from dimension 1 on", FieldType.FLOAT),
            format_of("format", "the destination; converts where the tensor has another one"),
        ),
        "Copy rows of a DRAM tensor into the scratchpad: dst[i] is the row that src[i], an fp32, "
        "names: rounded towards zero, a number below the first row is row 0, as is NaN, one behind "
        "the last row is the last row. Coordinates of dimension 0 are 0; the other dimensions are a "
        "rectangle as of LOAD. dst lies apart from src; nothing may store to the tensor. Its time "
        "does not depend on the numbers: every row is a transfer from closed banks.",
    ),
)
