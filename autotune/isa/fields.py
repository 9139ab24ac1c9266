"""Fields of an instruction word: widths, limits, header, and the groups that rows share."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

WORD_BITS = 1536
WORD_BYTES = WORD_BITS // 8
MAX_RANK = 5
"""Dimensions of a rectangle that one instruction moves or computes on."""
NO_LEVEL = 15
"""Loop level that means 'does not depend on a loop'; levels count from 0, the outermost."""
MAX_LOOP_DEPTH = 14
SEMAPHORES = 256
"""Semaphore ids of one core; id 0 means 'none' in a wait or signal field."""
PARAMETERS = 256
"""Runtime parameters that a program may dispatch on."""
CHAIN_STAGES = 4
CHAIN_SIDES = 2


class FieldType(StrEnum):
    """Encoding of a field's bits."""

    UNSIGNED = "unsigned"
    SIGNED = "signed"
    FLOAT = "float32"


@dataclass(frozen=True, slots=True)
class Field:
    """One field of an instruction word."""

    name: str
    bits: int
    doc: str
    type: FieldType = FieldType.UNSIGNED
    default: int | float = 0

    @property
    def low(self) -> int:
        """Smallest value the field holds (integer fields)."""
        return -(1 << (self.bits - 1)) if self.type is FieldType.SIGNED else 0

    @property
    def high(self) -> int:
        """Largest value the field holds (integer fields)."""
        return (1 << (self.bits - (self.type is FieldType.SIGNED))) - 1


HEADER = (
    Field("opcode", 8, "operation code"),
    *(Field(f"wait{i}", 8, "semaphore to take one from before starting, 0 none") for i in range(3)),
    *(Field(f"signal{i}", 8, "semaphore to add one to when done, 0 none") for i in range(3)),
)

ADDRESS_BITS = 26
"""Bits of a scratchpad address: the largest scratchpad has 256 MiB. A stride needs no more, as both
of its ends lie in the scratchpad; dimensions of one element have none."""
EXTENT_BITS = ADDRESS_BITS + 1
"""Bits of an extent: a rectangle may fill the largest scratchpad."""
STEP_BITS = ADDRESS_BITS + 1
"""Bits of an address step, with its sign."""
COORDINATE_BITS = 33
"""Bits of a coordinate, step or hop in a DRAM tensor, sign included. The program's container holds
an extent in 32 bits."""


def extent(name: str, doc: str) -> Field:
    """Make an extent of a rectangle in the scratchpad; its default is 1."""
    return Field(name, EXTENT_BITS, doc, default=1)


def stride(name: str, doc: str) -> Field:
    """Make a scratchpad stride in elements."""
    return Field(name, ADDRESS_BITS, doc)


def tensor() -> Field:
    """Make the DRAM tensor of a transfer; a program's container counts tensors in 16 bits."""
    return Field("tensor", 16, "index in the tensor table")


def _step(name: str, doc: str) -> Field:
    return Field(name, STEP_BITS, doc, FieldType.SIGNED)


def level(name: str, doc: str) -> Field:
    """Make a loop level; its default is no loop."""
    return Field(name, 4, doc, default=NO_LEVEL)


def operand(name: str, doc: str) -> tuple[Field, ...]:
    """Make the fields of a scratchpad address, which counts elements of the operand's format.

    The address is ``base + Σᵢ stepᵢ · index[levelᵢ] + slot · (count[turn] mod 2)``. ``index`` is a
    loop's current trip. ``count`` is the number of trips begun since the program started, so double
    buffers keep alternating when a loop is entered again.
    """
    return (
        Field(f"{name}_base", ADDRESS_BITS, f"{doc}: first element"),
        _step(f"{name}_step0", f"{doc}: elements per trip of level0"),
        level(f"{name}_level0", f"{doc}: loop of step0"),
        _step(f"{name}_step1", f"{doc}: elements per trip of level1"),
        level(f"{name}_level1", f"{doc}: loop of step1"),
        Field(f"{name}_slot", ADDRESS_BITS, f"{doc}: distance of the second buffer, elements"),
        level(f"{name}_turn", f"{doc}: loop whose begun trips choose the buffer"),
    )


def strides(name: str, rank: int = MAX_RANK) -> tuple[Field, ...]:
    """Make one stride per dimension of an operand, in elements of its format."""
    return tuple(
        stride(f"{name}_stride{d}", f"scratchpad stride of dimension {d} of {name}, elements")
        for d in range(rank)
    )


SIZES = tuple(extent(f"size{d}", f"extent of dimension {d}") for d in range(MAX_RANK))
SCALARS = (
    Field("p0", 32, "first scalar", FieldType.FLOAT),
    Field("p1", 32, "second scalar", FieldType.FLOAT),
)


def _coordinate(name: str, doc: str, default: int = 0) -> Field:
    return Field(name, COORDINATE_BITS, doc, FieldType.SIGNED, default)


def coordinates() -> tuple[Field, ...]:
    """Make the coordinates of a rectangle's first element: ``coord_d + step_d · index[level_d]``.

    Parts outside the tensor are padding: a load fills them with ``pad``, a store leaves them out.
    """
    fields: list[Field] = []
    for d in range(MAX_RANK):
        fields += [
            _coordinate(f"coord{d}", f"first coordinate in dimension {d}"),
            _coordinate(f"step{d}", f"coordinates per trip in dimension {d}"),
            level(f"level{d}", f"loop of step{d}"),
        ]
    return tuple(fields)


def format_of(name: str, doc: str) -> Field:
    """Make the format of an operand's elements; its default is FP32."""
    return Field(name, 3, f"Format of {doc}")


def stage(i: int) -> tuple[Field, ...]:
    """Make the fields of stage ``i`` of a CHAIN; its kind decides if ``fn`` is a UnaryFn or a
    BinaryFn."""
    return (
        Field(f"stage{i}_kind", 3, f"StageKind of stage {i}"),
        Field(f"stage{i}_fn", 6, f"function code of stage {i}"),
        Field(f"stage{i}_p0", 32, f"first scalar of stage {i}", FieldType.FLOAT),
        Field(f"stage{i}_p1", 32, f"second scalar of stage {i}", FieldType.FLOAT),
    )


def axes() -> tuple[Field, ...]:
    """Make the axes of a gathered rectangle.

    Dimension d runs along tensor dimension ``axis_d``, ``hop_d`` coordinates per element. Several
    dimensions may share an axis, as a window and its position in a row do.
    """
    fields: list[Field] = []
    for d in range(MAX_RANK):
        fields += [
            Field(f"axis{d}", 3, f"tensor dimension that dimension {d} runs along", default=d),
            _coordinate(f"hop{d}", f"coordinates per element of dimension {d}", 1),
        ]
    return tuple(fields)
