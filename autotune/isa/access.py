"""Where each instruction touches the scratchpad, by field position; the verifier runs on this."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from operator import itemgetter, mul

from autotune.isa.notation import OPERAND_PARTS
from autotune.isa.program import field_index
from autotune.isa.table import MAX_RANK, OPERANDS, Opcode, When

Values = tuple[int | float, ...]
"""``Instruction.values`` of one opcode."""

MATMUL_DIMENSIONS = {
    "a": ("m", "k2", "k1", "k0"),
    "b": ("k2", "k1", "k0", "n1", "n0"),
    "c": ("m", "n1", "n0"),
}
"""Loops of a matrix multiply that each operand runs over; ``bias_axis`` says so for the bias."""
BIAS_DIMENSION = {1: "m", 2: "n0"}


@dataclass(frozen=True, slots=True)
class Access:
    """One operand of one opcode.

    ``address(values)`` is base, step0, level0, step1, level1, slot, turn; ``span(values)`` is the
    distance in elements from the rectangle's first element to its last.
    """

    operand: str
    written: bool
    address: Callable[..., tuple[int, ...]]
    span: Callable[[Values], int]


def _span(
    sizes: Callable[..., tuple[int, ...]], strides: Callable[..., tuple[int, ...]]
) -> Callable[[Values], int]:
    def span(values: Values) -> int:
        steps = strides(values)
        reached: int = sum(map(mul, sizes(values), steps)) - sum(steps)
        return reached

    return span


def _positions(opcode: Opcode, names: list[str]) -> Callable[..., tuple[int, ...]]:
    index = field_index(opcode)
    return itemgetter(*(index[name] for name in names))


def _access(opcode: Opcode, operand: str, written: bool) -> Access:
    if opcode is Opcode.MATMUL:
        dimensions = MATMUL_DIMENSIONS[operand]
        sizes = _positions(opcode, list(dimensions))
        strides = _positions(opcode, [f"{operand}_{d}" for d in dimensions])
    else:
        sizes = _positions(opcode, [f"size{d}" for d in range(MAX_RANK)])
        strides = _positions(opcode, [f"{operand}_stride{d}" for d in range(MAX_RANK)])
    return Access(operand, written, _address(opcode, operand), _span(sizes, strides))


def _address(opcode: Opcode, operand: str) -> Callable[..., tuple[int, ...]]:
    return _positions(opcode, [f"{operand}_{part}" for part in OPERAND_PARTS])


def _bias(dimension: str) -> Access:
    """The bias is a dense vector over ``dimension``."""
    index = field_index(Opcode.MATMUL)
    size = index[dimension]
    address = _address(Opcode.MATMUL, "bias")
    return Access("bias", False, address, lambda values: int(values[size]) - 1)


ACCESSES: dict[Opcode, tuple[Access, ...]] = {
    opcode: tuple(
        sorted(
            (_access(opcode, name, written) for name, written in operands if name != "bias"),
            key=lambda access: access.written,
        )
    )
    for opcode, operands in OPERANDS.items()
}
"""Operands of every opcode, those that are read before the one that is written; without the bias
of MATMUL, which is there only where ``bias_axis`` says so."""

BIAS_ACCESSES: dict[int, Access] = {axis: _bias(d) for axis, d in BIAS_DIMENSION.items()}


def _extents(opcode: Opcode) -> Callable[..., tuple[int, ...]]:
    if opcode is Opcode.MATMUL:
        return _positions(opcode, ["m", "n1", "n0", "k2", "k1", "k0"])
    return _positions(opcode, [f"size{d}" for d in range(MAX_RANK)])


EXTENTS: dict[Opcode, Callable[..., tuple[int, ...]]] = {
    opcode: _extents(opcode) for opcode in OPERANDS
}
"""All sizes of an instruction, each of which must be at least 1."""

_MATMUL_ACCUMULATE = field_index(Opcode.MATMUL)["accumulate"]
_REDUCE_ACCUMULATE = field_index(Opcode.REDUCE)["accumulate"]


KEEPERS = frozenset((int(Opcode.FMA), int(Opcode.REDUCE), int(Opcode.MATMUL)))
"""Opcodes that may read what their destination holds."""


def keeps_destination(values: Values) -> bool:
    """Whether one of the ``KEEPERS`` does so already in its first run."""
    match values[0]:
        case Opcode.REDUCE:
            return values[_REDUCE_ACCUMULATE] == 1
        case Opcode.MATMUL:
            return values[_MATMUL_ACCUMULATE] == When.ALWAYS
        case _:
            return True
