"""Calls of the compiled kernels (kernels/micro/words.h): an instruction's word, relieved of what the executor gives;
the binder takes one where nothing is generated."""

from __future__ import annotations

from collections.abc import Callable

from autotune.isa.access import MATMUL_DIMENSIONS
from autotune.isa.fields import NO_LEVEL
from autotune.isa.opcodes import Opcode
from autotune.isa.program import field_index
from autotune.targets.native.analysis.affine import Affine
from autotune.targets.native.analysis.copy_elision import TRANSFERS
from autotune.targets.native.analysis.rectangle import coordinates_of
from autotune.targets.native.analysis.tree import Leaf
from autotune.targets.native.binding.call import Call, Operand, Space

WORD_OPERANDS: dict[Opcode, tuple[str, ...]] = {
    Opcode.MATMUL: ("c", "a", "b", "bias", "r"),
    Opcode.UNARY: ("dst", "src"),
    Opcode.BINARY: ("dst", "lhs", "rhs"),
    Opcode.FMA: ("dst", "lhs", "rhs"),
    Opcode.FILL: ("dst",),
    Opcode.REDUCE: ("dst", "src"),
    Opcode.CHAIN: ("dst", "src", "side0", "side1"),
    Opcode.ONLINE: ("dst", "state", "src"),
    Opcode.CONVERT: ("dst", "src"),
    Opcode.TRANSFORM: ("dst", "src", "bias", "r"),
    Opcode.MASK: ("dst",),
    Opcode.LOAD: ("dst",),
    Opcode.GATHER: ("dst",),
    Opcode.LOOKUP: ("dst", "src"),
    Opcode.STORE: ("src",),
}
"""Operands that the compiled kernels of kernels/micro/words.h take behind the word."""
WORD_SLOTS = 5


def word_call(leaf: Leaf, operands: dict[str, Operand]) -> Call:
    """The compiled kernel of the instruction's opcode; ``operands`` are where its operands live, by name."""
    opcode = leaf.opcode
    values = list(leaf.instruction.values)
    index = field_index(opcode)

    def put(name: str, value: int) -> None:
        if name in index:
            values[index[name]] = value

    for name in WORD_OPERANDS[opcode]:
        for part in ("base", "step0", "step1", "slot"):
            put(f"{name}_{part}", 0)
        for part in ("level0", "level1", "turn"):
            put(f"{name}_{part}", NO_LEVEL)
        if name in operands:
            _put_strides(put, opcode, name, operands[name])
    coordinates = coordinates_of(leaf) if "coord0" in index else ()
    for d in range(len(coordinates)):
        put(f"coord{d}", 0)
        put(f"step{d}", 1)
        put(f"level{d}", d)
    places = [operands.get(name, Operand(Space.SCRATCHPAD)) for name in WORD_OPERANDS[opcode]]
    if opcode in TRANSFERS or opcode is Opcode.LOOKUP:
        places.append(Operand(Space.TENSOR, leaf.instruction.get("tensor")))
    places += [Operand(Space.SCRATCHPAD)] * (WORD_SLOTS - len(places))
    numbers = coordinates or _loop_numbers(leaf)
    return Call(opcode, (Operand(Space.WORD), *places), numbers, tuple(values))


def _put_strides(
    put: Callable[[str, int], None], opcode: Opcode, name: str, operand: Operand
) -> None:
    if name == "bias":
        return
    if opcode is Opcode.MATMUL:
        for d, stride in zip(MATMUL_DIMENSIONS[name], operand.strides, strict=True):
            put(f"{name}_{d}", stride)
    elif not (opcode is Opcode.ONLINE and name == "state"):
        for i, stride in enumerate(operand.strides):
            put(f"{name}_stride{i}", stride)


def _loop_numbers(leaf: Leaf) -> tuple[Affine, ...]:
    """Where the reduction loop stands and its last trip, for opcodes that go by it."""
    if leaf.opcode not in (Opcode.MATMUL, Opcode.ONLINE):
        return ()
    level = leaf.instruction.get("k_level")
    if level == NO_LEVEL:
        return (Affine(), Affine())
    return (Affine.of(0, (level, 1)), Affine(leaf.trips(level) - 1))
