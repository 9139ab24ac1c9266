"""Dual prices of operators against the cheapest partitions of small graphs."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.graph.graph import Graph
from autotune.tuner.exact.dual_prices import dual_prices
from autotune.tuner.exact.wiring import Wiring, places
from tests.tuner.exact.brute_force import partitions
from tests.tuner.exact.drawn_networks import networks
from tests.tuner.exact.test_exact import convex_groups


@given(networks(5), st.integers(0, 2**32 - 1))
def test_a_partition_costs_at_least_what_its_groups_cost_above_prices(
    graph: Graph, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    wiring, count = Wiring(graph), len(graph.ops)
    columns = {m: float(rng.uniform(0.1, m.bit_count())) for m in convex_groups(graph)}
    for prices in dual_prices(count, columns):
        above = {m: cost - sum(prices[at] for at in places(m)) for m, cost in columns.items()}
        assert min(above.values()) >= -1e-6
        for partition in partitions(graph):
            groups = [wiring.members(names) for names in partition.groups]
            cost = sum(columns[group] for group in groups)
            assert cost == pytest.approx(prices.sum() + sum(above[group] for group in groups))


def test_prices_share_what_fusing_saves() -> None:
    for prices in dual_prices(2, {0b01: 3.0, 0b10: 5.0, 0b11: 6.0}):
        assert prices.sum() == pytest.approx(6.0)
        assert prices[0] <= 3.0 + 1e-9 and prices[1] <= 5.0 + 1e-9


def test_even_prices_let_no_operator_bear_the_cost_of_both() -> None:
    _, even = dual_prices(2, {0b01: 4.0, 0b10: 4.0, 0b11: 4.0})
    assert even == pytest.approx([2.0, 2.0])
