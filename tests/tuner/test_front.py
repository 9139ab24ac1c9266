"""Fronts of plans: every corner of the hull is found, nothing beaten is kept, the product falls."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotune.errors import InputError
from autotune.tuner.front import FrontPoint, find_front, find_memory_front, least_product
from autotune.tuner.objective import NAMES, Objective


def world(costs: list[tuple[int, int]], asked: list[Objective] | None = None):
    """A search that knows every plan of a made-up network, by cycles and femtojoules."""

    def search(objective: Objective):
        if asked is not None:
            asked.append(objective)
        cycles, energy = min(costs, key=lambda c: (objective.of(*map(float, c)), c))
        found = SimpleNamespace(
            measured_cycles=cycles, energy_fj=energy, peak_bytes=0, groups=(), objective=objective
        )
        return SimpleNamespace(found=found, graphs=(SimpleNamespace(found=found),))

    return search


PLANS = st.lists(
    st.tuples(st.integers(1000, 9000), st.integers(10**6, 9 * 10**6)), min_size=1, max_size=40
)


def figures(front: tuple[FrontPoint, ...]) -> list[tuple[float, float]]:
    return [(one.cycles, one.energy_fj) for one in front]


def test_a_front_has_every_corner_of_the_convex_hull() -> None:
    corners = [(1000, 9_000_000), (1500, 5_000_000), (3000, 2_500_000), (8000, 1_000_000)]
    above = [(1600, 5_200_000), (2900, 4_000_000), (5000, 3_000_000), (9000, 9_000_000)]
    assert figures(find_front(world([*above, *corners]), 20)) == corners


def test_a_front_stops_searching_when_no_sum_finds_more() -> None:
    asked: list[Objective] = []
    front = find_front(world([(10, 100), (20, 50)], asked), 64)
    assert figures(front) == [(10, 100), (20, 50)]
    assert len(asked) == 3


def test_the_widest_gap_is_searched_first() -> None:
    plans = [
        (1000, 9_000_000),
        (1100, 8_900_000),
        (4000, 2_000_000),
        (4200, 1_950_000),
        (8000, 1_900_000),
    ]
    found: list[tuple[FrontPoint, ...]] = []
    find_front(world(plans), 3, found.append)
    assert [len(one) for one in found] == [1, 2, 3]
    assert (4000, 2_000_000) in figures(found[-1])


def test_one_plan_that_is_best_in_both_is_the_whole_front() -> None:
    assert figures(find_front(world([(5, 5), (6, 7)]), 5)) == [(5, 5)]


@settings(deadline=None)
@given(PLANS)
def test_nothing_on_a_front_is_beaten_and_both_ends_are_there(plans: list[tuple[int, int]]) -> None:
    front = figures(find_front(world(plans), 12))
    assert set(front) <= set(plans)
    for cycles, energy in front:
        assert not any(c <= cycles and e <= energy and (c, e) != (cycles, energy) for c, e in front)
    assert front[0][0] <= min(c for c, _ in plans) * 1.001
    assert front[-1][1] <= min(e for _, e in plans) * 1.001


@settings(deadline=None)
@given(PLANS)
def test_the_product_is_no_worse_than_at_both_ends(plans: list[tuple[int, int]]) -> None:
    found = least_product(world(plans)).found
    ends = [min(plans), min(plans, key=lambda c: (c[1], c))]
    assert found.measured_cycles * found.energy_fj <= min(c * e for c, e in ends)


def test_the_product_between_the_ends_is_found() -> None:
    found = least_product(world([(1000, 9_000_000), (2000, 2_000_000), (9000, 1_000_000)])).found
    assert (found.measured_cycles, found.energy_fj) == (2000, 2_000_000)


def test_no_search_is_spent_where_the_product_cannot_fall() -> None:
    asked: list[Objective] = []
    least_product(world([(1000, 1_010_000), (1005, 1_000_000)], asked))
    assert len(asked) == 3  # both ends, and the one chance between them


@pytest.mark.parametrize("text", [*NAMES, "latency+4e-07*energy", "latency+0.1*energy"])
def test_an_objective_is_read_as_it_was_written(text: str) -> None:
    one = Objective.parse(text)
    assert one.name == text
    assert Objective.parse(one.name) == one


@pytest.mark.parametrize(
    "text", ["", "speed", "latency+energy", "latency+x*energy", "latency+0*energy", "latency+-1*energy",
             "latency+nan*energy", "latency+inf*energy"],
)  # fmt: skip
def test_no_other_text_is_an_objective(text: str) -> None:
    with pytest.raises(
        InputError, match="is not one of: latency, energy, energy-delay, memory, or a sum"
    ):
        Objective.parse(text)


def test_a_cost_is_the_weighted_sum_or_the_product() -> None:
    cycles, energy = np.array([2.0, 3.0]), np.array([10.0, 20.0])
    assert Objective.weighted(0.5).of(cycles, energy).tolist() == [7.0, 13.0]
    assert Objective.ENERGY_DELAY.of(cycles, energy).tolist() == [20.0, 60.0]
    assert Objective.LATENCY.of(cycles, energy) is cycles
    assert Objective.ENERGY.of(cycles, energy) is energy


def by_memory(plans: list[tuple[int, int]], asked: list[Objective]):
    """A search on this CPU that knows every plan of a made-up network, by cycles and bytes."""

    def search(objective: Objective):
        asked.append(objective)
        bound = objective.most_bytes
        within = [plan for plan in plans if bound is None or plan[1] <= bound]
        least = min(plans, key=lambda plan: (plan[1], plan[0]))
        cycles, peak = min(within, default=least)
        found = SimpleNamespace(measured_cycles=cycles, energy_fj=None, peak_bytes=peak, groups=())
        return SimpleNamespace(found=found, graphs=(SimpleNamespace(found=found),))

    return search


def test_a_front_of_memory_has_both_ends_and_what_fits_between() -> None:
    asked: list[Objective] = []
    plans = [(10, 4096), (12, 1500), (30, 500), (31, 900), (50, 256), (40, 8000)]
    front = find_memory_front(by_memory(plans, asked), 5)
    assert [(one.cycles, one.peak_bytes) for one in front] == [
        (10, 4096),
        (12, 1500),
        (30, 500),
        (50, 256),
    ]
    assert asked[:2] == [Objective.LATENCY, Objective.MEMORY] and len(asked) == 5
    bounds = [one.most_bytes for one in asked[2:]]
    assert bounds == [512, 1024, 2048]


def test_a_front_of_memory_without_anything_to_trade_is_one_plan() -> None:
    asked: list[Objective] = []
    assert len(find_memory_front(by_memory([(10, 64)], asked), 9)) == 1
    assert len(asked) == 2
    assert len(find_memory_front(by_memory([(10, 64), (20, 0)], asked), 3)) == 2


@pytest.mark.parametrize(
    ("text", "most"),
    [("memory", 0), ("memory<=2MiB", 2 << 20), ("memory <= 1.5KiB", 1536), ("memory<=7", 7)],
)
def test_bounds_of_memory_are_read_as_they_are_written(text: str, most: int) -> None:
    objective = Objective.parse(text)
    assert objective.most_bytes == most and objective.is_memory and objective.unit == "cycles"
    assert Objective.parse(objective.name) == objective
    with pytest.raises(InputError, match="memory<=2MiB"):
        Objective.parse("memory<=2Mb")
