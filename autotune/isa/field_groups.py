"""Groups of neighbouring fields that several rows share: addresses, strides, coordinates."""

from __future__ import annotations

from autotune.isa.fields import MAX_RANK, NO_LEVEL, Field, FieldType

STRIDE_BITS = 22
"""Of an operand's strides: a dense rectangle of fewer than 2 · 2^STRIDE_BITS elements needs none that is
larger, where it has more than one element along a dimension."""


def level(name: str, doc: str) -> Field:
    """A loop level, none unless told."""
    return Field(name, 4, doc, default=NO_LEVEL)


def operand(name: str, doc: str) -> tuple[Field, ...]:
    """A scratchpad address in words of ``ELEMENT_BYTES``:
    ``base + Σᵢ stepᵢ · index[levelᵢ] + slot · (count[turn] mod 2)``, where ``index`` is a loop's
    current trip and ``count`` the trips it has begun since the program started, so that double
    buffers keep alternating when a loop is entered again."""
    return (
        Field(f"{name}_base", 26, f"{doc}: first word"),
        Field(f"{name}_step0", 26, f"{doc}: words per trip of level0", FieldType.SIGNED),
        level(f"{name}_level0", f"{doc}: loop of step0"),
        Field(f"{name}_step1", 26, f"{doc}: words per trip of level1", FieldType.SIGNED),
        level(f"{name}_level1", f"{doc}: loop of step1"),
        Field(f"{name}_slot", 26, f"{doc}: distance of the second buffer, words"),
        level(f"{name}_turn", f"{doc}: loop whose begun trips choose the buffer"),
    )


def strides(name: str, rank: int = MAX_RANK) -> tuple[Field, ...]:
    """One stride per dimension of an operand, in elements of its format."""
    return tuple(
        Field(
            f"{name}_stride{d}",
            STRIDE_BITS,
            f"scratchpad stride of dimension {d} of {name}, elements",
        )
        for d in range(rank)
    )


SIZES = tuple(Field(f"size{d}", 16, f"extent of dimension {d}", default=1) for d in range(MAX_RANK))
SCALARS = (
    Field("p0", 32, "first scalar", FieldType.FLOAT),
    Field("p1", 32, "second scalar", FieldType.FLOAT),
)


def coordinates() -> tuple[Field, ...]:
    """Where a rectangle begins in its tensor: ``coord_d + step_d · index[level_d]``. Parts outside
    the tensor are padding: a load fills them with ``pad``, a store leaves them out."""
    fields: list[Field] = []
    for d in range(MAX_RANK):
        fields += [
            Field(f"coord{d}", 24, f"first coordinate in dimension {d}", FieldType.SIGNED),
            Field(f"step{d}", 24, f"coordinates per trip in dimension {d}", FieldType.SIGNED),
            level(f"level{d}", f"loop of step{d}"),
        ]
    return tuple(fields)


def format_of(name: str, doc: str) -> Field:
    """The format of an operand's elements, FP32 unless told."""
    return Field(name, 3, f"Format of {doc}")


def stage(i: int) -> tuple[Field, ...]:
    """What stage ``i`` of a CHAIN does; ``fn`` is a UnaryFn or a BinaryFn as its kind says."""
    return (
        Field(f"stage{i}_kind", 3, f"StageKind of stage {i}"),
        Field(f"stage{i}_fn", 6, f"function code of stage {i}"),
        Field(f"stage{i}_p0", 32, f"first scalar of stage {i}", FieldType.FLOAT),
        Field(f"stage{i}_p1", 32, f"second scalar of stage {i}", FieldType.FLOAT),
    )


def axes() -> tuple[Field, ...]:
    """Dimension d of a gathered rectangle runs along tensor dimension ``axis_d``, ``hop_d``
    coordinates per element; several dimensions may share one (a window and its place in a row)."""
    fields: list[Field] = []
    for d in range(MAX_RANK):
        fields += [
            Field(f"axis{d}", 3, f"tensor dimension that dimension {d} runs along", default=d),
            Field(f"hop{d}", 16, f"coordinates per element of dimension {d}", FieldType.SIGNED, 1),
        ]
    return tuple(fields)
