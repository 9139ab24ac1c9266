"""Memory accesses: which words of the scratchpad each instruction reads and writes, as strided rectangles."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from autotune.isa.access import ACCESSES, MATMUL_DIMENSIONS, TILE_ROWS, Access
from autotune.isa.fields import MAX_RANK, NO_LEVEL
from autotune.isa.formats import ELEMENT_BYTES, Format
from autotune.isa.functions import Transform, When
from autotune.isa.opcodes import Opcode
from autotune.isa.program import Instruction
from autotune.targets.native.analysis.affine import Affine
from autotune.targets.native.analysis.tree import Leaf

Dims = tuple[tuple[int, int], ...]
"""(extent, stride in elements) per dimension, in the instruction's order."""


@dataclass(frozen=True, slots=True)
class Alternation:
    """Double buffering: ``slot`` elements further in every other trip that loop level ``turn`` begins."""

    slot: int
    turn: int


@dataclass(frozen=True, slots=True, eq=False)
class MemoryAccess:
    """One operand of one instruction in the scratchpad, in elements of ``element_bytes``.

    ``keeps``: it reads what it writes, always; ``begins``: level of the loop in whose first trip it
    does not, though in the later ones, None without such a loop. ``low`` and ``high`` bound all the
    words that it accesses in all trips.
    """

    leaf: Leaf
    operand: str
    written: bool
    keeps: bool
    begins: int | None
    at: Affine
    alternation: Alternation | None
    dims: Dims
    low: int
    high: int
    element_bytes: int = ELEMENT_BYTES
    format: Format = Format.FP32

    @property
    def span(self) -> int:
        """Distance from the rectangle's first element to its last."""
        return sum((n - 1) * stride for n, stride in self.dims)

    @property
    def reads(self) -> bool:
        """Whether what stands there before matters."""
        return not self.written or self.keeps

    def meets(self, low: int, high: int) -> bool:
        """Whether its addresses may lie in [low, high]."""
        return self.low <= high and self.high >= low


@lru_cache(maxsize=4096)  # to see where operands live, and again to bind them
def accesses_of(leaf: Leaf) -> tuple[MemoryAccess, ...]:
    """What an instruction accesses, what it reads before what it writes."""
    values = leaf.instruction.values
    return tuple(
        _accessed(leaf, access)
        for access in ACCESSES.get(leaf.opcode, ())
        if access.present is None or access.present(values)
    )


def _accessed(leaf: Leaf, access: Access) -> MemoryAccess:
    values = leaf.instruction.values
    base, step0, level0, step1, level1, slot, turn = access.address(values)
    terms = [(v, s) for v, s in ((level0, step0), (level1, step1)) if v != NO_LEVEL]
    at = Affine.of(base, *terms)
    alternates = turn != NO_LEVEL and slot != 0
    low, high = at.within(leaf.trips)
    high += access.span(values) + (slot if alternates else 0)
    size = access.element_bytes(values)
    low, high = low * size // ELEMENT_BYTES, high * size // ELEMENT_BYTES
    keeps = access.written and access.keeps is not None and access.keeps(values)
    keeps = keeps or leaf.opcode is Opcode.MASK  # what lies inside of the tensor
    return MemoryAccess(
        leaf,
        access.operand,
        access.written,
        keeps,
        _begins(leaf) if access.written else None,
        at,
        Alternation(slot, turn) if alternates else None,
        dims_of(leaf.instruction, access.operand),
        low,
        high,
        size,
        Format.FP32 if access.form is None else Format(int(values[access.form])),
    )


def _begins(leaf: Leaf) -> int | None:
    if leaf.opcode not in (Opcode.MATMUL, Opcode.ONLINE):
        return None
    by_level = leaf.instruction.get("accumulate") == When.BY_LEVEL
    return leaf.instruction.get("k_level") if by_level else None


def dims_of(instruction: Instruction, operand: str) -> Dims:
    """The rectangle of an operand, in elements."""
    opcode = instruction.opcode
    if opcode is Opcode.MATMUL:
        if operand == "bias":
            return ((instruction.get("m" if instruction.get("bias_axis") == 1 else "n0"), 1),)
        names = MATMUL_DIMENSIONS[operand]
        return tuple((instruction.get(d), instruction.get(f"{operand}_{d}")) for d in names)
    if opcode is Opcode.ONLINE:
        if operand == "state":
            return ((instruction.get("size0"), instruction.get("state_stride0")), (3, 1))
        return tuple(
            (instruction.get(f"size{d}"), instruction.get(f"{operand}_stride{d}")) for d in range(2)
        )
    if opcode is Opcode.LOOKUP and operand == "src":
        return ((instruction.get("size0"), instruction.get("src_stride0")),)
    if opcode is Opcode.TRANSFORM:
        return _tile_dims(instruction, operand)
    return tuple(
        (instruction.get(f"size{d}"), instruction.get(f"{operand}_stride{d}"))
        for d in range(MAX_RANK)
    )


def _tile_dims(instruction: Instruction, operand: str) -> Dims:
    if operand == "bias":
        return ((instruction.get("size4"), 1),)
    result, source = TILE_ROWS[Transform(instruction.get("transform"))]
    rows = source if operand == "src" else result
    sizes = (rows, rows, *(instruction.get(f"size{d}") for d in range(2, MAX_RANK)))
    return tuple((n, instruction.get(f"{operand}_stride{d}")) for d, n in enumerate(sizes))
