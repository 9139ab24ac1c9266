"""Calls of micro-kernels: what an instruction, or several of them, becomes; steps are made of them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from autotune.isa.formats import ELEMENT_BYTES, Format
from autotune.isa.opcodes import Opcode
from autotune.targets.native.analysis.affine import NOTHING, Affine
from autotune.targets.native.analysis.memory_access import Alternation, MemoryAccess
from autotune.targets.native.analysis.rectangle import InPlace
from autotune.targets.native.binding.narrow_packing import NarrowPacked
from autotune.targets.native.binding.packing import Packed
from autotune.targets.native.codegen.kernel_spec import KernelSpec


class Space(IntEnum):
    """What an operand's address counts from."""

    SCRATCHPAD = 0
    TENSOR = 1
    POOL = 2
    WORD = 3


@dataclass(frozen=True, slots=True)
class Operand:
    """Where an operand begins: ``at`` counts elements of ``element_bytes`` in its space; ``number`` says which
    tensor, which packed constant or which decoded instruction it is. ``strides`` are those of the
    instruction's dimensions; a decoded instruction has none."""

    space: Space
    number: int = 0
    at: Affine = NOTHING
    alternation: Alternation | None = None
    strides: tuple[int, ...] = ()
    element_bytes: int = ELEMENT_BYTES
    format: Format = Format.FP32

    @classmethod
    def of(cls, access: MemoryAccess, place: InPlace | None) -> Operand:
        """An instruction's operand: in its place if there is one for it, else where it says."""
        if place is not None:
            found = (place.strides, place.format.bytes, place.format)
            if place.tensor is None:
                return cls(Space.SCRATCHPAD, 0, place.at, None, *found)
            return cls(Space.TENSOR, place.tensor, place.at, None, *found)
        strides = tuple(stride for _, stride in access.dims)
        return cls(
            Space.SCRATCHPAD,
            0,
            access.at,
            access.alternation,
            strides,
            access.element_bytes,
            access.format,
        )


@dataclass(frozen=True, slots=True)
class Call:
    """One call: generated code, or the compiled kernel of an opcode with the row that it decodes.

    ``packed`` is the constant that operands in the pool mean.
    """

    kernel: KernelSpec | Opcode
    operands: tuple[Operand, ...]
    numbers: tuple[Affine, ...] = ()
    row: tuple[int | float, ...] = ()
    packed: Packed | NarrowPacked | None = None
