"""What several writers fill together: never more than they write, and quarters of a rectangle as the whole."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.isa.program import Instruction
from autotune.targets.native.analysis.affine import Affine
from autotune.targets.native.analysis.coverage import cover_together
from autotune.targets.native.analysis.memory_access import Dims, MemoryAccess
from autotune.targets.native.analysis.tree import Leaf

LEAF = Leaf(Instruction((0,)), 0, ())


def access(first: int, dims: Dims, written: bool) -> MemoryAccess:
    last = first + sum((n - 1) * stride for n, stride in dims)
    return MemoryAccess(LEAF, "x", written, False, None, Affine(first), None, dims, first, last)


def words(of: MemoryAccess) -> set[int]:
    places = itertools.product(*(range(n) for n, _ in of.dims))
    return {
        of.at.first + sum(i * stride for i, (_, stride) in zip(place, of.dims, strict=True))
        for place in places
    }


STEPS = st.lists(st.sampled_from((0, 1, 2, 3, 4, 6, 8, 12)), min_size=3, max_size=3)


@st.composite
def rectangles(draw: st.DrawFn) -> tuple[MemoryAccess, list[MemoryAccess]]:
    """A reader and writers around it, of few steps, so that many go together."""
    steps = draw(STEPS)
    dims = st.lists(st.tuples(st.integers(1, 4), st.sampled_from(steps)), min_size=1, max_size=3)
    places = st.tuples(st.integers(0, 12), dims.map(tuple))
    read = access(*draw(places), False)
    return read, [access(*draw(places), True) for _ in range(draw(st.integers(1, 4)))]


@given(drawn=rectangles())
def test_what_is_said_to_be_written_is_written(
    drawn: tuple[MemoryAccess, list[MemoryAccess]],
) -> None:
    read, writers = drawn
    if cover_together(writers, (), read):
        assert words(read) <= set[int]().union(*map(words, writers))


def test_equal_steps_of_a_reader_reach_further_than_one_of_them() -> None:
    read = access(8, ((3, 1), (2, 1)), False)
    writers = [access(2, ((2, 1), (4, 6), (2, 6)), True), access(5, ((3, 6),), True)]
    assert not cover_together(writers, (), read)


@pytest.mark.parametrize(("rows", "upper"), [(6, 3), (7, 4), (1, 1)])
def test_quarters_fill_the_whole(rows: int, upper: int) -> None:
    read = access(100, ((rows, 32), (16, 1)), False)
    quarters = [
        access(100 + 32 * row + column, ((count, 32), (8, 1)), True)
        for row, count in ((0, upper), (upper, rows - upper))
        for column in (0, 8)
        if count
    ]
    assert cover_together(quarters, (), read)
    assert not cover_together(quarters[1:], (), read)
    further = [access(100 - 32, ((rows + 2, 32), (8, 1)), True), *quarters[1::2]]
    assert cover_together(further, (), read), "the first one writes more than is read"
