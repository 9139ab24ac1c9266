"""Packed constants hold the elements that panels say, however the tensor lies in memory."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from math import prod

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from autotune.isa.formats import Format
from autotune.isa.tile import row_major
from autotune.targets.arrays import ARRAY_TYPES
from autotune.targets.native.binding.packing import Packed

GUARD = np.float32(-7)


@st.composite
def factors(draw: st.DrawFn) -> tuple[Packed, tuple[int, ...]]:
    """A convolution's weights [kh, kw, ic, oc] in tiles of input and output channels."""
    kh, kw = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    inputs, tiles = draw(st.integers(1, 6)), draw(st.integers(1, 3))
    lanes, blocks = draw(st.integers(1, 9)), draw(st.integers(1, 2))
    shape = (kh, kw, inputs * tiles, lanes * blocks)
    dense = row_major(shape)
    moves = [(0, tiles, inputs * dense[2]), (1, blocks, lanes)]
    if draw(st.booleans()) and tiles == 1:  # as lowering gives what hangs together
        depths: tuple[tuple[int, int], ...] = ((kh * kw * inputs, dense[2]),)
    else:
        depths = ((kh, dense[0]), (kw, dense[1]), (inputs, dense[2]))
    kept = tuple(move for move in moves if draw(st.booleans()))
    first = 0 if len(kept) == 2 else lanes * (blocks - 1) * all(m[0] != 1 for m in kept)
    return Packed(0, first, kept, (lanes, 1), depths, draw(st.integers(1, 5))), shape


def expected(packed: Packed, tensor: np.ndarray) -> np.ndarray:
    """Element by element, from the definition."""
    flat = tensor.reshape(-1)
    extent, panels = packed.lanes[0], -(-packed.lanes[0] // packed.width)
    found = []
    for trips in product(*(range(n) for _, n, _ in packed.moves)):
        at = packed.first + sum(i * m[2] for i, m in zip(trips, packed.moves, strict=True))
        for panel in range(panels):
            for k in product(*(range(n) for n, _ in packed.depths)):
                row = at + sum(i * s for i, (_, s) in zip(k, packed.depths, strict=True))
                for lane in range(panel * packed.width, (panel + 1) * packed.width):
                    found.append(flat[row + lane * packed.lanes[1]] if lane < extent else 0)
    return np.array(found, np.float32)


@given(factors(), st.permutations(range(4)))
def test_panels_hold_the_same_however_the_tensor_lies_in_memory(
    factor: tuple[Packed, tuple[int, ...]], order: list[int]
) -> None:
    packed, shape = factor
    dense = np.arange(1, 1 + prod(shape), dtype=np.float32).reshape(shape)
    laid = np.ascontiguousarray(dense.transpose(order)).transpose(np.argsort(order))
    np.testing.assert_array_equal(laid, dense)
    wanted = expected(packed, dense)
    for tensor in (dense, laid):
        target = np.full(packed.elements + 1, GUARD)
        packed.pack(tensor, target[:-1])
        np.testing.assert_array_equal(target[:-1], wanted)
        assert target[-1] == GUARD


@given(factors(), st.sampled_from([Format.BF16, Format.INT8, Format.UINT8]))
def test_panels_of_narrow_numbers_hold_the_same(
    factor: tuple[Packed, tuple[int, ...]], format: Format
) -> None:
    packed, shape = factor
    packed = replace(packed, width=4 * packed.width)
    numbers = np.arange(prod(shape), dtype=np.int64).reshape(shape)
    tensor = numbers.astype(ARRAY_TYPES[format])
    narrow = replace(packed, format=format)
    assert 4 * narrow.elements == format.bytes * packed.elements
    target = np.full(narrow.elements + 1, GUARD)
    narrow.pack(tensor, target[:-1])
    wanted = expected(packed, tensor)
    np.testing.assert_array_equal(target[:-1].view(tensor.dtype), wanted)
    assert target[-1] == GUARD
