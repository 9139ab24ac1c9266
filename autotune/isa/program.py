"""Tile programs, as lowering emits and engines run them."""

from __future__ import annotations

import struct
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from operator import itemgetter

import numpy as np
import numpy.typing as npt

from autotune.errors import ProgramError
from autotune.isa.fields import MAX_RANK, SEMAPHORES, Field, FieldType
from autotune.isa.formats import Format
from autotune.isa.opcodes import Opcode
from autotune.isa.table import INSTRUCTIONS, InstructionRow

Values = tuple[int | float, ...]
"""``Instruction.values`` of one opcode."""


@cache
def field_index(opcode: Opcode) -> dict[str, int]:
    """Return the position of each field in ``Instruction.values`` of an opcode."""
    return {field.name: i for i, field in enumerate(INSTRUCTIONS[opcode].all_fields)}


def fields_getter(opcode: Opcode, *names: str) -> Callable[..., tuple[int, ...]]:
    """Return a function that picks these fields from ``Instruction.values`` of an opcode."""
    index = field_index(opcode)
    places = [index[name] for name in names]
    if len(places) == 1:
        place = places[0]
        return lambda values: (values[place],)
    return itemgetter(*places)


def _ranges(row: InstructionRow) -> dict[str, tuple[int, int, int, Field]]:
    """Return (position, smallest, largest, field) by field name; a FLOAT's integer range is
    empty."""
    return {
        field.name: (i, 1, 0, field)
        if field.type is FieldType.FLOAT
        else (i, field.low, field.high, field)
        for i, field in enumerate(row.all_fields)
    }


def _defaults(row: InstructionRow) -> tuple[int | float, ...]:
    values: list[int | float] = [
        float(field.default) if field.type is FieldType.FLOAT else field.default
        for field in row.all_fields
    ]
    values[0] = int(row.opcode)
    return tuple(values)


_MAKINGS = {op: (_ranges(row), _defaults(row)) for op, row in INSTRUCTIONS.items()}


_FLOAT32 = struct.Struct("<f")


def fit(opcode: Opcode, field: Field, value: int | float) -> int | float:
    """Return ``value`` as its field holds it: an int in range, or a float rounded to float32.

    Raises ``ProgramError`` for a value that the field cannot hold.
    """
    if field.type is FieldType.FLOAT:
        try:
            return float(_FLOAT32.unpack(_FLOAT32.pack(value))[0])
        except OverflowError:
            raise ProgramError(
                f"{opcode.name}.{field.name} = {value} does not fit a float32; write it as inf"
            ) from None
    if not field.low <= value <= field.high or int(value) != value:
        raise ProgramError(
            f"{opcode.name}.{field.name} = {value} does not fit {field.bits} bits "
            f"(whole numbers, {field.low} to {field.high})"
        )
    return int(value)


_OPCODES: Mapping[int | float, Opcode] = {int(opcode): opcode for opcode in Opcode}
"""Opcodes by number; ``Opcode(number)`` takes several times as long and runs very often."""


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction: its field values in table order, header first; floats for FLOAT fields."""

    values: tuple[int | float, ...]

    @classmethod
    def make(cls, opcode: Opcode, **fields: int | float) -> Instruction:
        """Build from named fields; the others take their defaults.

        Raises ``ProgramError`` for a value that does not fit its field.
        """
        return cls.of(opcode, fields)

    @classmethod
    def of(cls, opcode: Opcode, fields: Mapping[str, int | float]) -> Instruction:
        """Build from a mapping of named fields, as ``make`` does."""
        index, defaults = _MAKINGS[opcode]
        values = [*defaults]
        for name, value in fields.items():
            position, low, high, field = index[name]
            if type(value) is int and low <= value <= high:
                values[position] = value
            else:
                values[position] = fit(opcode, field, value)
        return cls(tuple(values))

    @property
    def opcode(self) -> Opcode:
        """Operation code."""
        return _OPCODES[self.values[0]]

    @property
    def row(self) -> InstructionRow:
        """The instruction's row in the table."""
        return INSTRUCTIONS[self.opcode]

    def get(self, name: str) -> int:
        """Return an integer field by name."""
        return int(self.values[field_index(self.opcode)[name]])

    def scalar(self, name: str) -> float:
        """Return a float field by name."""
        return float(self.values[field_index(self.opcode)[name]])

    def replace(self, **fields: int | float) -> Instruction:
        """Return a copy with some fields changed."""
        names = (field.name for field in self.row.all_fields)
        own = dict(zip(names, self.values, strict=True))
        del own["opcode"]
        return Instruction.make(self.opcode, **(own | fields))


