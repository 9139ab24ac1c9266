"""Outputs said to be stored in full are, however their stores are drawn; and tiles of a nest are seen to be."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from autotune.isa.opcodes import Opcode
from autotune.isa.program import Instruction, Program
from autotune.targets.emulator.coverage import stored_in_full
from tests.kernels.emulator.engine_case import assert_as_interpreted, output, outputs_of
from tests.targets.machine_case import load, make, program, tensor

WORDS = 512
X = np.ones(WORDS, np.float32)


def stores_of(instructions: list[Instruction], *shape: int) -> Program:
    """They store ones to ``y``."""
    tensors = (tensor("x", WORDS), output("y", *shape))
    return program(load(0, 0, WORDS), *instructions, tensors=tensors, elements=WORDS)


def loop(level: int, trips: int) -> Instruction:
    return make(Opcode.LOOP, trips=trips, level=level)


def end(level: int) -> Instruction:
    return make(Opcode.END, level=level)


def store(*sides: tuple[int, int, int, int]) -> Instruction:
    """Coordinate, step, level and size of each dimension."""
    names = ("coord", "step", "level", "size")
    fields = {
        f"{n}{d}": v for d, side in enumerate(sides) for n, v in zip(names, side, strict=True)
    }
    return make(Opcode.STORE, tensor=1, src_stride4=1, **fields)


def read_back(row: int) -> Instruction:
    """A LOAD of the first element of a row of ``y``."""
    return make(Opcode.LOAD, tensor=1, coord0=row, size0=1, dst_stride0=1)


def drawn(rng: np.random.Generator) -> tuple[list[Instruction], tuple[int, int]]:
    """Some stores to a small matrix, in up to two loops and perhaps a CASE, most of them near to full;
    behind one of eight, a load from it."""
    shape = int(rng.integers(1, 7)), int(rng.integers(1, 7))
    out: list[Instruction] = []
    for _ in range(int(rng.integers(1, 4))):
        trips = [int(rng.integers(1, 4)) for _ in range(int(rng.integers(0, 3)))]
        sides = []
        for extent in shape:
            size = int(rng.integers(1, extent + 1))
            level = int(rng.integers(0, len(trips))) if trips and rng.random() < 0.7 else 15
            coordinate, step = int(rng.integers(-1, 3)), int(rng.choice([-size, 0, size, size + 1]))
            sides.append((coordinate if rng.random() < 0.5 else 0, step, level, size))
        kept = rng.random() < 0.2
        case = [make(Opcode.CASE, parameter=0, low=5, high=5, level=len(trips))] * kept
        opened = [loop(level, count) for level, count in enumerate(trips)]
        closed = [end(level) for level in reversed(range(len(trips)))]
        out += [*opened, *case, store(*sides), *[end(len(trips))] * kept, *closed]
        if rng.random() < 0.125:
            out.append(read_back(int(rng.integers(0, shape[0]))))
    return out, shape


@pytest.mark.parametrize("seed", range(4))
def test_what_is_said_to_be_stored_in_full_is(seed: int) -> None:
    rng, said = np.random.default_rng(seed), 0
    for _ in range(500):
        instructions, shape = drawn(rng)
        given = stores_of(instructions, *shape)
        if "y" in stored_in_full(given):
            said += 1
            assert (written(given, shape) == 1).all()
    assert said >= 10


def written(given: Program, shape: tuple[int, int]) -> np.ndarray:
    """How often at least each element is stored, by walking the loops; 0 or 1. Nowhere, where a load
    finds what is not stored yet."""
    found, trips, cases = np.zeros(shape, int), [], 0
    for one in given.streams[0]:
        if one.opcode in (Opcode.LOOP, Opcode.CASE):
            trips.append(one.get("trips") if one.opcode is Opcode.LOOP else 1)
            cases += one.opcode is Opcode.CASE
        elif one.opcode is Opcode.END:
            trips.pop()
            cases = 0
        elif one.opcode is Opcode.LOAD and one.get("tensor") == 1:
            if not found[one.get("coord0"), 0]:
                return np.zeros(shape, int)
        elif one.opcode is Opcode.STORE and not cases:
            for index in product(*map(range, trips)):
                inside = []
                for d, extent in enumerate(shape):
                    level = one.get(f"level{d}")
                    moved = one.get(f"step{d}") * index[level] if level < 15 else 0
                    first = one.get(f"coord{d}") + moved
                    inside.append(
                        slice(max(0, first), max(0, min(extent, first + one.get(f"size{d}"))))
                    )
                found[tuple(inside)] = 1
    return found


def test_tiles_with_remainders_are_seen_to_fill_their_tensor() -> None:
    tiles = [loop(0, 3), loop(1, 2), store((0, 3, 0, 3), (0, 4, 1, 4)), end(1), end(0)]
    rest = [loop(0, 2), store((9, 0, 15, 2), (0, 4, 0, 4)), end(0)]
    assert stored_in_full(stores_of([*tiles, *rest], 11, 8)) == {"y"}
    assert stored_in_full(stores_of(tiles, 11, 8)) == frozenset()
    assert stored_in_full(stores_of(tiles, 9, 7)) == {"y"}  # beyond the tensor nothing is stored


def test_a_dimension_that_moves_with_another_fills_no_box() -> None:
    diagonal = [loop(0, 2), store((0, 2, 0, 2), (0, 2, 0, 2)), end(0)]
    assert stored_in_full(stores_of(diagonal, 4, 4)) == frozenset()


def test_what_no_store_reaches_is_not_a_number() -> None:
    given = stores_of([store((1, 0, 15, 2), (0, 0, 15, 4))], 4, 4)
    found = outputs_of(given, x=X)["y"]
    assert np.isnan(found[[0, 3]]).all() and (found[1:3] == 1).all()


def test_an_output_that_is_read_before_it_is_stored_holds_no_numbers_there() -> None:
    half = {"tensor": 1, "size0": 4}
    given = program(
        load(0, 0, 8),
        make(Opcode.STORE, **half, src_stride0=1),
        make(Opcode.LOAD, **half, coord0=4, dst_base=4, dst_stride0=1),
        make(Opcode.STORE, **half, coord0=4, src_base=4, src_stride0=1),
        tensors=(tensor("x", 8), output("y", 8)),
    )
    assert stored_in_full(given) == frozenset()
    np.testing.assert_array_equal(outputs_of(given, x=X[:8])["y"], [1] * 4 + [np.nan] * 4)
    assert_as_interpreted(given, x=X[:8])
