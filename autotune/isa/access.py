"""Scratchpad operands of every opcode, by field position: addresses, spans and conditions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from operator import mul

from autotune.isa.fields import CHAIN_STAGES, MAX_RANK
from autotune.isa.formats import ELEMENT_BYTES, Format
from autotune.isa.functions import StageKind, Transform, When
from autotune.isa.notation import OPERAND_PARTS
from autotune.isa.opcodes import Opcode
from autotune.isa.program import Values, field_index, fields_getter
from autotune.isa.table import OPERANDS

Getter = Callable[..., tuple[int, ...]]
Condition = Callable[[Values], bool]

MATMUL_DIMENSIONS = {
    "a": ("m", "k2", "k1", "k0"),
    "b": ("k2", "k1", "k0", "n1", "n0"),
    "c": ("m", "n1", "n0"),
    "r": ("m", "n1", "n0"),
}
"""Loops of a matrix multiply that each operand runs over; the bias follows ``bias_axis``."""
BIAS_DIMENSION = {1: "m", 2: "n0"}
TILE_ROWS = {
    Transform.F4_INPUT: (6, 6),
    Transform.F4_OUTPUT: (4, 6),
    Transform.F2_INPUT: (4, 4),
    Transform.F2_OUTPUT: (2, 4),
}
"""Rows of a TRANSFORM's square tile, in its result and in its source."""
STATE_WORDS = 3
"""Words per row of an ONLINE's state: maximum, sum, factor."""
FORMAT_FIELDS = {
    (Opcode.LOAD, "dst"): "format",
    (Opcode.STORE, "src"): "format",
    (Opcode.GATHER, "dst"): "format",
    (Opcode.LOOKUP, "dst"): "format",
    (Opcode.MATMUL, "a"): "a_format",
    (Opcode.MATMUL, "b"): "b_format",
    (Opcode.CONVERT, "dst"): "dst_format",
    (Opcode.CONVERT, "src"): "src_format",
}
"""Field with the format of an operand; elements of every other operand fill a word."""
_BYTES: dict[int | float, int] = {int(form): form.bytes for form in Format}


@dataclass(frozen=True, slots=True)
class Access:
    """One operand of one opcode.

    ``address(values)`` is base, step0, level0, step1, level1, slot, turn. ``span(values)`` is the
    distance from the rectangle's first element to its last. Both count elements of
    ``element_bytes(values)``; no element straddles two words. ``present`` tells if an
    instruction uses the operand at all (None: always). ``keeps`` tells if it reads the operand it
    writes already in its first run (None: never).
    """

    operand: str
    written: bool
    address: Getter
    span: Callable[[Values], int]
    present: Condition | None = None
    keeps: Condition | None = None
    form: int | None = None
    """Position of the field with its format; None for words."""

    def element_bytes(self, values: Values) -> int:
        """Return the bytes of an element."""
        return ELEMENT_BYTES if self.form is None else _BYTES[values[self.form]]


def _span(opcode: Opcode, sizes: Sequence[str], strides: Sequence[str]) -> Callable[[Values], int]:
    """Make the span function of an operand."""
    sizes_of, strides_of = fields_getter(opcode, *sizes), fields_getter(opcode, *strides)

    def span(values: Values) -> int:
        steps = strides_of(values)
        reached: int = sum(map(mul, sizes_of(values), steps)) - sum(steps)
        return reached

    return span


def _access(opcode: Opcode, operand: str, written: bool) -> Access:
    if opcode is Opcode.MATMUL:
        sizes = MATMUL_DIMENSIONS[operand]
        strides = tuple(f"{operand}_{d}" for d in sizes)
    else:
        dims = [d for d in range(MAX_RANK) if f"size{d}" in field_index(opcode)]
        sizes = tuple(f"size{d}" for d in dims)
        strides = tuple(f"{operand}_stride{d}" for d in dims)
    name = FORMAT_FIELDS.get((opcode, operand))
    form = None if name is None else field_index(opcode)[name]
    span = _span(opcode, sizes, strides)
    return Access(operand, written, _address(opcode, operand), span, form=form)


def _address(opcode: Opcode, operand: str) -> Getter:
    return fields_getter(opcode, *(f"{operand}_{part}" for part in OPERAND_PARTS))


def _field(opcode: Opcode, name: str, expected: int) -> Condition:
    place = field_index(opcode)[name]
    return lambda values: values[place] == expected


def _always(values: Values) -> bool:
    return True


