"""The constants of a MATMUL of bytes or of bf16, as given to narrow_gemm.py, and how its sums are grouped:
a lane of 32 bits takes 2 or 4 neighbours of the reduction at once."""

from __future__ import annotations

from dataclasses import dataclass, replace

from autotune.errors import ProgramError
from autotune.isa.formats import ELEMENT_BYTES, Format
from autotune.targets.native.codegen.gemm.loops import (
    NO_ENDS,
    Loops,
    Reduction,
    Steps,
    loops_of,
)
from autotune.targets.native.codegen.gemm.shape import GemmShape, VectorAxis, vector_axis
from autotune.targets.native.cpu.vector_isa import DotProduct, VectorIsa

SIGN = 128
"""Added to a signed byte, or taken from an unsigned one, it makes the other of it."""
BYTES = (Format.INT8, Format.UINT8)


@dataclass(frozen=True, slots=True)
class Factor:
    """Format and zero point of a factor; bf16 has none."""

    format: Format
    zero: int = 0

    def __post_init__(self) -> None:
        if self.format not in (*BYTES, Format.BF16):
            raise ProgramError(f"narrow matmul: {self.format.name}; give INT8, UINT8 or BF16")
        if self.format is Format.BF16 and self.zero:
            raise ProgramError(f"matmul of bf16: zero point {self.zero}; it has none, give 0")

    def as_read(self, unsigned: bool | None) -> tuple[int, int]:
        """What is added to each element that is to be ``unsigned``, signed, or as it is (None); the
        zero point is then further by as much."""
        if unsigned is None or unsigned == (self.format is Format.UINT8):
            return 0, self.zero
        shift = SIGN if unsigned else -SIGN
        return shift, self.zero + shift


@dataclass(frozen=True, slots=True)
class NarrowShape:
    """Bytes: c[m,n1,n0] (+)= Σ (a − a's zero)·(b − b's zero) modulo 2^32, then fn(c + bias + r), all INT32.
    BF16: c (+)= Σ a·b in fp32, with any epilogue.

    ``product`` has strides of a and b in elements, those of the rest in words. Its ``panel`` = NR says
    how the factor of ``vector_axis(product)`` is packed: panels of [NR] INT32 that sums of bytes begin from,
    and then [outer reductions][⌈run / group⌉][NR][group] signed bytes, or bf16, zeros behind each run.
    A product that ``copies`` is given both factors of bytes as they are, and makes each panel on the stack.
    Raises ProgramError for bytes by bf16, and for bf16 that is copied.
    """

    product: GemmShape
    a: Factor
    b: Factor
    copies: bool = False

    def __post_init__(self) -> None:
        if self.copies and Format.BF16 in (self.a.format, self.b.format):
            raise ProgramError(
                "narrow matmul: panels of bytes alone are copied; give constant bf16"
            )
        if (self.a.format is Format.BF16) != (self.b.format is Format.BF16):
            raise ProgramError(
                f"narrow matmul: {self.a.format.name} by {self.b.format.name}; give BF16 on both sides"
            )

    @property
    def is_bf16(self) -> bool:
        """Whether it multiplies bf16; else bytes."""
        return self.a.format is Format.BF16

    def dot(self, isa: VectorIsa) -> DotProduct:
        """How an instruction set multiplies its factors. Raises ProgramError where it does not."""
        found = isa.halves if self.is_bf16 else isa.dot
        if found is None:
            raise ProgramError(f"matmul of bf16: {isa.name} has no product of it; give fp32")
        return found

    @property
    def axis(self) -> VectorAxis:
        """The axis that lanes run along."""
        return vector_axis(self.product)

    @property
    def lanes(self) -> Factor:
        """The factor in lanes."""
        return self.a if self.axis is VectorAxis.M else self.b

    @property
    def broadcast(self) -> Factor:
        """The other factor."""
        return self.b if self.axis is VectorAxis.M else self.a


@dataclass(frozen=True, slots=True)
class Groups:
    """The reduction of a product in groups: ``outer`` loops, and runs of ``run`` elements of ``element_bytes``,
    ``step`` elements apart in the broadcast factor. A panel begins with what sums start from if it ``begins``."""

    outer: tuple[Reduction, ...]
    run: int
    step: int
    group: int
    element_bytes: int = 1
    begins: bool = True

    @classmethod
    def of(cls, shape: NarrowShape, loops: Loops, isa: VectorIsa) -> Groups:
        """As many loops in a run as the broadcast factor has dense."""
        *outer, inner = loops.reductions
        found = cls(tuple(outer), inner.size, inner.broadcast, shape.dot(isa).group)
        if shape.is_bf16:
            found = replace(found, element_bytes=Format.BF16.bytes, begins=False)
        return found

    @property
    def run_groups(self) -> int:
        """Groups of a run; the last one may be partial."""
        return -(-self.run // self.group)

    def panel_words(self, width: int) -> int:
        """Words of a panel of so many lanes."""
        groups = self.run_groups
        for loop in self.outer:
            groups *= loop.size
        return width * self.begins + groups * self.step_words(width)

    def step_words(self, width: int) -> int:
        """Words of a panel of so many lanes that a group takes."""
        return width * self.group * self.element_bytes // ELEMENT_BYTES


@dataclass(frozen=True, slots=True)
class MemoryLanes:
    """The factor in lanes where it lies: how far neighbouring lanes are apart, and the steps of the reduction's
    loops from the outermost in."""

    stride: int
    steps: tuple[int, ...]


def lanes_in_memory(shape: NarrowShape) -> MemoryLanes | None:
    """Where a product that copies finds its factor in lanes; None where that lies in more loops than panels do."""
    source = loops_of(replace(shape.product, panel=None))
    panels = loops_of(replace(shape.product, panel=1))
    if [k.size for k in source.reductions] != [k.size for k in panels.reductions]:
        return None
    return MemoryLanes(source.vector.lanes, tuple(k.lanes for k in source.reductions))


def narrow_loops(
    shape: NarrowShape, isa: VectorIsa, ends: tuple[Steps, Steps, Steps] = NO_ENDS
) -> tuple[Loops, Groups]:
    """The canonical form of a product in panels, a group as one step of its reduction, and how its
    elements are grouped. ``ends`` are those of its axes."""
    loops = loops_of(shape.product, ends)
    groups = Groups.of(shape, loops, isa)
    step = Reduction(groups.run_groups, loops.vector.size, groups.group * groups.step)
    return replace(loops, reductions=(*groups.outer, step)), groups
