"""Fronts: what is kept is what nothing beats, and distances measure what they say."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.tuner.machines.front import distance, hypervolume, non_dominated

POINTS = st.lists(st.tuples(*[st.integers(1, 6).map(float)] * 3), min_size=1, max_size=12)


def beats(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
    return all(a <= b for a, b in zip(one, other, strict=True)) and one != other


@given(POINTS)
def test_a_point_is_kept_if_and_only_if_none_beats_it(points: list[tuple[float, ...]]) -> None:
    kept = set(non_dominated(points))
    for number, point in enumerate(points):
        assert (number in kept) == (not any(beats(other, point) for other in points))


@given(POINTS)
def test_a_tolerance_keeps_more(points: list[tuple[float, ...]]) -> None:
    assert set(non_dominated(points)) <= set(non_dominated(points, 0.1))


@given(POINTS)
def test_a_front_is_at_no_distance_of_all_points(points: list[tuple[float, ...]]) -> None:
    front = [points[i] for i in non_dominated(points)]
    assert distance(front, points) == 0.0


def test_a_distance_is_the_share_that_the_worst_served_point_lacks() -> None:
    assert distance([(1.1, 1.0, 1.0)], [(1.0, 1.0, 1.0)]) == pytest.approx(0.1)
    assert distance([(1.0, 2.0, 1.0), (2.0, 1.0, 1.0)], [(1.0, 1.0, 1.0)]) == pytest.approx(1.0)


@given(POINTS)
def test_a_hypervolume_is_the_share_of_cells_that_are_beaten(
    points: list[tuple[float, ...]],
) -> None:
    cells = np.stack(np.meshgrid(*[np.arange(1, 7)] * 3, indexing="ij"), axis=-1).reshape(-1, 3)
    covered = sum(bool((np.array(points) <= cell).all(axis=1).any()) for cell in cells)
    assert hypervolume(points, (7.0, 7.0, 7.0)) == pytest.approx(covered)