def _matmul() -> tuple[Access, ...]:
    index = field_index(Opcode.MATMUL)
    epilogue, axis, adds = index["epilogue"], index["bias_axis"], index["adds"]

    def bias(code: int, dimension: str) -> Access:
        """A dense vector over ``dimension``."""
        size = index[dimension]
        return Access(
            "bias",
            False,
            _address(Opcode.MATMUL, "bias"),
            lambda values: int(values[size]) - 1,
            lambda values: values[axis] == code and values[epilogue] != When.NEVER,
        )

    residual = replace(
        _access(Opcode.MATMUL, "r", False),
        present=lambda values: values[adds] == 1 and values[epilogue] != When.NEVER,
    )
    accumulator = replace(
        _access(Opcode.MATMUL, "c", True),
        keeps=_field(Opcode.MATMUL, "accumulate", When.ALWAYS),
    )
    factors = [_access(Opcode.MATMUL, name, False) for name in ("a", "b")]
    biases = [bias(code, dimension) for code, dimension in BIAS_DIMENSION.items()]
    return (*factors, *biases, residual, accumulator)


def _chain() -> tuple[Access, ...]:
    kinds = fields_getter(Opcode.CHAIN, *(f"stage{i}_kind" for i in range(CHAIN_STAGES)))

    def side(name: str, *users: StageKind) -> Access:
        return replace(
            _access(Opcode.CHAIN, name, False),
            present=lambda values: any(kind in users for kind in kinds(values)),
        )

    return (
        _access(Opcode.CHAIN, "src", False),
        side("side0", StageKind.WITH0, StageKind.FROM0),
        side("side1", StageKind.WITH1, StageKind.FROM1),
        _access(Opcode.CHAIN, "dst", True),
    )


def _online() -> tuple[Access, ...]:
    rows, stride = (field_index(Opcode.ONLINE)[name] for name in ("size0", "state_stride0"))
    state = Access(
        "state",
        True,
        _address(Opcode.ONLINE, "state"),
        lambda values: (int(values[rows]) - 1) * int(values[stride]) + STATE_WORDS - 1,
        keeps=_field(Opcode.ONLINE, "accumulate", When.ALWAYS),
    )
    return (_access(Opcode.ONLINE, "src", False), state, _access(Opcode.ONLINE, "dst", True))


def _transform() -> tuple[Access, ...]:
    index = field_index(Opcode.TRANSFORM)
    code, channels = index["transform"], index["size4"]
    tiles_of = fields_getter(Opcode.TRANSFORM, "size2", "size3", "size4")

    def tiles(name: str, side: int) -> Access:
        steps_of = fields_getter(Opcode.TRANSFORM, *(f"{name}_stride{d}" for d in range(MAX_RANK)))

        def span(values: Values) -> int:
            rows, steps = TILE_ROWS[Transform(int(values[code]))][side], steps_of(values)
            reached: int = sum(map(mul, (rows, rows, *tiles_of(values)), steps)) - sum(steps)
            return reached

        return Access(name, name == "dst", _address(Opcode.TRANSFORM, name), span)

    bias = Access(
        "bias",
        False,
        _address(Opcode.TRANSFORM, "bias"),
        lambda values: int(values[channels]) - 1,
        _field(Opcode.TRANSFORM, "biased", 1),
    )
    residual = replace(tiles("r", 0), present=_field(Opcode.TRANSFORM, "adds", 1))
    return (tiles("src", 1), bias, residual, tiles("dst", 0))


def _lookup() -> tuple[Access, ...]:
    span = _span(Opcode.LOOKUP, ("size0",), ("src_stride0",))
    numbers = Access("src", False, _address(Opcode.LOOKUP, "src"), span)
    return (numbers, _access(Opcode.LOOKUP, "dst", True))


def _plain(opcode: Opcode) -> tuple[Access, ...]:
    """Return the operands of an opcode that uses all of them in every run."""
    accesses = [_access(opcode, name, written) for name, written in OPERANDS[opcode]]
    if opcode is Opcode.FMA:
        accesses[0] = replace(accesses[0], keeps=_always)
    elif opcode is Opcode.REDUCE:
        accesses[0] = replace(accesses[0], keeps=_field(opcode, "accumulate", 1))
    return tuple(sorted(accesses, key=lambda access: access.written))


_PARTICULAR = {
    Opcode.MATMUL: _matmul,
    Opcode.CHAIN: _chain,
    Opcode.ONLINE: _online,
    Opcode.TRANSFORM: _transform,
    Opcode.LOOKUP: _lookup,
}
ACCESSES: dict[Opcode, tuple[Access, ...]] = {
    opcode: _PARTICULAR[opcode]() if opcode in _PARTICULAR else _plain(opcode)
    for opcode in OPERANDS
}
"""Operands of every opcode: read operands come first, written ones last."""


_SIZES = tuple(f"size{d}" for d in range(MAX_RANK))
_PRODUCT_SIZES = ("m", "n1", "n0", "k2", "k1", "k0")
EXTENT_FIELDS: dict[Opcode, tuple[str, ...]] = {
    opcode: tuple(
        name
        for name in (_PRODUCT_SIZES if opcode is Opcode.MATMUL else _SIZES)
        if name in field_index(opcode)
    )
    for opcode in OPERANDS
}
"""All sizes of an instruction, each of which must be at least 1."""
