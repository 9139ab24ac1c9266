"""Tensors that live together share no byte, and the arena is as small as it can be where it is easy."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from autotune.targets.native.running.arena import Lifetime, placed

lifetimes = st.builds(
    lambda size, first, length: Lifetime(size, first, first + length),
    st.integers(1, 5000),
    st.integers(0, 12),
    st.integers(0, 5),
)


@given(st.lists(lifetimes, max_size=20))
def test_tensors_that_live_together_never_overlap(tensors: list[Lifetime]) -> None:
    arena = placed(tensors)
    for i, a in enumerate(tensors):
        assert arena.offsets[i] + a.size_bytes <= arena.size_bytes
        assert arena.offsets[i] % 64 == 0
        for j, b in enumerate(tensors[:i]):
            low, high = arena.offsets[i], arena.offsets[i] + a.size_bytes
            apart = high <= arena.offsets[j] or arena.offsets[j] + b.size_bytes <= low
            assert apart or not a.meets(b)


@given(st.lists(lifetimes, max_size=20))
def test_no_arena_is_smaller_than_what_lives_at_once(tensors: list[Lifetime]) -> None:
    arena = placed(tensors)
    assert arena.bound_bytes <= arena.size_bytes


@given(st.integers(2, 20), st.integers(1, 5000))
def test_a_chain_of_equal_tensors_takes_two_of_them(length: int, size: int) -> None:
    arena = placed([Lifetime(64 * size, i, i + 1) for i in range(length)])
    assert arena.size_bytes == arena.bound_bytes == 128 * size
