"""What an operand reaches holds all its elements, and its span is exact."""

from __future__ import annotations

from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from autotune.cost_model.bound.footprint import Cache, Reach

DIMS = st.lists(st.tuples(st.integers(1, 5), st.integers(0, 40)), min_size=1, max_size=4)
MOVES = st.lists(st.tuples(st.integers(1, 4), st.integers(0, 60)), max_size=2)


def addresses(dims: list[tuple[int, int]]) -> set[int]:
    ranges = [range(0, n * stride, stride) if stride else (0,) for n, stride in dims]
    return {sum(place) for place in product(*ranges)}


@given(DIMS)
def test_a_rectangle_holds_its_elements(dims: list[tuple[int, int]]) -> None:
    reach, elements = Reach.of(dims), addresses(dims)
    assert reach.span == max(elements) + 1
    assert reach.lines >= len(elements)


@given(DIMS, MOVES)
def test_loops_reach_what_all_their_trips_do(
    dims: list[tuple[int, int]], moves: list[tuple[int, int]]
) -> None:
    reach, elements = Reach.of(dims).over(moves), addresses([*dims, *moves])
    assert reach.span == max(elements) + 1
    assert reach.lines >= len(elements)


def test_neighbours_take_no_more_lines_than_they_fill() -> None:
    assert Reach.of([(8, 64), (64, 1)]) == Reach(512, 512, 512)
    assert Reach.of([(8, 1024), (1, 1)]).bytes >= 8 * 32


def test_runs_are_what_a_call_finds_in_a_row() -> None:
    assert Reach.of([(8, 1024), (64, 1)]).run == 64
    assert Reach.of([(8, 1024), (64, 1)]).over([(4, 64)]).run == 64


def test_a_cache_holds_all_of_little_half_of_its_size_and_nothing_of_much() -> None:
    cache = Cache(1 << 20, 0.22)
    shares = [cache.held_share(size) for size in range(0, 1 << 21, 1 << 16)]
    assert shares[0] == 1.0
    assert shares[-1] == 0.0
    assert cache.held_share(1 << 20) == 0.5
    assert shares == sorted(shares, reverse=True)
    assert len(set(shares)) > 8