_CELL_BYTES = 8
_FLOAT_CELL = "f4x" if sys.byteorder == "little" else "4xf"


def _cells(fields: Sequence[Field]) -> struct.Struct:
    cells = (_FLOAT_CELL if field.type is FieldType.FLOAT else "q" for field in fields)
    return struct.Struct("@" + "".join(cells))


_CELLS = {int(opcode): _cells(row.all_fields) for opcode, row in INSTRUCTIONS.items()}


def pack_table(rows: Sequence[tuple[int | float, ...]]) -> npt.NDArray[np.int64]:
    """Pack ``Instruction.values`` of a stream into ``[instructions, fields]`` int64.

    Rows are padded with zeros. FLOAT fields hold the bits of the float32. Raises ``struct.error``
    for a value of the wrong type or beyond int64; a float beyond float32 becomes infinite.
    """
    width = max(map(len, rows)) * _CELL_BYTES
    cells = bytearray(len(rows) * width)
    place = 0
    for values in rows:
        _CELLS[int(values[0])].pack_into(cells, place, *values)
        place += width
    return np.frombuffer(cells, np.int64).reshape(len(rows), -1)


class Role(StrEnum):
    """Use of a DRAM tensor by its program."""

    INPUT = "input"
    CONSTANT = "constant"
    OUTPUT = "output"


@dataclass(frozen=True, slots=True)
class DramTensor:
    """One row of the tensor table: a dense row-major tensor of up to five dimensions."""

    name: str
    shape: tuple[int, ...]
    role: Role
    format: Format = Format.FP32

    def __post_init__(self) -> None:
        if not 1 <= len(self.shape) <= MAX_RANK:
            raise ProgramError(
                f"tensor {self.name!r}: rank {len(self.shape)} is not in 1..{MAX_RANK}"
            )
        if min(self.shape) < 1:
            raise ProgramError(f"tensor {self.name!r}: shape {self.shape} has an extent below 1")


@dataclass(frozen=True, slots=True)
class Program:
    """A tile program: tensor table, one instruction stream per core, initial semaphore counts.

    ``credits[c][s]`` is the initial count of semaphore ``s`` of core ``c``. ``scratchpad_elements``
    is the most that one core's stream needs.
    """

    name: str
    tensors: tuple[DramTensor, ...]
    streams: tuple[tuple[Instruction, ...], ...]
    credits: tuple[tuple[int, ...], ...]
    scratchpad_elements: int

    def __post_init__(self) -> None:
        if not self.streams or len(self.credits) != len(self.streams):
            raise ProgramError(f"{self.name}: needs one credit table for each of its streams")
        if any(len(credits) > SEMAPHORES for credits in self.credits):
            raise ProgramError(f"{self.name}: more than {SEMAPHORES} semaphores")
        names = [tensor.name for tensor in self.tensors]
        if len(set(names)) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise ProgramError(
                f"{self.name}: {names.count(twice)} tensors are named {twice!r}; name each tensor "
                "once, arrays go by it"
            )

    def table(self, core: int) -> npt.NDArray[np.int64]:
        """Return the stream of one core as ``pack_table`` packs it; engines decode from this."""
        return pack_table([instruction.values for instruction in self.streams[core]])
