"""Transposes a square of registers with shuffles alone, for packers of what lies the other way, or adds up each one's lanes."""

from __future__ import annotations

from collections.abc import Sequence

from autotune.targets.native.codegen.writing.ir import FunctionWriter, vector
from autotune.targets.native.cpu.vector_isa import VectorIsa

BLOCK = 4
"""Floats of 128 bits, within which a shuffle is cheapest on x86."""


def transposed(writer: FunctionWriter, isa: VectorIsa, rows: Sequence[str]) -> list[str]:
    """As many registers as one has lanes, element j of register i as element i of register j.

    Squares of 4×4 in their blocks of 128 bits first, then whole blocks: 24 shuffles of 8×8.
    """
    lanes = isa.lanes
    assert len(rows) == lanes, "no square"
    within = [
        _shuffled(writer, isa, rows[first : first + BLOCK], 1) for first in range(0, lanes, BLOCK)
    ]
    found = [""] * lanes
    for j in range(BLOCK):
        for b, value in enumerate(_shuffled(writer, isa, [each[j] for each in within], BLOCK)):
            found[j + BLOCK * b] = value
    return found


def folded(writer: FunctionWriter, isa: VectorIsa, rows: Sequence[str]) -> str:
    """The sum of all lanes of register j as element j, of as many registers as one has lanes: 30 shuffles of 16."""
    assert len(rows) == isa.lanes, "no square"
    within = [
        _folded(writer, isa, rows[first : first + BLOCK], 1) for first in range(0, isa.lanes, BLOCK)
    ]
    return _folded(writer, isa, within, BLOCK)


def _folded(writer: FunctionWriter, isa: VectorIsa, values: Sequence[str], unit: int) -> str:
    """The sum of a transpose of ``unit`` floats each: both halves of a perfect shuffle are added at once."""
    kind, lanes, found = vector(isa.lanes), isa.lanes, list(values)
    masks = _interleaving(lanes, unit)
    while len(found) > 1:
        half = len(found) // 2
        pairs = [
            [
                writer.value(f"shufflevector {kind} {x}, {kind} {y}, <{lanes} x i32> <{mask}>")
                for mask in masks
            ]
            for x, y in zip(found[:half], found[half:], strict=True)
        ]
        found = [writer.value(f"fadd {kind} {low}, {high}") for low, high in pairs]
    return found[0]


def _shuffled(
    writer: FunctionWriter, isa: VectorIsa, values: Sequence[str], unit: int
) -> list[str]:
    """A transpose of ``unit`` floats each by perfect shuffles: registers of one half interleaved
    with those of the other, log2 of their number times. Single floats stay in their blocks."""
    kind, lanes, count = vector(isa.lanes), isa.lanes, len(values)
    low, high = _interleaving(lanes, unit)
    done, found = 1, list(values)
    while done < count:
        pairs = list(zip(found[: count // 2], found[count // 2 :], strict=True))
        found = [
            writer.value(f"shufflevector {kind} {x}, {kind} {y}, <{lanes} x i32> <{mask}>")
            for x, y in pairs
            for mask in (low, high)
        ]
        done *= 2
    return found


def _interleaving(lanes: int, unit: int) -> tuple[str, str]:
    """Masks that interleave the lower halves, and the upper ones, of two registers; of each block
    of 128 bits where single floats are."""
    within = BLOCK if unit == 1 else lanes
    masks = []
    for half in (0, 1):
        picks: list[int] = []
        for block in range(0, lanes, within):
            for at in range(half * within // 2, (half + 1) * within // 2, unit):
                for side in (0, lanes):
                    picks += [side + block + at + i for i in range(unit)]
        masks.append(", ".join(f"i32 {pick}" for pick in picks))
    return masks[0], masks[1]
