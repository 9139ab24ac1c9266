"""Drawn operands: sizes, strides and addresses that stay inside of a range of the scratchpad."""

from __future__ import annotations

import math

from hypothesis import strategies as st

from autotune.isa.fields import NO_LEVEL
from autotune.isa.program import Instruction
from tests.targets.machine_case import loop

Fields = dict[str, int | float]


@st.composite
def dense(draw: st.DrawFn, sizes: tuple[int, ...]) -> tuple[int, ...]:
    """Strides by which no two elements meet: some order of the dimensions, with gaps."""
    strides, reach = [0] * len(sizes), draw(st.integers(1, 2))
    for d in draw(st.permutations(range(len(sizes)))):
        strides[d] = reach
        reach *= sizes[d] + draw(st.integers(0, 1))
    return tuple(strides)


def extents(most: int = 4, rank: int = 5) -> st.SearchStrategy[tuple[int, ...]]:
    return st.tuples(*[st.integers(1, most)] * rank)


def rectangle(name: str, strides: tuple[int, ...]) -> Fields:
    return {f"{name}_stride{d}": stride for d, stride in enumerate(strides)}


def sized(sizes: tuple[int, ...]) -> Fields:
    return {f"size{d}": n for d, n in enumerate(sizes)}


def span(sizes: tuple[int, ...], strides: tuple[int, ...]) -> int:
    return sum((n - 1) * s for n, s in zip(sizes, strides, strict=True)) + 1


@st.composite
def address(draw: st.DrawFn, name: str, low: int, high: int, reach: int) -> Fields:
    """Base, steps by both loops of ``nested`` and a second slot, all inside [low, high)."""
    room = high - low - reach
    fields: Fields = {}
    base = low
    for k in range(2):
        step = draw(st.integers(-(room // 12), room // 12))
        level = draw(st.sampled_from((0, 1, NO_LEVEL)))
        fields |= {f"{name}_step{k}": step, f"{name}_level{k}": level}
        base += max(0, -2 * step)
        room -= 2 * abs(step)
    slot = draw(st.integers(0, room // 2))
    fields |= {f"{name}_slot": slot, f"{name}_turn": draw(st.sampled_from((0, 1, NO_LEVEL)))}
    return fields | {f"{name}_base": base + draw(st.integers(0, room - slot))}


def nested(*body: Instruction, trips: int = 3) -> tuple[Instruction, ...]:
    """3 trips of 3 trips: odd, so that the slots of the inner loop swap on re-entry."""
    return loop(trips, *loop(trips, *body, level=1))


def repeats(strides: tuple[int, ...], keep: tuple[bool, ...]) -> tuple[int, ...]:
    """Strides with some made 0: broadcast."""
    return tuple(s if k else 0 for s, k in zip(strides, keep, strict=True))


@st.composite
def coordinates(draw: st.DrawFn) -> Fields:
    fields: Fields = {}
    for d in range(5):
        fields[f"coord{d}"] = draw(st.integers(-5, 4))
        fields[f"step{d}"] = draw(st.integers(-2, 2))
        fields[f"level{d}"] = draw(st.sampled_from((0, 1, NO_LEVEL)))
    return fields


@st.composite
def near(draw: st.DrawFn, extent: tuple[int, ...]) -> tuple[int, ...]:
    """Dense row-major strides, or any others."""
    if draw(st.booleans()):
        return tuple(math.prod(extent[d + 1 :]) for d in range(len(extent)))
    return tuple(draw(st.integers(0, 40)) for _ in extent)


PRODUCT_DIMENSIONS = {
    "a": ("m", "k2", "k1", "k0"),
    "b": ("k2", "k1", "k0", "n1", "n0"),
    "c": ("m", "n1", "n0"),
    "r": ("m", "n1", "n0"),
}


@st.composite
def products(draw: st.DrawFn, part: int) -> Fields:
    """Sizes, strides and addresses of a MATMUL: a, b, c, r and bias, each in a part of its own of so
    many words, in this order."""
    names = ("m", "n1", "n0", "k2", "k1", "k0")
    limits = (9, 4, 20, 3, 3, 6)
    fields: Fields = {
        name: draw(st.integers(1, most)) for name, most in zip(names, limits, strict=True)
    }
    for place, (name, own) in enumerate(PRODUCT_DIMENSIONS.items()):
        sizes = tuple(int(fields[d]) for d in own)
        strides = draw(dense(sizes) if name == "c" else near(sizes))
        fields |= {f"{name}_{d}": s for d, s in zip(own, strides, strict=True)}
        fields |= draw(address(name, place * part, (place + 1) * part, span(sizes, strides)))
    return fields | draw(address("bias", 4 * part, 5 * part, 20))
