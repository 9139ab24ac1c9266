"""Number formats of scratchpad and DRAM."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum

ELEMENT_BYTES = 4
"""Bytes of a scratchpad word, the unit of every operand address."""


class Format(IntEnum):
    """Storage format of a number. Narrow formats are packed: four INT8 or two BF16 or FP16 to a word."""

    FP32 = 0
    BF16 = 1  # upper half of an fp32; rounding to nearest, ties to even
    INT8 = 2
    UINT8 = 3
    INT32 = 4
    FP16 = 5  # IEEE 754 binary16; stored and converted, never multiplied

    @property
    def bytes(self) -> int:
        """Bytes of one element."""
        return _FORMAT_BYTES[self]

    @property
    def is_float(self) -> bool:
        """True for floating-point formats, which have no zero point."""
        return self in (Format.FP32, Format.BF16, Format.FP16)


_FORMAT_BYTES = {
    Format.FP32: 4, Format.BF16: 2, Format.INT8: 1, Format.UINT8: 1, Format.INT32: 4,
    Format.FP16: 2,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Formats:
    """Formats that a machine stores tensors in, and those that it multiplies; those of ``by_constants`` where
    the second factor is a constant alone, and they store only what such a product reads.

    ``macs_per_byte`` are fp32 multiply-adds in the time that a byte of weights takes from memory; 0 where the
    choice of an algorithm leaves that time out. Products of the formats in ``fast`` beat algorithms with fewer of them
    in fp32. A format that is stored and not multiplied is one of weights, unless it is ``converted``: transfers then
    convert every tensor."""

    stored: frozenset[Format] = frozenset((Format.FP32,))
    multiplied: frozenset[Format] = frozenset((Format.FP32,))
    by_constants: frozenset[Format] = frozenset()
    macs_per_byte: int = 0
    fast: frozenset[Format] = frozenset()
    converted: frozenset[Format] = frozenset()

    @classmethod
    def common(cls, several: Iterable[Formats]) -> Formats:
        """Return what all of several machines have. What some of them multiply is stored only where all do;
        of times of weights the least counts."""
        every = tuple(several)
        multiplied = frozenset.intersection(*(one.multiplied for one in every))
        limited = frozenset.union(*(one.by_constants for one in every))
        some = frozenset.union(*(one.multiplied for one in every))
        stored = frozenset.intersection(*(one.stored for one in every))
        macs_per_byte = min(one.macs_per_byte for one in every)
        fast = frozenset.intersection(*(one.fast for one in every))
        converted = frozenset.intersection(*(one.converted for one in every))
        return cls(
            stored - (some - multiplied),
            multiplied,
            limited & multiplied,
            macs_per_byte,
            fast,
            converted,
        )

    @property
    def text(self) -> str:
        """Name of the choice, for keys of caches."""
        limited = (self.by_constants,) if self.by_constants or self.fast else ()
        sets = (self.stored, self.multiplied, *limited, *(self.fast,) * bool(self.fast))
        names = "/".join(",".join(sorted(x.name for x in y)) for y in sets)
        names += "".join(f" all {x.name}" for x in sorted(self.converted))
        return f"{names} {self.macs_per_byte}" if self.macs_per_byte else names


FLOAT32_ONLY = Formats()
_BYTES = frozenset((Format.FP32, Format.INT8, Format.UINT8))
ALL_FORMATS = Formats(_BYTES | {Format.BF16}, _BYTES | {Format.BF16})
"""What lowering uses of the formats that the instruction set knows."""
CONVERTED_FORMATS = Formats(
    ALL_FORMATS.stored | {Format.FP16}, ALL_FORMATS.multiplied, converted=frozenset((Format.FP16,))
)
"""The same where transfers convert FP16."""
CACHED_FORMATS = Formats(_BYTES | {Format.BF16, Format.FP16}, _BYTES)
"""What machines with caches use: weights of BF16 and of FP16 are widened on their way to the registers."""
CACHED_BF16_FORMATS = Formats(
    CACHED_FORMATS.stored, _BYTES | {Format.BF16}, frozenset((Format.BF16,))
)
"""The same where they multiply BF16."""
