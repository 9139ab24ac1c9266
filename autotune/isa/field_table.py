"""A stream as a table of integers: what engines decode from and the verifier looks at first."""

from __future__ import annotations

import struct
import sys
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from autotune.isa.fields import Field, FieldType
from autotune.isa.table import INSTRUCTIONS

_CELL_BYTES = 8
_FLOAT_CELL = "f4x" if sys.byteorder == "little" else "4xf"


def _cells(fields: Sequence[Field]) -> struct.Struct:
    cells = (_FLOAT_CELL if field.type is FieldType.FLOAT else "q" for field in fields)
    return struct.Struct("@" + "".join(cells))


_CELLS = {int(opcode): _cells(row.all_fields) for opcode, row in INSTRUCTIONS.items()}


def field_table(rows: Sequence[tuple[int | float, ...]]) -> npt.NDArray[np.int64]:
    """``Instruction.values`` of a stream as ``[instructions, fields]``, padded with zeros behind
    the longest row; FLOAT fields hold the bits of the float32.

    Raises ``struct.error`` for a value of the wrong type or beyond int64; a float beyond float32
    becomes infinite.
    """
    width = max(map(len, rows)) * _CELL_BYTES
    cells = bytearray(len(rows) * width)
    place = 0
    for values in rows:
        _CELLS[int(values[0])].pack_into(cells, place, *values)
        place += width
    return np.frombuffer(cells, np.int64).reshape(len(rows), -1)
