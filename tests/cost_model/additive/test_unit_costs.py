"""Unit costs of machines that are measured from outside: what kinds of work cost in common, and each beside it."""

from __future__ import annotations

import numpy as np
import pytest

from autotune.cost_model.additive.dataset import OperatorRows
from autotune.cost_model.additive.features import COSTED, FEATURES, PARTS
from autotune.cost_model.additive.training import base_seconds, fit_unit_costs

CALL, BYTE, RUN = 10e-6, 1e-9, 5e-6
RELU, ADD, VIEW = (COSTED.index(name) for name in ("relu", "add", "reshape"))
BYTES = PARTS.index("bytes")


def rows(groups: list[list[tuple[int, float]]], seconds: list[float]) -> OperatorRows:
    """Groups of operators, each its kind and bytes, with what they took."""
    owner = np.array([i for i, group in enumerate(groups) for _ in group])
    work = np.zeros((len(owner), 1 + len(PARTS)))
    for row, (kind, moved) in zip(work, [one for group in groups for one in group], strict=True):
        row[0], row[1], row[1 + BYTES] = kind, 1.0, moved
    names = np.array([str(i) for i in range(len(groups))])
    return OperatorRows(
        np.zeros((len(owner), len(FEATURES))), work, owner, np.array(seconds), np.ones(len(groups)), names, names
    )  # fmt: skip


def cost(group: list[tuple[int, float]]) -> float:
    return RUN + sum(CALL + BYTE * moved for _, moved in group)


def drawn(kinds: tuple[int, ...], count: int) -> list[list[tuple[int, float]]]:
    rng = np.random.default_rng(0)
    return [
        [
            (int(rng.choice(kinds)), float(10 ** rng.uniform(3, 6)))
            for _ in range(rng.integers(1, 6))
        ]
        for _ in range(count)
    ]


def test_costs_of_a_machine_that_adds_are_found() -> None:
    groups = drawn((RELU, ADD), 200)
    data = rows(groups, [cost(group) for group in groups])
    run, costs = fit_unit_costs(data)
    found = run + data.summed(base_seconds(data.work, costs))
    np.testing.assert_allclose(found, data.seconds, rtol=0.03)


def test_a_kind_of_one_large_group_costs_what_others_do() -> None:
    groups = drawn((RELU, ADD), 100)
    network = [(RELU, 1e5)] * 30 + [(VIEW, 1e4)]
    data = rows([*groups, network], [*map(cost, groups), 1.1 * cost(network)])
    _, costs = fit_unit_costs(data)
    view = rows([[(VIEW, 1e4)]], [1.0])
    (seconds,) = base_seconds(view.work, costs)
    assert seconds == pytest.approx(CALL + 1e4 * BYTE, rel=1.0)


def test_a_kind_that_many_groups_have_costs_what_they_show() -> None:
    groups = drawn((RELU, ADD), 200)
    dear = [cost(group) + 90e-6 * sum(kind == ADD for kind, _ in group) for group in groups]
    _, costs = fit_unit_costs(rows(groups, dear))
    assert costs[ADD, 0] == pytest.approx(100e-6, rel=0.1)
    assert CALL < costs[RELU, 0] < costs[ADD, 0] / 5


def test_a_kind_may_cost_many_times_what_others_do_where_some_groups_show_it() -> None:
    ordinary = drawn((RELU, ADD), 200)
    few = [[(RELU, 1e4), (VIEW, float(10 ** (4 + i / 5)))] for i in range(8)]
    dear = [cost(group) + 29 * BYTE * group[1][1] for group in few]
    data = rows([*ordinary, *few], [*map(cost, ordinary), *dear])
    _, costs = fit_unit_costs(data)
    view = rows([[(VIEW, 1e5)]], [1.0])
    (seconds,) = base_seconds(view.work, costs)
    assert seconds == pytest.approx(CALL + 30 * 1e5 * BYTE, rel=0.15)
    relu = rows([[(RELU, 1e5)]], [1.0])
    (seconds,) = base_seconds(relu.work, costs)
    assert seconds == pytest.approx(CALL + 1e5 * BYTE, rel=0.05)
